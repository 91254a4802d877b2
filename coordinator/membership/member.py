"""Being a member at all: finding the coordinator node, session, errors, coming back, leaving and stopping.

`GroupMembership` adds what only a leader does. Both are one state machine, split over two files.
"""

from enum import Enum, auto

from bellwether_kafka.coordinator.membership.commands import Fatal, Leave, Note, NoteKind, Stopped
from bellwether_kafka.coordinator.membership.config import MembershipConfig
from bellwether_kafka.coordinator.membership.errors import (
    EXIT_CONFIG,
    Action,
    Code,
    action_for,
    exit_code_for,
    fatal_sentence,
    name_of,
)
from bellwether_kafka.coordinator.membership.events import (
    CoordinatorAnswer,
    Failure,
    JoinedMember,
    LeaveAnswer,
    RequestFailed,
    TurnChanged,
)
from bellwether_kafka.coordinator.membership.requests import NO_GENERATION, Kind, Requests, Timer, Timers
from bellwether_kafka.coordinator.membership.rules import (
    Adoption,
    Coalescing,
    alone,
    backed_off_ms,
    spread,
    subscription,
    with_own,
)

JOIN_SHARE = 0.75  # of our session: so long a JoinGroup may be parked before it is sent again


class State(Enum):
    WATCHING = auto()
    APPROACHING = auto()
    JOINING = auto()
    DECIDING = auto()
    SYNCING = auto()
    STABLE = auto()
    COALESCING = auto()
    LEAVING = auto()
    STOPPED = auto()


