"""The way into a group, every way out, and the way back: JoinGroup and SyncGroup; LeaveGroup, expulsion, fencing and
shutdown; and after errors and lost coordinator nodes a back-off, another node, or the next generation."""

from dataclasses import dataclass, field

from bellwether_kafka.coordinator.membership.core import Core
from bellwether_kafka.coordinator.membership.events import (
    VACANT,
    CoordinatorAnswer,
    Failure,
    Fatal,
    JoinAnswer,
    LeaveAnswer,
    MembershipStopped,
    NoteKind,
    RequestFailed,
)
from bellwether_kafka.coordinator.membership.lead_rules import subscription, with_own
from bellwether_kafka.coordinator.membership.requests import Kind, Timer
from bellwether_kafka.coordinator.membership.role import (
    EXIT_CONFIG,
    EXIT_FENCED,
    Action,
    Code,
    NotLeading,
    Obstacle,
    action_for,
    name_of,
    refusal,
)
from bellwether_kafka.coordinator.membership.transitions import State

JOIN_SHARE = 0.75  # share of Bellwether's session after which a parked JoinGroup is sent again


@dataclass(slots=True)
class Joining:
    core: Core
    slot_taken: bool = False  # a member had Bellwether's instance id before it joined
    app_topics: tuple[str, ...] = ()
    listed: tuple[str, ...] = field(init=False)  # the topics in Bellwether's last JoinGroup
    _sent_at: float = 0.0
    _into_empty: bool = False  # the JoinGroup went to a group without members

    def __post_init__(self) -> None:
        self.listed = self.core.config.topics

    @property
    def parked_static(self) -> bool:
        """True if a first static JoinGroup is parked: the broker has created a member id that Bellwether does not know
        yet, so it can be removed by the instance id only. False if the slot existed before, as it may belong to another
        process."""
        core = self.core
        return core.requests.waits_for(Kind.JOIN) and core.config.instance_id is not None and not self.slot_taken

    def plan_topics(self, topics: tuple[str, ...]) -> None:
        """Keeps the application's topics of the last plan that has any."""
        self.app_topics = topics or self.app_topics

    def send(self) -> None:
        core = self.core
        if not core.requests.waits_for(Kind.JOIN):
            self._sent_at = core.now
        self.listed = self.app_topics if core.leadership.lists_app_topics else core.config.topics
        core.requests.join(subscription(self.listed, streams=core.config.streams), core.reason)

    def admitted(self, answer: JoinAnswer) -> None:
        """Measures the broker's wait for first members: in the first rebalance of a formerly empty group, a Bellwether
        that is alone is answered when that wait is over (docs/internals/broker-behaviour.md#states)."""
        alone = {member.member_id for member in answer.members} <= {answer.member_id}
        if self._into_empty and alone and not answer.skip_assignment:
            self.core.session.broker_wait_ms = (self.core.now - self._sent_at) * 1000
        self._into_empty = False

    def begin(self, reason: str) -> None:
        self._into_empty = self.core.sighting.state in VACANT and not (self.slot_taken or self.core.is_member)
        self.core.go(State.JOINING)
        self.core.reason = reason
        self.send()

    def send_overdue(self) -> None:
        """Sends a JoinGroup again, on a new connection, if it has been parked for too long.

        It may be lost on a connection that died silently. Heartbeats on the other connection would then keep the
        membership, and the rebalance would wait for Bellwether as long as its slowest member may take. If the first
        JoinGroup has arrived, the second replaces it and changes nothing: only in Stable does it open a rebalance
        (docs/internals/broker-behaviour.md#joingroup-by-state).
        """
        core = self.core
        waited_ms = (core.now - self._sent_at) * 1000
        parked = core.is_member and core.requests.waits_for(Kind.JOIN)
        if parked and waited_ms >= core.config.session_timeout_ms * JOIN_SHARE:
            core.requests.abandon(Kind.JOIN)
            self.send()

    def sync(self, assignments: tuple[tuple[str, bytes], ...]) -> None:
        core = self.core
        core.leadership.assignments = with_own(assignments, core.requests.member_id, core.config)
        core.go(State.SYNCING)
        self.send_sync()

    def send_sync(self) -> None:
        self.core.requests.sync(self.core.leadership.assignments)


