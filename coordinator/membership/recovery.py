"""Handles errors and lost coordinator nodes, and rejoins: after a back-off, at another node, or for the next
generation."""

from dataclasses import dataclass

from bellwether_kafka.coordinator.membership.commands import NoteKind
from bellwether_kafka.coordinator.membership.core import Core
from bellwether_kafka.coordinator.membership.error_codes import Action, Code, action_for, name_of, refusal
from bellwether_kafka.coordinator.membership.events import CoordinatorAnswer, Failure, LeaveAnswer, RequestFailed
from bellwether_kafka.coordinator.membership.joining_leaving import Joining, Leaving
from bellwether_kafka.coordinator.membership.requests import Kind, Timer
from bellwether_kafka.coordinator.membership.role import NotLeading, Obstacle
from bellwether_kafka.coordinator.membership.transitions import State


@dataclass(slots=True)
class Recovery:
    core: Core
    joining: Joining
    leaving: Leaving

    def proceed(self) -> None:
        """Sends what the present state needs: at the start, after a back-off, or after a coordinator node was found."""
        core = self.core
        if core.requests.node is None:
            core.requests.find()
            return
        match core.state:
            case State.WATCHING:
                core.describe()
            case State.JOINING:
                self.joining.send()
            case State.SYNCING:
                self.joining.send_sync()
            case State.LEAVING:
                self.leaving.send()
        if core.is_member and core.state is not State.LEAVING:
            core.heartbeat()

    def retry(self) -> None:
        self.core.requests.paused = False
        self.proceed()

    def rejoin(self, reason: str) -> None:
        """Joins the next generation. In Stable, the leader's JoinGroup starts one
        (docs/internals/broker-behaviour.md#joingroup-by-state)."""
        if self.leaving.stopping:
            self.leaving.leave("Bellwether is shutting down", NotLeading.STOPPED)
            return
        core = self.core
        core.requests.abandon(Kind.JOIN, Kind.SYNC, Kind.DESCRIBE)
        core.timers.clear(Timer.DECISION, Timer.COALESCE, Timer.FOLLOWUP, Timer.REBALANCE)
        core.note(NoteKind.REJOINING, reason)
        self.joining.begin(reason)

    # ---- answers ---------------------------------------------------------------------------------------------------

    def coordinator_found(self, answer: CoordinatorAnswer) -> None:
        core = self.core
        if answer.error == 0 and answer.node is not None:
            core.requests.node = answer.node
            core.refusal = None
            if core.requests.parked_elsewhere():
                core.requests.abandon(Kind.JOIN, Kind.SYNC)
                self._sync_is_outdated()
            self.proceed()
        elif action_for(answer.error) is Action.END and answer.error != Code.FENCED_INSTANCE_ID:
            self.leaving.fail_code(answer.error)
        else:  # FindCoordinator names no instance id, so FENCED_INSTANCE_ID is no valid answer
            core.refused(refusal(answer.error, core.config))
            core.back_off()

    def left(self, answer: LeaveAnswer) -> None:
        explained = refusal(answer.error, self.core.config)
        if answer.error and not explained and action_for(answer.error) in (Action.RETRY, Action.FIND, Action.BACK_OFF):
            self.failed(Kind.LEAVE, answer.error)  # retried until Timer.LEAVE
        else:
            self.leaving.left()

    def failed(self, kind: Kind, code: int) -> None:
        """Handles an answer with an error code (table: docs/internals/broker-behaviour.md#error-codes)."""
        match action_for(code):
            case Action.RETRY:
                self._again(kind)
            case Action.FIND:
                self._lost_node(kind)
            case Action.REJOIN:
                self.core.leadership.outdated = code == Code.ILLEGAL_GENERATION
                self.rejoin(f"{kind.name} was answered with {name_of(code)}")
            case Action.LOST:
                self.leaving.lost(f"{kind.name} was answered with {name_of(code)}")
            case Action.END:
                self.leaving.fail_code(code)
            case _:
                self._back_off_or_leave(kind, code)

    def request_failed(self, kind: Kind, event: RequestFailed) -> None:
        """Handles a request that got no answer."""
        match event.failure:
            case Failure.UNSUPPORTED if kind is Kind.LEAVE:
                self.leaving.left()
            case Failure.UNSUPPORTED:
                self._back_off_or_leave(kind, Code.UNSUPPORTED_VERSION)
            case Failure.MALFORMED if kind is Kind.JOIN:
                self.leaving.give_up(f"the answer to JoinGroup cannot be read: {event.reason}")
            case Failure.AUTHENTICATION:
                self._login_refused(event.reason)
                self._lost_node(kind)
            case _:
                self._lost_node(kind)

    def _login_refused(self, reason: str) -> None:
        """Credentials can be corrected, and a broker that starts may not know them yet; meanwhile a member leads once
        the session ends."""
        sentence = (
            f"Group '{self.core.config.group_id}': the brokers refuse Bellwether's credentials ({reason}); check"
            " security.protocol and the sasl.* or ssl.* properties, and restart where a password has changed"
        )
        self.core.refused(Obstacle(NotLeading.DENIED, sentence))

    def _again(self, kind: Kind) -> None:
        if kind is Kind.SYNC:
            self._sync_is_outdated()
        if kind is not Kind.HEARTBEAT:  # the next heartbeat is sent anyway
            self.core.back_off()

    def _lost_node(self, kind: Kind) -> None:
        """Searches for the coordinator node again, because the node does not answer or has changed. The member id stays
        valid."""
        core = self.core
        core.requests.node = None
        if kind is Kind.SYNC:
            self._sync_is_outdated()
        core.back_off()
        if kind is Kind.DESCRIBE and core.state is State.COALESCING:
            self.rejoin(core.reason)

    def _sync_is_outdated(self) -> None:
        """Goes to JOINING instead of repeating the SyncGroup: only the next rebalance shows what the broker made of the
        first."""
        if self.core.state is State.SYNCING:
            self.core.go(State.JOINING)

    def _back_off_or_leave(self, kind: Kind, code: int) -> None:
        """Retries for a bounded time, then leaves (docs/internals/broker-behaviour.md#limits). A membership without
        heartbeats ends by itself, so a refusal that a moment ends costs no rebalance."""
        core = self.core
        core.refused(refusal(code, core.config))
        if core.unclear_since is None:
            core.unclear_since = core.now
        unclear_ms = (core.now - core.unclear_since) * 1000
        if core.state in (State.WATCHING, State.LEAVING) or unclear_ms < core.config.unclear_ms_max:
            self._again(kind)
            return
        reason = f"{kind.name} has been answered with {name_of(code)} for {unclear_ms / 1000:.0f} s"
        core.alert(reason)
        why = core.refusal or Obstacle(NotLeading.SET_BACK, reason)
        self.leaving.give_up(why.sentence, why.reason)
