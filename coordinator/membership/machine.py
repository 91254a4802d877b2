"""The membership of one classic consumer group as a state machine without I/O: events in, commands out.

`transitions` declares the states, which events each of them handles, and where these lead; the parts listed in `core`
do the work. This module passes each event to its part.

In case of an inconsistency Bellwether leaves the group: LeaveGroup hands the group to a member within milliseconds,
whereas a silent leader stalls it (docs/internals/broker-behaviour.md#leavegroup). The lead returns only by the rules of
WATCHING.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bellwether_kafka.coordinator.membership import events
from bellwether_kafka.coordinator.membership.adoption import Adoption, Approach
from bellwether_kafka.coordinator.membership.config import MembershipConfig
from bellwether_kafka.coordinator.membership.core import Core
from bellwether_kafka.coordinator.membership.joining_leaving import Joining, Leaving, Recovery
from bellwether_kafka.coordinator.membership.leading import GroupRebalances, Leading
from bellwether_kafka.coordinator.membership.obstacles import role_of
from bellwether_kafka.coordinator.membership.rebalances import NextRebalance
from bellwether_kafka.coordinator.membership.requests import SENT, Command, Kind, Request, Timer
from bellwether_kafka.coordinator.membership.role import Role
from bellwether_kafka.coordinator.membership.takeover_policy import SearchTurns
from bellwether_kafka.coordinator.membership.transitions import (
    IN_ANY_STATE,
    INTERNAL_ERROR,
    MEMBERSHIP,
    OnEdge,
    State,
    Trigger,
    UndeclaredEdgeError,
    ignore_edge,
)

Handler = Callable[[Any], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipView:
    """What a `GroupMembership` shows after one event; for other threads.

    `protocol` is the one that the broker chose for Bellwether's generation. `members` are those of the last generation
    that Bellwether led, and `alone` is True if Bellwether was the only one. `hands_over`: another rebalance will hand
    out what members give up by the present plan; False once the first such rebalance has been waited for, because the
    member that is to give up may never do so. `has_active_role` is False while another instance with Bellwether's
    instance id is to lead. `in_front` is Bellwether's id while it is in a rebalance and would lead if the leader left
    now, "" otherwise. `role`: whether Bellwether leads. `handed_back` is the reason of the last hand-back, "" for none.
    `has_members`: other members are in the group, as far as answers have shown, or its broker assigns: it does so from
    the first such member on, and a description for classic members does not show them. `watches_memberless`: the group
    exists without any member, Bellwether included. `unclear_since`: since when requests have failed with errors without
    a known meaning; None while they do not.
    """

    state: State
    member_id: str
    generation: int
    protocol: str
    members: tuple[events.JoinedMember, ...]
    hands_over: bool
    has_active_role: bool
    in_front: str
    role: Role
    handed_back: str
    alone: bool
    has_members: bool
    watches_memberless: bool
    unclear_since: float | None


class GroupMembership:
    """The membership of one group. Call `start` once, then `handle` with each event, and carry out the returned
    commands. Deliver a `Wake` at `deadline()`.

    `now` is seconds on a monotonic clock, the same one in all calls. Nothing that a broker sends makes it raise.
    `on_edge` is called with each edge that is taken. `turns` are those of all groups of the process.
    """

    def __init__(
        self, config: MembershipConfig, on_edge: OnEdge = ignore_edge, turns: SearchTurns | None = None
    ) -> None:
        self.config = config
        self._core = Core(config, on_edge, turns or SearchTurns())
        core, joining = self._core, Joining(self._core)
        self._leaving = Leaving(core, joining)
        self._recovery = Recovery(core, joining, self._leaving)
        self._rebalances = GroupRebalances(core, self._recovery)
        self._leading = Leading(core, joining, self._leaving, self._recovery, self._rebalances)
        self._next_rebalance = NextRebalance(core, joining, self._leaving, self._recovery)
        self._approach = Approach(core, joining, self._leaving, self._leading)
        self._adoption = Adoption(core, joining, self._leaving, self._recovery, self._approach)
        self._role = Role()
        self._handlers = self._handlers_by_event()
        self._timers = self._handlers_by_timer()

    def _handlers_by_event(self) -> dict[Trigger | tuple[State, Trigger], Handler]:
        """Returns what handles each event; one with its state is only for that state."""
        adoption, leading, rebalances, recovery = self._adoption, self._leading, self._rebalances, self._recovery
        return {
            events.StopRequested: self._stop,
            events.OrdersInForce: self._orders_in_force,
            events.ActiveRoleChanged: self._active_role_changed,
            events.OffsetsFound: self._offsets_found,
            events.LeadRemembered: self._lead_remembered,
            events.HandBackRemembered: self._hand_back_remembered,
            events.SizeLimitRead: self._size_limit_read,
            events.DeathsProven: adoption.deaths_proven,
            events.OffsetsRead: adoption.offsets_read,
            events.RebalanceWanted: rebalances.wanted,
            events.RebalanceOrdered: rebalances.ordered,
            events.StepAsideWanted: leading.step_aside,
            events.WorkSuspected: leading.work_suspected,
            events.DecisionReady: leading.decision_ready,
            events.DecisionFailed: leading.decision_failed,
            events.ComparisonFailed: adoption.dry_run_done,
            (State.WATCHING, events.ComparisonReady): adoption.dry_run_done,
            (State.STABLE, events.ComparisonReady): leading.compared,
            events.CoordinatorAnswer: recovery.coordinator_found,
            (State.WATCHING, events.DescribeAnswer): adoption.described,
            (State.COALESCING, events.DescribeAnswer): self._next_rebalance.counted,
            events.JoinAnswer: leading.joined,
            events.SyncAnswer: leading.synced,
            events.HeartbeatAnswer: self._next_rebalance.heartbeat_answered,
            events.LeaveAnswer: recovery.left,
        }

    def _handlers_by_timer(self) -> dict[Timer, Callable[[], None]]:
        leading, rebalances, recovery = self._leading, self._rebalances, self._recovery
        return {
            Timer.WATCH: recovery.proceed,
            Timer.RETRY: recovery.retry,
            Timer.HEARTBEAT: self._core.heartbeat,
            Timer.DECISION: leading.decision_overdue,
            Timer.COALESCE: self._next_rebalance.refresh,
            Timer.LINGER: leading.lingered,
            Timer.FOLLOWUP: rebalances.begin_followup,
            Timer.REBALANCE: rebalances.begin,
            Timer.LEAVE: self._leaving.timed_out,
            Timer.TAKEOVER: self._approach.wake,
        }

    # ---- for callers -----------------------------------------------------------------------------------------------

    @property
    def view(self) -> MembershipView:
        """What is to be seen of the membership, as of the last event."""
        core, sighting, leadership = self._core, self._core.sighting, self._core.leadership
        empty = sighting.state == events.GroupState.EMPTY and not sighting.others
        return MembershipView(
            state=core.state,
            member_id=core.requests.member_id,
            generation=core.requests.generation,
            protocol=core.requests.protocol,
            members=leadership.members,
            hands_over=leadership.pending and not leadership.followups,
            has_active_role=core.permission.active,
            in_front=self._approach.in_front,
            role=self._role,
            handed_back=core.hand_backs.reason,
            alone=core.alone,
            has_members=sighting.others or sighting.by_broker is not None,
            watches_memberless=core.state is State.WATCHING and empty,
            unclear_since=core.unclear_since if core.refusal is None else None,
        )

    def final_leave(self, reason: str) -> Request | None:
        """Returns the LeaveGroup for a runtime that cannot go on; None if there is nothing to leave."""
        return self._core.requests.last_leave(reason)

    def start(self, now: float) -> tuple[Command, ...]:
        self._core.now = now
        self._recovery.proceed()
        self._role = role_of(self._core, self._role)
        return self._core.requests.drain()

    def handle(self, event: events.Event, now: float) -> tuple[Command, ...]:
        self._core.now = now
        if self._core.state is not State.STOPPED:
            try:
                self._dispatch(event)
            except UndeclaredEdgeError as error:
                self._broken(str(error))
            if not self._adoption.needs_turn:
                self._core.turns.end(self.config.group_id)
            self._role = role_of(self._core, self._role)
        return self._core.requests.drain()

    def deadline(self) -> float | None:
        """Returns when to deliver the next `Wake`; None if only another event can change anything."""
        return self._core.timers.earliest()

    # ---- which event goes where ------------------------------------------------------------------------------------

    def _dispatch(self, event: events.Event) -> None:
        self._core.position.trigger = type(event)
        if isinstance(event, events.Wake):
            self._wake()
        elif isinstance(event, (events.Answer, events.RequestFailed)):
            kind = self._core.requests.arrived(event.request_id)
            if kind is not None:
                self._answered(kind, event)
        elif type(event) in IN_ANY_STATE:
            self._handlers[type(event)](event)
        else:
            self._handled(event)

    def _answered(self, kind: Kind, event: events.Answer | events.RequestFailed) -> None:
        match event:
            case events.RequestFailed() if self._core.state is State.APPROACHING:
                self._approach.request_failed(event)
            case events.RequestFailed():
                self._recovery.request_failed(kind, event)
            case _ if self._core.state is State.APPROACHING:
                self._approach.answered(kind, event)
            case _ if SENT[kind].own:
                self._handled(event)

    def _handled(self, event: events.Event) -> None:
        """Passes the event on if the table has it in the present state."""
        state, trigger = self._core.state, type(event)
        if trigger in MEMBERSHIP[state]:
            (self._handlers.get((state, trigger)) or self._handlers[trigger])(event)

    def _wake(self) -> None:
        core = self._core
        while (timer := core.timers.take_due(core.now)) is not None:
            # In STABLE a heartbeat shows whether the membership still exists: a coordinator node that was away for
            # longer than Bellwether's session gives all members a new session when it returns, and a JoinGroup would
            # rebalance them.
            if core.session_expired and self._core.state in (State.DECIDING, State.COALESCING):
                core.position.trigger = events.Wake
                self._recovery.rejoin("woke up after the session had expired")
            else:
                core.position.trigger = timer
                self._timers[timer]()

    def _broken(self, reason: str) -> None:
        """Gives up the group after an undeclared edge, which is a bug in Bellwether."""
        self._core.position.trigger = UndeclaredEdgeError
        self._core.alert(INTERNAL_ERROR + reason)
        if self._core.state is State.APPROACHING:
            self._approach.give_up(reason)
        else:
            self._leaving.give_up(reason)

    # ---- operators and other instances ------------------------------------------------------------------------------

    def _stop(self, _: events.StopRequested) -> None:
        if self._core.state is State.APPROACHING:
            self._approach.stop()
        else:
            self._leaving.stop()

    def _size_limit_read(self, event: events.SizeLimitRead) -> None:
        """Keeps the limit; the next description shows whether a take-over can begin now."""
        self._core.takeovers.size_limit = event.limit

    def _offsets_found(self, _: events.OffsetsFound) -> None:
        self._core.sighting.existed = True

    def _lead_remembered(self, event: events.LeadRemembered) -> None:
        self._core.sighting.peopled(self._core.now - event.ago_s)

    def _hand_back_remembered(self, event: events.HandBackRemembered) -> None:
        """Leaves the group if Bellwether joined before it had read of the hand-back."""
        core = self._core
        core.hand_backs.remembered(core.now, event.ago_s, event.reason, waits=event.waits)
        if not core.hand_backs.waits or self._core.state is State.LEAVING:
            return
        if self._core.state is State.APPROACHING:
            self._approach.give_up(core.hand_backs.obstacle.sentence)
        else:
            self._leaving.keep_out(core.hand_backs.obstacle.sentence)

    def _orders_in_force(self, event: events.OrdersInForce) -> None:
        before, self._core.permission.orders = self._core.permission.orders, event
        if event.pause:
            self._rebalances.pause()
        self._released(before.release, event.release)
        if event.leave != before.leave:
            self._keep_out(event.leave)
        if self._core.state is State.STABLE:
            self._rebalances.want_what_is_wanted()

    def _released(self, before: str, order: str) -> None:
        core = self._core
        if before and not order:
            core.sighting.awaited = not core.config.subscribes
            if self._core.state is State.WATCHING:
                self._recovery.proceed()
        elif order and not before and core.alone and not core.sighting.others:
            self._leaving.release(order)

    def _keep_out(self, reason: str) -> None:
        """Leaves the group if necessary and stays out until an operator ends the order, for which `reason` is ""."""
        if not reason:
            self._core.takeovers.asked_for()
            self._core.policy.asked_for()
            self._core.hand_backs.over()
            if self._core.state is State.WATCHING:
                self._recovery.proceed()
        elif self._core.state is State.APPROACHING:
            self._approach.give_up(reason)
        else:
            self._leaving.keep_out(reason)

    def _active_role_changed(self, event: events.ActiveRoleChanged) -> None:
        if self._core.permission.changed(active=event.active) and self._core.state is State.WATCHING:
            self._recovery.proceed()
