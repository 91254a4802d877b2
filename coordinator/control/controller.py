"""Connects the control topic with the groups of this process: passes operators' orders on, sends the heartbeat of this
process. The rules are elsewhere: `orders` has the orders in force, `group_roles` makes groups active or standby,
and memberships follow the events that they get.

Events to memberships state the present situation, not a change: repeating one is harmless, and a lost one is sent
again.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog

from bellwether_kafka.assignors.shared import Rule
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.control import records
from bellwether_kafka.coordinator.control.absence_watch import Absences
from bellwether_kafka.coordinator.control.active_role import Instances
from bellwether_kafka.coordinator.control.group_roles import ControlledGroup, GroupRoles, Runner, given_up, leads
from bellwether_kafka.coordinator.control.handed_back import renewed
from bellwether_kafka.coordinator.control.kept_orders import KeptOrders, OrderSource
from bellwether_kafka.coordinator.control.order_kinds import OrderKind
from bellwether_kafka.coordinator.control.orders import NO_ORDERS, GroupOrders, order_news
from bellwether_kafka.coordinator.control.served_orders import ServedGroups, ServedOrders
from bellwether_kafka.coordinator.control.state_files import HandBackFile
from bellwether_kafka.coordinator.membership import HandBackRemembered, Note

HEARTBEAT_S = 1.0
STOP_POLL_S = 0.02
UNREAD_S = 10.0  # how long brokers get no plan because orders are unknown
UNOBSERVED_S = 30.0  # after the start: a group that is not known by then is a new one
RELEASE_MS_MIN = 30_000  # members seen earlier may be the ones that have just stopped

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ControlReport:
    """A report for metrics. `silence_s` is the time since this process last read its own heartbeat from the topic,
    0 if there is none or brokers have refused it."""

    orders: tuple[records.AnyOrder, ...]
    living: int  # other live instances
    silence_s: float


OnControl = Callable[[ControlReport], None]
OnStopped = Callable[[records.Stopped, Callable[[], None]], None]  # the second is to be called when it is done


class Controller:
    """The controller of a process, to be used in its event loop. With the setting `standby`, the process shares its
    instance id with other instances."""

    def __init__(
        self,
        topic: OrderSource,
        settings: records.ControlSettings,
        runners: Mapping[str, Runner],
        *,
        on_control: Sequence[OnControl] = (),
        on_stopped: OnStopped = lambda _, done: done(),  # of a process that removes no stopped members
        served: ServedGroups | None = None,
        hand_backs: HandBackFile | None = None,
        heartbeat_s: float = HEARTBEAT_S,
        clock: Callable[[], float] = clocks.monotonic,
        wall_clock: Callable[[], float] = clocks.wall,
    ) -> None:
        self.instance_name = settings.instance_name
        self._standby = settings.standby
        self._on_control = on_control
        self._on_stopped = on_stopped
        self._hand_backs = hand_backs
        self._heartbeat_s = heartbeat_s
        self._began = self._own_heartbeat_at = clock()
        self._clock = clock
        self._kept = KeptOrders(topic, wall_clock)
        self._instances = Instances(settings.instance_name)
        self._groups = {
            group: ControlledGroup(runner, active=not settings.standby) for group, runner in runners.items()
        }
        self._roles = GroupRoles(self._groups, self._instances, heartbeat=self._heartbeat, clock=clock)
        self._left: records.Order | None = None  # what a signal has ordered of every group
        self._caught_up = asyncio.Event()
        self._stopped: dict[str, records.Stopped] = {}  # by key: those on which nobody has acted yet
        self._served = ServedOrders(served, self._kept, self._instances)
        self.absences = Absences(self._groups, self._kept, self._served, self.review)

    async def run(self) -> None:
        """Reports, sends heartbeats and reviews all groups once per interval, until cancelled."""
        for record in self._hand_backs.read() if self._hand_backs is not None else ():
            self._kept.orders.apply(record.key, record)  # those of the topic come later, and count
        self._kept.topic.start(self._on_record, self._all_read, self._refused, self._read_again)
        answered = self._kept.answered
        while not answered.is_set():
            self._attempt(self._report)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._heartbeat_s):
                    await answered.wait()
        while True:
            self._attempt(self._report, self._housekeeping, self.review, partial(self._heartbeat, between=False))
            await asyncio.sleep(self._heartbeat_s)

    @staticmethod
    def _attempt(*steps: Callable[[], None]) -> None:
        """Takes each step whatever becomes of the others, so that heartbeats go on."""
        for step in steps:
            try:
                step()
            except Exception:
                log.exception("control_loop_failed")

    async def orders_of(self, group: str) -> GroupOrders:
        """Returns the orders that the group follows, when they have been read; none are known of a topic that cannot be
        read within `UNREAD_S`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(UNREAD_S - (self._clock() - self._began)):
                await self._kept.answered.wait()
                self._review((group,))
        return self._in_force(group)

    def _in_force(self, group: str) -> GroupOrders:
        """Returns the orders that a group of this process follows. Before all of the topic has been read, what has been
        read may have been withdrawn."""
        orders = self._kept.of(group) if self._kept.answered.is_set() else NO_ORDERS
        if self._left is None:
            return orders
        return replace(orders, given={**orders.given, OrderKind.LEAVE: replace(self._left, target=group)})

    def leave_all(self) -> None:
        """Has every group of this process left, and keeps out of them until the process ends; with or without a control
        topic, and whether or not it can be reached. It orders nothing of other processes."""
        self._left = records.Order(OrderKind.LEAVE, "", "a signal", self._kept.now_ms(), records.NO_END_MS)
        self._review(self._groups)

    async def hand_all_over(self) -> None:
        """Hands all groups over to standbys before an orderly stop. Returns when they are taken, or after
        the time limit of a hand-over."""
        self._roles.stopping = True
        if not self._standby or not self._caught_up.is_set():
            return
        self._roles.hand_over(self._groups, "this instance stops")
        while any(state.hands_over_until for state in self._groups.values()):
            await asyncio.sleep(STOP_POLL_S)
            self.review()

    async def relieve(self, group: str, reason: str) -> bool:
        """Hands over a group whose membership has failed. Returns whether a standby has taken it."""
        state = self._groups[group]
        if not self._standby or not self._caught_up.is_set() or not leads(state.runner):
            return False
        self._roles.hand_over([group], reason)
        while state.hands_over_until and self._clock() < state.hands_over_until:
            if self._instances.leader(group):
                return True
            await asyncio.sleep(STOP_POLL_S)
        return False

    async def close(self) -> None:
        if self._hand_backs is not None:
            await self._hand_backs.close()
        self._kept.topic.withdraw(records.heartbeat_key(self.instance_name))
        await self._kept.topic.close()

    def rules_of(self, group: str) -> tuple[Rule, ...] | None:
        """Returns the rules of placement in force in any group, None before the topic has been read. Of a topic that
        cannot be read the rules are none after `UNREAD_S`. For a group that is not known, "", they are None just after
        the start if any are in force: they may be this group's. Any thread may call it."""
        running_s = self._clock() - self._began
        if not self._kept.answered.is_set() and running_s < UNREAD_S:
            return None
        if not group and running_s < UNOBSERVED_S and self._kept.orders.all_placements(self._kept.now_ms()):
            return None
        return tuple(order.rule for order in self._kept.of(group).placements)

    def _report(self) -> None:
        orders = self._kept.orders.all_in_force(self._kept.now_ms())
        own_targets = {*self._groups, self.instance_name, records.EVERYBODY}
        given = [order for order in orders if isinstance(order, records.AnyOrder)]
        own_orders = tuple(order for order in given if order.target in own_targets)
        silence_s = self._clock() - self._own_heartbeat_at if self._is_kept or not self._kept.answered.is_set() else 0.0
        report = ControlReport(own_orders, len(self._instances.living()), silence_s)
        for observer in self._on_control:
            observer(report)

    # ---- what comes from the topic -------------------------------------------------------------------------------

    def _on_record(self, key: str, record: records.Record | None) -> None:
        """Takes a record and reviews the groups that it concerns: there may be a thousand others."""
        concerned = self._take(key, record)
        if concerned and self._kept.answered.is_set():
            self.review(concerned)

    def _take(self, key: str, record: records.Record | None) -> Collection[str]:
        """Returns what the record may change something for: groups, or the target of an order to instances."""
        kind, _, target = key.partition("/")
        if isinstance(record, records.InstanceHeartbeat):
            concerned = self._instances.received(record)
            if record.instance == self.instance_name:
                self._own_heartbeat_at = self._clock()
                return self._groups if self._standby and not record.between else ()
            return concerned
        if record is None and kind == records.HEARTBEAT:
            return self._instances.gone(target)
        if isinstance(record, records.Stopped):
            self._stopped[key] = record
            return (record.target,)
        self._stopped.pop(key, None)
        if isinstance(record, records.AnyOrder):
            self._kept.ended.pop(record.sentence, None)  # how an order ended is not the end of the next one like it
        return self._kept.orders.apply(key, record)

    def _read_again(self, last: Mapping[str, records.Record | None]) -> None:
        """Takes a log that was read from its start again: what it has no more has ended."""
        gone = (*self._kept.lost(last), *(key for key in self._stopped if key not in last))
        for key, record in (*((key, None) for key in gone), *last.items()):
            self._on_record(key, record)

    def _act_on_stopped(self, now_ms: int) -> None:
        """Acts on stopped members of groups for which this instance is active. The statement is withdrawn when they are
        gone: if this process ends before, its successor acts on it."""
        for key, record in tuple(self._stopped.items()):
            state = self._groups.get(record.target)
            if now_ms >= record.expires_ms:
                del self._stopped[key]
            elif state is not None and state.active:
                del self._stopped[key]
                self._on_stopped(record, partial(self._kept.topic.withdraw, key))

    def _all_read(self) -> None:
        self._instances.started()
        self._caught_up.set()
        self._kept.answered.set()
        if topic := self._kept.topic.topic:
            log.info("control_topic_read", topic=topic, instance=self.instance_name, standby=self._standby)

    def _refused(self) -> None:
        """Leads without orders, unless others may lead: a topic to which there is no right makes no plan late."""
        if not self._standby:
            self._kept.answered.set()

    # ---- what follows from it ------------------------------------------------------------------------------------

    def on_note(self, group: str, _note: Note) -> None:
        """Reviews a group after its membership has changed: a review of all groups for each of hundreds of notes would
        make their plans late. An observer of notes for the runtime."""
        if self._kept.answered.is_set() or self._left is not None:
            self._review((group,))

    def review(self, targets: Collection[str] | None = None) -> None:
        """Applies orders, rules, hand-backs and roles to every group, or to those of `targets`. May be called at any
        time."""
        # Sorted: in which order a process does things must not follow from how its strings are hashed.
        self._review(self._groups if targets is None else sorted(group for group in targets if group in self._groups))
        if targets is None:
            self._served.update(self._groups.keys())
        else:
            self._served.changed(targets)

    def _review(self, groups: Iterable[str]) -> None:
        now_ms = self._kept.now_ms()
        for group in groups:
            state = self._groups[group]
            self._follow_orders(group, state, now_ms)
            self._update_hand_back(group, state, now_ms)
            if self._standby and not given_up(state.runner):
                self._roles.update(group, state)
        self._act_on_stopped(now_ms)
        self._carry_out_drains()

    def _follow_orders(self, group: str, state: ControlledGroup, now_ms: int) -> None:
        """Passes the orders in force to the group; withdraws those that its members have ended, or that is begun."""
        orders = self._in_force(group)
        for event, order, change in self._ended_by_members(orders, state, now_ms):
            log.info(event, group=group, order=order.sentence, reason=change)
            self._kept.end(order, f"ended, because {change}")
            orders = self._in_force(group)
        before = state.runner.orders
        if orders != before:
            news = order_news(before.on_places, orders.on_places, now_ms, self._kept.ended)
            state.runner.follow(orders, news)
        again = orders.given.get(OrderKind.REBALANCE)
        if again is not None and leads(state.runner):
            self._kept.withdraw(again.key)
            state.runner.begin_rebalance(again.sentence)

    @staticmethod
    def _ended_by_members(
        orders: GroupOrders, state: ControlledGroup, now_ms: int
    ) -> Iterator[tuple[str, records.AnyOrder, str]]:
        """Yields a release once members have joined, and an applied plan once the group that Bellwether leads has
        other members than the plan, each with the event for the log and the reason. Plans for such members do not
        follow it in any case."""
        release, plan, member = orders.given.get(OrderKind.RELEASE), orders.plan, state.runner.membership
        if release is not None and state.active and member.has_members and now_ms - release.at_ms >= RELEASE_MS_MIN:
            yield "release_ends", release, "members have joined"
        others = [each for each in member.members if each.member_id != member.member_id]
        shown = len(others) < len(member.members)  # the answer to the leader of a generation includes itself
        if plan is not None and shown and leads(state.runner) and (change := plan.change(others)):
            yield "applied_plan_ended", plan, change

    def applied_plan(self, group: str) -> str:
        """Returns the sentence of the plan that is applied to the group, "" for none."""
        plan = self._kept.of(group).plan
        return plan.sentence if plan is not None else ""

    def _update_hand_back(self, group: str, state: ControlledGroup, now_ms: int) -> None:
        record = self._kept.orders.handed_back(group, now_ms)
        if record is None or record == state.handed_back:
            return
        state.handed_back = record
        waits = record.waits and record.topology == state.runner.kind.digest
        state.runner.post(HandBackRemembered((now_ms - record.at_ms) / 1000, record.reason, waits))

    def hand_back(self, group: str, *, waits: bool) -> None:
        """Records for later restarts that the group was handed back (`waits`), or that Bellwether leads it again. The
        latter is ignored if an unprocessed hand-back was read, since the lead may be older than it."""
        state, now_ms = self._groups[group], self._kept.now_ms()
        last = self._kept.orders.handed_back(group, now_ms)
        if not waits and last != state.handed_back:
            return
        reason = state.runner.membership.handed_back
        record = renewed(last, group, reason, state.runner.kind.digest, now_ms, waits=waits)
        if record is None:
            return
        state.handed_back = record
        self._kept.write(record)
        if self._hand_backs is not None and not self._is_kept:
            self._hand_backs.keep(record)

    @property
    def _is_kept(self) -> bool:
        """Whether there is a control topic that keeps what is written to it."""
        return bool(self._kept.topic.topic) and self._caught_up.is_set()

    def _carry_out_drains(self) -> None:
        for target in (self.instance_name, records.EVERYBODY):
            order = self._kept.in_force(OrderKind.DRAIN, target)
            if order is None or not any(leads(state.runner) for state in self._groups.values()):
                continue
            self._kept.withdraw(order.key)  # no successor carries it out again
            self._roles.hand_over(self._groups, order.sentence)

    # ---- heartbeats ------------------------------------------------------------------------------------------------

    def _heartbeat(self, *, between: bool = True) -> None:
        if not self._caught_up.is_set():
            return
        # Groups that this instance has given up are left out, so that standbys do not wait for it.
        groups = [(group, state) for group, state in self._groups.items() if not given_up(state.runner)]
        served = self._served.policies()
        self._kept.topic.write(
            records.InstanceHeartbeat(
                self.instance_name,
                leads=tuple(group for group, state in groups if leads(state.runner)),
                claims=tuple(group for group, state in groups if state.active and not leads(state.runner)),
                standby_for=() if self._roles.stopping else tuple(group for group, state in groups if not state.active),
                hands_over=tuple(group for group, state in groups if state.hands_over_until),
                at_ms=self._kept.now_ms(),
                between=between,
                policies={**served, **{group: state.runner.kind.policy for group, state in groups}},
                orders_for=(*(group for group, state in groups if not state.runner.kind.rules_refused), *served),
                serves=tuple(served),
            )
        )

    def _housekeeping(self) -> None:
        for instance in self._instances.forgotten():
            self._instances.gone(instance)
            self._kept.topic.withdraw(records.heartbeat_key(instance))
        self.absences.withdraw_left_over()
