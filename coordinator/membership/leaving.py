"""Every way out of a group: LeaveGroup, being expelled or fenced, and the end."""

from dataclasses import dataclass

from bellwether_kafka.coordinator.membership.commands import Fatal, NoteKind, Stopped
from bellwether_kafka.coordinator.membership.core import Core
from bellwether_kafka.coordinator.membership.errors import EXIT_CONFIG, EXIT_FENCED, Code, fatal_sentence
from bellwether_kafka.coordinator.membership.joining import Joining
from bellwether_kafka.coordinator.membership.requests import Timer
from bellwether_kafka.coordinator.membership.transitions import State


@dataclass(slots=True)
class Leaving:
    """`stopping`: whatever comes next is the end."""

    core: Core
    joining: Joining
    stopping: bool = False
    _fatal: Fatal | None = None

    def leave(self, reason: str, *, setback: bool = False) -> None:
        """LeaveGroup, then watch (or stop). `setback` delays the next adoption, longer each time in a row."""
        core = self.core
        core.note(NoteKind.LEFT, reason)
        if setback:
            self.core.policy.set_back(core.now)
        core.clear()
        core.go(State.LEAVING)
        core.reason = reason
        core.set_timer(Timer.LEAVE, core.config.leave_ms_max)
        self.send()

    def send(self) -> None:
        self.core.requests.leave(self.core.reason)

    def timed_out(self) -> None:
        self.core.alert("the broker did not answer our LeaveGroup in time")
        self.left()

    def lost(self, reason: str) -> None:
        """Expelled, or the broker forgot the group: leadership is lost. Joining at once would make us a worker."""
        self.core.policy.set_back(self.core.now)
        self.core.note(NoteKind.WATCHING, reason)
        self.left()

    def left(self) -> None:
        self.core.forget()
        if self.stopping:
            self._finish()
            return
        self.core.go(State.WATCHING)
        self.core.set_timer(Timer.WATCH, self.core.config.watch_interval_ms)

    def give_up(self, reason: str) -> None:
        if self.core.requests.member_id:
            self.leave(reason, setback=True)
        else:
            self.lost(reason)

    def keep_out(self, reason: str) -> None:
        """An operator's order."""
        core = self.core
        if core.requests.member_id or self.joining.parked_static:
            if core.state is not State.LEAVING:
                self.leave(reason)
        elif core.state is not State.WATCHING:
            self.left()

    def stop(self) -> None:
        """SIGTERM. A static leader in Stable may fall silent: its successor takes over within the session
        (docs/reference/broker-behaviour.md#static-membership)."""
        core, config = self.core, self.core.config
        self.stopping = True
        if core.state in (State.SYNCING, State.LEAVING):
            return  # its answer ends this
        quiet = core.state is State.STABLE and config.instance_id is not None and not config.leave_on_stop
        in_group = core.requests.member_id or self.joining.parked_static
        if quiet or core.state is State.WATCHING or not in_group:
            self._finish()
        else:
            self.leave("we are shutting down")

    # ---- what can never work ---------------------------------------------------------------------------------------

    def fail_code(self, code: int) -> None:
        config = self.core.config
        if code == Code.FENCED_INSTANCE_ID:
            self.core.requests.member_id = ""  # the slot belongs to the other process: nothing of ours to leave
            if config.standby:
                self._fenced()
                return
        self.fail(fatal_sentence(code, config), EXIT_FENCED if code == Code.FENCED_INSTANCE_ID else EXIT_CONFIG)

    def fail(self, message: str, exit_code: int) -> None:
        """The end for this group. A member leaves first, so that nobody waits for our session to expire."""
        self._fatal = self._fatal or Fatal(message, exit_code)
        self.stopping = True
        if self.core.requests.member_id and self.core.state is not State.LEAVING:
            self.leave(message)
        else:
            self._finish()

    def _fenced(self) -> None:
        """Another sidecar has our seat. Where nobody told us that it would, ever longer pauses keep two that do not
        hear each other from taking it from one another for ever."""
        pause_s = self.core.permission.fenced(expected=self.stopping)
        if pause_s:
            self.core.policy.wait_until(self.core.now + pause_s)
        self.core.note(NoteKind.WATCHING, "another sidecar with our instance id leads now")
        self.left()

    def _finish(self) -> None:
        core = self.core
        core.clear()
        core.go(State.STOPPED)
        if self._fatal is not None:
            core.send(self._fatal)
        core.send(Stopped())