class Member:
    """One member of one group; not useful alone."""

    def __init__(self, config: MembershipConfig) -> None:
        self.config = config
        self.state = State.WATCHING
        self.members: tuple[JoinedMember, ...] = ()
        self._now = 0.0
        self._requests = Requests(config)
        self._timers = Timers()
        self._adoption = Adoption(config)
        self._spread = spread(config.group_id)
        self._reached = False  # the broker has answered us at least once
        self._refused = False  # our credentials, since the last answer
        self._attempts = 0
        self._doubt_since: float | None = None
        self._alive_at = 0.0
        self._heartbeat_sent_at = 0.0
        self._join_sent_at = 0.0
        self._heartbeat_generation = NO_GENERATION
        self._reason = ""  # of the JoinGroup or LeaveGroup under way
        self._slot_taken = False  # our instance id was a member before we joined
        self._assignments: tuple[tuple[str, bytes], ...] = ()
        self._coalescing: Coalescing | None = None
        self._app_topics: tuple[str, ...] = ()
        self._listed: tuple[str, ...] = config.topics
        self._list_app_topics = False
        self._wanted = ""
        self._withheld = False
        self._followups = 0
        self._rebalanced_at = float("-inf")
        self._stopping = False
        self._kept_out = ""  # by an operator's order
        self._our_turn = not config.standby
        self._fences = 0
        self._fatal: Fatal | None = None

    @property
    def member_id(self) -> str:
        return self._requests.member_id

    @property
    def generation(self) -> int:
        return self._requests.generation

    @property
    def our_turn(self) -> bool:
        """False while another sidecar with our instance id is to lead."""
        return self._our_turn

    @property
    def alone(self) -> bool:
        """Nobody but us was in the last generation that we led."""
        return alone(self.members, self.member_id)

    @property
    def doubt_since(self) -> float | None:
        """Since when requests have been answered with errors that nobody can explain, None while they are not."""
        return self._doubt_since

    def farewell(self, reason: str) -> Leave | None:
        """The LeaveGroup of a runtime that can go on no longer; None where there is nothing to leave."""
        return self._requests.last_leave(reason)

    # ---- time ----------------------------------------------------------------------------------------------------

    def _set(self, timer: Timer, delay_ms: float) -> None:
        self._timers.set(timer, self._now + delay_ms / 1000)

    def _back_off(self) -> None:
        config = self.config
        delay_ms = backed_off_ms(config.retry_backoff_ms, self._attempts, config.retry_backoff_ms_max)
        self._attempts += 1
        self._requests.paused = True
        self._set(Timer.RETRY, delay_ms * self._spread)

    def _clear_all(self) -> None:
        """Nothing is awaited any more, no timer runs, no back-off holds."""
        self._requests.abandon(*Kind)
        self._requests.paused = False
        self._timers.clear_all()
        self._coalescing = None

    def _is_member(self) -> bool:
        return bool(self.member_id) and self.generation != NO_GENERATION

    def _session_expired(self) -> bool:
        """The broker may have expelled us: it has not heard of us for a session timeout (pauses, sleeping machines)."""
        return self._is_member() and self._now - self._alive_at > self.config.session_timeout_ms / 1000

    def _heartbeat(self) -> None:
        config = self.config
        hurried = self._withheld and self.state is State.STABLE and not self._followups
        self._set(Timer.HEARTBEAT, config.followup_heartbeat_ms if hurried else config.heartbeat_interval_ms)
        if self._requests.heartbeat():
            self._heartbeat_sent_at = self._now
            self._heartbeat_generation = self.generation

    def _proceed(self) -> None:
        """Does what the present state waits for: at the start, after a back-off, with a new coordinator node."""
        if self._requests.node is None:
            self._requests.find()
            return
        match self.state:
            case State.WATCHING:
                self._requests.describe()
            case State.JOINING:
                self._send_join()
            case State.SYNCING:
                self._requests.sync(self._assignments)
            case State.LEAVING:
                self._requests.leave(self._reason)
        if self.state not in (State.WATCHING, State.LEAVING, State.STOPPED) and self._is_member():
            self._heartbeat()

    # ---- trouble -------------------------------------------------------------------------------------------------

    def _request_failed(self, event: RequestFailed) -> None:
        kind = self._requests.arrived(event.request_id)
        if kind is None:
            return
        if event.failure is Failure.UNSUPPORTED:
            self._fail_code(Code.UNSUPPORTED_VERSION)
        elif event.failure is Failure.AUTHENTICATION and not self._reached:
            self._fail(
                f"Group '{self.config.group_id}': the broker refused our credentials ({event.reason}); check"
                " security.protocol and the sasl.* or ssl.* properties.",
                EXIT_CONFIG,
            )
        elif event.failure is Failure.MALFORMED and kind is Kind.JOIN:
            self._give_up(f"the answer to our JoinGroup cannot be read: {event.reason}")
        else:
            if event.failure is Failure.AUTHENTICATION:
                self._login_refused(event.reason)
            self._lost_node(kind)

    def _login_refused(self, reason: str) -> None:
        """Credentials can be put right, so we go on asking; until then a member leads when our session ends."""
        if not self._refused:
            self._refused = True
            self._alert(
                f"the brokers refuse our credentials now ({reason}); check security.protocol and the sasl.* or ssl.*"
                " properties, and restart where a password has changed"
            )

    def _failed(self, kind: Kind, code: int) -> None:
        """Handles an answer with an error code; docs/reference/broker-behaviour.md#error-codes has the table."""
        match action_for(code):
            case Action.RETRY:
                self._again(kind)
            case Action.FIND:
                self._lost_node(kind)
            case Action.REJOIN:
                self._rejoin(f"{kind.name} was answered with {name_of(code)}")
            case Action.LOST:
                self._lost_membership(f"{kind.name} was answered with {name_of(code)}")
            case Action.FATAL:
                self._fail_code(code)
            case _:
                self._doubt(kind, code)

    def _again(self, kind: Kind) -> None:
        if kind is Kind.SYNC:
            # Never Sync twice on a guess: the next join round tells what the broker made of the first.
            self.state = State.JOINING
        if kind is not Kind.HEARTBEAT:  # the next one comes anyway
            self._back_off()

    def _lost_node(self, kind: Kind) -> None:
        """The node does not answer, or is not the group's coordinator any more; our member id stays valid."""
        self._requests.node = None
        if kind is Kind.SYNC:
            self.state = State.JOINING
        self._back_off()
        if kind is Kind.DESCRIBE and self.state is State.COALESCING:
            self._rejoin(self._reason)

    def _doubt(self, kind: Kind, code: int) -> None:
        """Waits on an unexplained error for a bounded time, then leaves (docs/reference/broker-behaviour.md#limits)."""
        if self._doubt_since is None:
            self._doubt_since = self._now
        doubtful_ms = (self._now - self._doubt_since) * 1000
        if self.state is State.WATCHING or doubtful_ms < self.config.doubt_ms_max:
            self._again(kind)
            return
        reason = f"{kind.name} has been answered with {name_of(code)} for {doubtful_ms / 1000:.0f} s"
        self._alert(reason)
        self._give_up(reason)

    def _give_up(self, reason: str) -> None:
        if self.member_id:
            self._leave(reason, setback=True)
        else:
            self._lost_membership(reason)

    def _fail_code(self, code: int) -> None:
        config = self.config
        if code == Code.FENCED_INSTANCE_ID:
            self._requests.member_id = ""  # the slot belongs to the other process: nothing of ours to leave
            if config.standby:
                self._fenced()
                return
        sentence = fatal_sentence(
            code,
            group=config.group_id,
            instance=config.instance_id,
            protocols=config.protocols,
            session_timeout_ms=config.session_timeout_ms,
        )
        self._fail(sentence, exit_code_for(code))

    def _fail(self, message: str, exit_code: int) -> None:
        """The end for this group. A member leaves first, so that nobody waits for our session to expire."""
        self._fatal = self._fatal or Fatal(message, exit_code)
        self._stopping = True
        if self.member_id and self.state is not State.LEAVING:
            self._leave(message)
        else:
            self._finish()

    def _note(self, kind: NoteKind, reason: str) -> None:
        self._requests.out.append(Note(kind, reason, self.generation))

    def _alert(self, reason: str) -> None:
        self._note(NoteKind.ALERT, reason)

    # ---- coming back ---------------------------------------------------------------------------------------------

    def _found(self, answer: CoordinatorAnswer) -> None:
        if answer.error == 0 and answer.node is not None:
            self._requests.node = answer.node
            if self._requests.parked_elsewhere():
                self._requests.abandon(Kind.JOIN, Kind.SYNC)
                if self.state is State.SYNCING:
                    self.state = State.JOINING
            self._proceed()
        elif action_for(answer.error) is Action.FATAL:
            self._fail_code(answer.error)
        else:
            self._back_off()

    def _rejoin(self, reason: str) -> None:
        """Joins the next generation. From the leader, in Stable, this starts one
        (docs/reference/broker-behaviour.md#joingroup-by-state)."""
        if self._stopping:
            self._leave("we are shutting down")
            return
        self._requests.abandon(Kind.JOIN, Kind.SYNC, Kind.DESCRIBE)
        self._timers.clear(Timer.DECISION, Timer.COALESCE, Timer.FOLLOWUP, Timer.REBALANCE)
        self._coalescing = None
        self.state = State.JOINING
        self._reason = reason
        self._note(NoteKind.REJOINING, reason)
        self._send_join()

    def _join_overdue(self) -> bool:
        """Our JoinGroup may be lost on a connection that died in silence: our heartbeats, on another one, would keep
        our seat, and the round would wait for us as long as its slowest member may take."""
        waited_ms = (self._now - self._join_sent_at) * 1000
        parked = self._is_member() and self._requests.waits_for(Kind.JOIN)
        return parked and waited_ms >= self.config.session_timeout_ms * JOIN_SHARE

    def _join_anew(self) -> None:
        """Joins on a new connection. If the first JoinGroup has arrived, this one replaces it and changes nothing: only
        in Stable does it open a round (docs/reference/broker-behaviour.md#joingroup-by-state)."""
        self._requests.abandon(Kind.JOIN)
        self._send_join()

    def _send_join(self) -> None:
        if not self._requests.waits_for(Kind.JOIN):
            self._join_sent_at = self._now
        self._listed = self._app_topics if self._list_app_topics else self.config.topics
        self._requests.join(subscription(self._listed, streams=self.config.streams), self._reason)

    def _sync(self, assignments: tuple[tuple[str, bytes], ...]) -> None:
        self._assignments = with_own(assignments, self.member_id, self.config)
        self.state = State.SYNCING
        self._requests.sync(self._assignments)

    # ---- making way ----------------------------------------------------------------------------------------------

    def _fenced(self) -> None:
        """Another sidecar has our seat. Where nobody told us that it would, ever longer pauses keep two that do not
        hear each other from taking it from one another for ever."""
        if self._our_turn and not self._stopping:
            config = self.config
            delay_ms = backed_off_ms(config.readopt_ms, self._fences, config.readopt_ms_max)
            self._fences += 1
            self._adoption.wait_until(self._now + delay_ms * self._spread / 1000)
        self._our_turn = False
        self._note(NoteKind.WATCHING, "another sidecar with our instance id leads now")
        self._left()

    def _turn_changed(self, event: TurnChanged) -> None:
        if not event.ours:
            self._fences = 0
        if event.ours == self._our_turn:
            return
        self._our_turn = event.ours
        if event.ours and self.state is State.WATCHING:
            self._proceed()

    def _keep_out(self, reason: str) -> None:
        """Leaves if need be, and does not come back before an operator lets us; "" lets us."""
        self._kept_out = reason
        if not reason:
            if self.state is State.WATCHING:
                self._proceed()
        elif self.member_id or self._parked_static():
            if self.state is not State.LEAVING:
                self._leave(reason)
        elif self.state is not State.WATCHING:
            self._left()

    # ---- leaving and stopping ------------------------------------------------------------------------------------

    def _leave(self, reason: str, *, setback: bool = False) -> None:
        """LeaveGroup, then watch (or stop). `setback` delays the next adoption, longer each time in a row."""
        self._note(NoteKind.LEFT, reason)
        if setback:
            self._adoption.set_back(self._now)
        self._clear_all()
        self.state = State.LEAVING
        self._reason = reason
        self._set(Timer.LEAVE, self.config.leave_ms_max)
        self._requests.leave(reason)

    def _leave_answered(self, answer: LeaveAnswer) -> None:
        if answer.error and action_for(answer.error) in (Action.RETRY, Action.FIND, Action.DOUBT):
            self._failed(Kind.LEAVE, answer.error)  # again, until Timer.LEAVE
        else:
            self._left()

    def _lost_membership(self, reason: str) -> None:
        """Expelled, or the broker forgot the group: leadership is lost. Joining at once would make us a worker."""
        self._adoption.set_back(self._now)
        self._note(NoteKind.WATCHING, reason)
        self._left()

    def _left(self) -> None:
        self._clear_all()
        self._requests.member_id = ""
        self._requests.generation = NO_GENERATION
        self.members = ()
        self._assignments = ()
        self._wanted = ""
        self._withheld = False
        self._followups = 0
        self._attempts = 0
        self._doubt_since = None
        self._list_app_topics = False
        if self._stopping:
            self._finish()
            return
        self.state = State.WATCHING
        self._set(Timer.WATCH, self.config.watch_interval_ms)

    def _stop(self) -> None:
        """SIGTERM. A static leader in Stable may fall silent: its successor takes over within the session
        (docs/reference/broker-behaviour.md#static-membership)."""
        self._stopping = True
        config = self.config
        if self.state in (State.SYNCING, State.LEAVING):
            return  # its answer ends this
        quiet = self.state is State.STABLE and config.instance_id is not None and not config.leave_on_stop
        if quiet or self.state is State.WATCHING or not (self.member_id or self._parked_static()):
            self._finish()
        else:
            self._leave("we are shutting down")

    def _parked_static(self) -> bool:
        """A first static JoinGroup is parked: the broker has made an id that we do not know yet, but the instance id
        removes it. A slot that was there before may belong to another process and stays alone."""
        return self._requests.waits_for(Kind.JOIN) and self.config.instance_id is not None and not self._slot_taken

    def _finish(self) -> None:
        self._clear_all()
        self.state = State.STOPPED
        if self._fatal is not None:
            self._requests.out.append(self._fatal)
        self._requests.out.append(Stopped())
