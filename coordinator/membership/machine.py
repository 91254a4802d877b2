"""The membership of one classic consumer group as a state machine without I/O: events in, commands out.

`transitions` declares the states and edges, and the parts listed in `core` do the work. This module passes each event
to its part.

In case of an inconsistency Bellwether leaves the group: LeaveGroup hands the group to a member within milliseconds,
whereas a silent leader stalls it (docs/internals/broker-behaviour.md#leavegroup). The lead returns only by the rules of
WATCHING.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bellwether_kafka.coordinator.membership import events
from bellwether_kafka.coordinator.membership.adoption import Adoption, Approach
from bellwether_kafka.coordinator.membership.commands import Command, Leave
from bellwether_kafka.coordinator.membership.config import MembershipConfig
from bellwether_kafka.coordinator.membership.core import Core
from bellwether_kafka.coordinator.membership.current_role import CurrentRole
from bellwether_kafka.coordinator.membership.joining_leaving import Joining, Leaving
from bellwether_kafka.coordinator.membership.leading import GroupRebalances, Leading
from bellwether_kafka.coordinator.membership.next_rebalance import NextRebalance
from bellwether_kafka.coordinator.membership.recovery import Recovery
from bellwether_kafka.coordinator.membership.requests import Kind, Timer
from bellwether_kafka.coordinator.membership.role import Role
from bellwether_kafka.coordinator.membership.takeover_policy import SearchTurns
from bellwether_kafka.coordinator.membership.transitions import (
    INTERNAL_ERROR,
    OnEdge,
    State,
    UndeclaredEdgeError,
    ignore_edge,
)

Handlers = dict[State, Callable[[Any], None]]


def anywhere(handler: Callable[[Any], None]) -> Handlers:
    return dict.fromkeys(State, handler)


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipView:
    """A copy of the properties of `GroupMembership` with these names, after one event; for other threads."""

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
        self._role = CurrentRole(core, self._leaving)
        self._by_event = self._event_handlers()
        self._by_answer = self._answer_handlers()
        self._by_timer = self._timer_handlers()

    def _event_handlers(self) -> dict[type[events.Event], Handlers]:
        """Returns the handlers by event and state. An event without a handler in the present state is ignored."""
        adoption, leading, rebalances = self._adoption, self._leading, self._rebalances
        later: Handlers = dict.fromkeys((State.DECIDING, State.SYNCING), rebalances.want_later)
        return {
            events.StopRequested: anywhere(self._stop),
            events.OrdersInForce: anywhere(self._orders_in_force),
            events.ActiveRoleChanged: anywhere(self._active_role_changed),
            events.OffsetsFound: anywhere(self._offsets_found),
            events.DeathsProven: {State.WATCHING: adoption.deaths_proven},
            events.OffsetsRead: {State.WATCHING: self._adoption.offsets_read},
            events.LeadRemembered: anywhere(self._lead_remembered),
            events.RebalanceWanted: {**later, State.STABLE: rebalances.wanted},
            events.RebalanceOrdered: {**later, State.STABLE: rebalances.ordered},
            events.StepAsideWanted: {State.STABLE: leading.step_aside},
            events.WorkSuspected: {State.STABLE: leading.work_suspected},
            events.HandBackRemembered: anywhere(self._hand_back_remembered),
            events.SizeLimitRead: anywhere(self._size_limit_read),
            events.DecisionReady: {State.DECIDING: leading.decision_ready},
            events.DecisionFailed: {State.DECIDING: leading.decision_failed},
            events.ComparisonReady: {State.WATCHING: adoption.dry_run_done, State.STABLE: leading.compared},
            events.ComparisonFailed: {State.WATCHING: adoption.dry_run_done},
        }

    def _answer_handlers(self) -> dict[Kind, Handlers]:
        """Returns the handlers by request and state. In APPROACHING, answers go to the take-over. In other states,
        answers to requests for other members and pending ids (BLOCKER, OPEN, GIVE_BACK, EVICT) are ignored."""
        return {
            Kind.FIND: anywhere(self._recovery.coordinator_found),
            Kind.DESCRIBE: {State.WATCHING: self._adoption.described, State.COALESCING: self._next_rebalance.counted},
            Kind.JOIN: {State.JOINING: self._leading.joined},
            Kind.SYNC: {State.SYNCING: self._leading.synced},
            Kind.HEARTBEAT: anywhere(self._next_rebalance.heartbeat_answered),
            Kind.LEAVE: {State.LEAVING: self._recovery.left},
        }

    def _timer_handlers(self) -> dict[Timer, Callable[[], None]]:
        return {
            Timer.WATCH: self._recovery.proceed,
            Timer.RETRY: self._recovery.retry,
            Timer.HEARTBEAT: self._core.heartbeat,
            Timer.DECISION: self._leading.decision_overdue,
            Timer.COALESCE: self._next_rebalance.refresh,
            Timer.LINGER: self._leading.lingered,
            Timer.FOLLOWUP: self._rebalances.begin_followup,
            Timer.REBALANCE: self._rebalances.begin,
            Timer.LEAVE: self._leaving.timed_out,
            Timer.TAKEOVER: self._approach.wake,
        }

    # ---- for callers -----------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        return self._core.state

    @property
    def member_id(self) -> str:
        return self._core.requests.member_id

    @property
    def generation(self) -> int:
        return self._core.requests.generation

    @property
    def protocol(self) -> str:
        """The protocol that the broker chose for Bellwether's generation."""
        return self._core.requests.protocol

    @property
    def members(self) -> tuple[events.JoinedMember, ...]:
        """The members of the last generation that Bellwether led."""
        return self._core.leadership.members

    @property
    def hands_over(self) -> bool:
        """True if another rebalance will hand out what members give up by the present plan. False once the first such
        rebalance has been waited for, because the member that is to give up may never do so."""
        return self._core.leadership.pending and not self._core.leadership.followups

    @property
    def has_active_role(self) -> bool:
        """False while another instance with Bellwether's instance id is to lead."""
        return self._core.permission.active

    @property
    def in_front(self) -> str:
        """Bellwether's id while it is in a rebalance and would lead if the leader left now; "" otherwise."""
        return self._approach.in_front

    @property
    def role(self) -> Role:
        """Whether Bellwether leads, as of the last event."""
        return self._role.role

    @property
    def handed_back(self) -> str:
        """The reason of the last hand-back, "" for none."""
        return self._core.hand_backs.reason

    @property
    def alone(self) -> bool:
        """True if Bellwether was the only member of the last generation that it led."""
        return self._core.alone

    @property
    def has_members(self) -> bool:
        """True if other members are in the group, as far as answers have shown, or if its broker assigns: it does so
        from the first such member on, and a description for classic members does not show them."""
        return self._core.sighting.others or self._core.sighting.by_broker is not None

    @property
    def watches_memberless(self) -> bool:
        """True if the group exists without any member, Bellwether included."""
        sighting = self._core.sighting
        return self.state is State.WATCHING and sighting.state == events.GroupState.EMPTY and not sighting.others

    @property
    def unclear_since(self) -> float | None:
        """Since when requests have failed with errors without a known meaning; None while they do not."""
        return self._core.unclear_since if self._core.refusal is None else None

    @property
    def view(self) -> MembershipView:
        """A copy of all these properties, as of the last event."""
        return MembershipView(
            state=self.state,
            member_id=self.member_id,
            generation=self.generation,
            protocol=self.protocol,
            members=self.members,
            hands_over=self.hands_over,
            has_active_role=self.has_active_role,
            in_front=self.in_front,
            role=self.role,
            handed_back=self.handed_back,
            alone=self.alone,
            has_members=self.has_members,
            watches_memberless=self.watches_memberless,
            unclear_since=self.unclear_since,
        )

    def final_leave(self, reason: str) -> Leave | None:
        """Returns the LeaveGroup for a runtime that cannot go on; None if there is nothing to leave."""
        return self._core.requests.last_leave(reason)

    def start(self, now: float) -> tuple[Command, ...]:
        self._core.now = now
        self._recovery.proceed()
        self._role.refresh()
        return self._core.requests.drain()

    def handle(self, event: events.Event, now: float) -> tuple[Command, ...]:
        self._core.now = now
        if self.state is not State.STOPPED:
            try:
                self._dispatch(event)
            except UndeclaredEdgeError as error:
                self._broken(str(error))
            if not self._adoption.needs_turn:
                self._core.turns.end(self.config.group_id)
            self._role.refresh()
        return self._core.requests.drain()

    def deadline(self) -> float | None:
        """Returns when to deliver the next `Wake`; None if only another event can change anything."""
        return self._core.timers.earliest()

    # ---- which event goes where ------------------------------------------------------------------------------------

    def _dispatch(self, event: events.Event) -> None:
        self._core.position.trigger = type(event)
        if isinstance(event, events.Wake):
            self._wake()
        elif isinstance(event, events.Answer):
            self._answered(event)
        elif isinstance(event, events.RequestFailed):
            self._request_failed(event)
        elif self.state in self._by_event[type(event)]:
            self._by_event[type(event)][self.state](event)

    def _answered(self, event: events.Answer) -> None:
        kind = self._core.requests.arrived(event.request_id)
        if kind is None:
            return
        if self.state is State.APPROACHING:
            self._approach.answered(kind, event)
        elif self.state in self._by_answer.get(kind, {}):
            self._by_answer[kind][self.state](event)

    def _request_failed(self, event: events.RequestFailed) -> None:
        kind = self._core.requests.arrived(event.request_id)
        if kind is None:
            return
        if self.state is State.APPROACHING:
            self._approach.request_failed(event)
        else:
            self._recovery.request_failed(kind, event)

    def _wake(self) -> None:
        core = self._core
        while (timer := core.timers.take_due(core.now)) is not None:
            # In STABLE a heartbeat shows whether the membership still exists: a coordinator node that was away for
            # longer than Bellwether's session gives all members a new session when it returns, and a JoinGroup would
            # rebalance them.
            if core.session_expired and self.state in (State.DECIDING, State.COALESCING):
                core.position.trigger = events.Wake
                self._recovery.rejoin("woke up after the session had expired")
            else:
                core.position.trigger = timer
                self._by_timer[timer]()

    def _broken(self, reason: str) -> None:
        """Gives up the group after an undeclared edge, which is a bug in Bellwether."""
        self._core.position.trigger = UndeclaredEdgeError
        self._core.alert(INTERNAL_ERROR + reason)
        if self.state is State.APPROACHING:
            self._approach.give_up(reason)
        else:
            self._leaving.give_up(reason)

    # ---- operators and other instances ------------------------------------------------------------------------------

    def _stop(self, _: events.StopRequested) -> None:
        if self.state is State.APPROACHING:
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
        if not core.hand_backs.waits or self.state is State.LEAVING:
            return
        if self.state is State.APPROACHING:
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
        if self.state is State.STABLE:
            self._rebalances.want_what_is_wanted()

    def _released(self, before: str, order: str) -> None:
        core = self._core
        if before and not order:
            core.sighting.awaited = not core.config.subscribes
            if self.state is State.WATCHING:
                self._recovery.proceed()
        elif order and not before and core.alone and not core.sighting.others:
            self._leaving.release(order)

    def _keep_out(self, reason: str) -> None:
        """Leaves the group if necessary and stays out until an operator ends the order, for which `reason` is ""."""
        if not reason:
            self._core.takeovers.asked_for()
            self._core.policy.asked_for()
            self._core.hand_backs.over()
            if self.state is State.WATCHING:
                self._recovery.proceed()
        elif self.state is State.APPROACHING:
            self._approach.give_up(reason)
        else:
            self._leaving.keep_out(reason)

    def _active_role_changed(self, event: events.ActiveRoleChanged) -> None:
        if self._core.permission.changed(active=event.active) and self.state is State.WATCHING:
            self._recovery.proceed()