@dataclass(slots=True)
class Leaving:
    """Sends LeaveGroup and ends memberships. If `stopping`, the machine stops as soon as Bellwether is out."""

    core: Core
    joining: Joining
    stopping: bool = False

    def leave(self, reason: str, why: NotLeading, *, setback: bool = False) -> None:
        """Sends LeaveGroup, then watches the group or stops. `setback` delays the next adoption, for longer each time
        in a row."""
        core = self.core
        core.note(NoteKind.LEFT, reason, why.value)
        if setback:
            core.policy.set_back(core.now, Obstacle(why, reason))
        core.clear()
        core.go(State.LEAVING)
        core.reason = reason
        core.set_timer(Timer.LEAVE, core.config.leave_ms_max)
        self.send()

    def send(self) -> None:
        self.core.requests.leave(self.core.reason)

    def timed_out(self) -> None:
        if self.core.state is not State.LEAVING:  # the shutdown waited for SyncGroup or the next rebalance
            self.leave("Bellwether is shutting down", NotLeading.STOPPED)
            return
        self.core.alert("the broker did not answer LeaveGroup in time")
        self.left()

    def lost(self, reason: str, why: NotLeading = NotLeading.SET_BACK) -> None:
        """Ends the membership after the broker has expelled Bellwether or lost the group. Joining at once would make
        Bellwether a follower."""
        self.core.policy.set_back(self.core.now, Obstacle(why, reason))
        self.core.note(NoteKind.WATCHING, reason)
        self.left()

    def left(self) -> None:
        self.core.forget()
        if self.stopping:
            self._finish()
            return
        self.core.go(State.WATCHING)
        self.core.set_timer(Timer.WATCH, self.core.config.watch_interval_ms)

    def give_up(self, reason: str, why: NotLeading = NotLeading.SET_BACK) -> None:
        if self.core.requests.member_id:
            self.leave(reason, why, setback=True)
        else:
            self.lost(reason, why)

    def keep_out(self, reason: str) -> None:
        """Leaves the group because of an operator's order."""
        core = self.core
        if core.requests.member_id or self.joining.parked_static:
            if core.state is not State.LEAVING:
                self.leave(reason, NotLeading.ORDERED_OUT)
        elif core.state is not State.WATCHING:
            self.left()

    def release(self, reason: str) -> None:
        """Leaves the group because of an operator's order that holds while no other member is there."""
        if self.core.state in (State.JOINING, State.STABLE):
            self.keep_out(reason)

    def stop(self) -> None:
        """Shuts down (SIGTERM). A static leader in Stable may stop without LeaveGroup: its successor takes over within
        the session (docs/internals/broker-behaviour.md#static-membership)."""
        core, config = self.core, self.core.config
        self.stopping = True
        if core.state is State.SYNCING:
            core.set_timer(Timer.LEAVE, config.request_timeout_ms)
        if core.state in (State.SYNCING, State.LEAVING):
            return  # the answer to SyncGroup or LeaveGroup ends the shutdown
        quiet = core.state is State.STABLE and config.instance_id is not None and not config.leave_on_stop
        in_group = core.requests.member_id or self.joining.parked_static
        if quiet or core.state is State.WATCHING or not in_group:
            self._finish()
        else:
            self.leave("Bellwether is shutting down", NotLeading.STOPPED)

    # ---- what can never work ---------------------------------------------------------------------------------------

    def fail_code(self, code: int) -> None:
        config = self.core.config
        if code == Code.FENCED_INSTANCE_ID:
            self.core.requests.member_id = ""  # the slot is the other process's: Bellwether has nothing to leave
            if config.standby:
                self._fenced()
                return
        self.fail(refusal(code, config) or Obstacle(NotLeading.UNFIT, name_of(code)))

    def fail(self, why: Obstacle) -> None:
        """Stops for good in this group. Leaves first if it is a member, so that no member waits for Bellwether's
        session to expire."""
        self.core.ended = self.core.ended or why
        self.stopping = True
        if self.core.requests.member_id and self.core.state is not State.LEAVING:
            self.leave(why.sentence, why.reason)
        else:
            self._finish()

    def _fenced(self) -> None:
        """Watches the group again after another instance has replaced this one. If the change was not announced, the
        pause grows each time, so that two instances that cannot reach each other do not replace each other forever."""
        pause_s = self.core.permission.fenced(expected=self.stopping)
        if pause_s:
            self.core.policy.wait_until(self.core.now + pause_s)
        self.core.note(NoteKind.WATCHING, "another instance of Bellwether with the same instance id leads now")
        self.left()

    def _finish(self) -> None:
        core = self.core
        core.clear()
        core.go(State.STOPPED)
        if core.ended is not None:
            exit_code = EXIT_FENCED if core.ended.reason is NotLeading.FENCED else EXIT_CONFIG
            core.send(Fatal(core.ended.sentence, exit_code))
        core.send(MembershipStopped())


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
        """Handles an answer with an error code (docs/internals/broker-behaviour.md#error-codes)."""
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
