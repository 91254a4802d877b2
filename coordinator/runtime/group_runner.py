"""Runs what one group needs beside its membership: plans, memory, orders and reports. A driver runs the membership on
another loop; its commands arrive here step by step, and results return to it as events. `service` has one runner per
group."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Generic, TypeVar

import structlog

from bellwether_kafka.assignors.shared import ClusterView, GroupPlan, RefusalError, extended
from bellwether_kafka.coordinator import clocks, membership
from bellwether_kafka.coordinator.control import NO_ORDERS, GroupOrders
from bellwether_kafka.coordinator.kafka.client import MetadataWatch
from bellwether_kafka.coordinator.kafka.wire import Transport
from bellwether_kafka.coordinator.observation import notify
from bellwether_kafka.coordinator.planning import GroupKind, Planned, Planner, WatchedTopics
from bellwether_kafka.coordinator.runtime.membership_driver import DriverStep, MembershipDriver, hand_over
from bellwether_kafka.coordinator.runtime.readings import dry_plan
from bellwether_kafka.coordinator.runtime.until_answered import expected, find_offsets, in_front, rebuild_memory

EXIT_BUG = 1
COMPARE_AGAIN_S = 10.0
ORDER_WAIT_S = 5.0  # how long an order waits until the members' assignments are known

NoteObserver = Callable[[str, membership.Note], None]
RoleObserver = Callable[[str, membership.Role], None]
Relieve = Callable[[str, str], Awaitable[bool]]  # (group, reason) -> whether a standby has taken it over

P = TypeVar("P", bound=GroupPlan)
R = TypeVar("R")

log = structlog.get_logger(__name__)


class GroupRunner(Generic[P]):
    """Runs one group until it has stopped. All methods belong to one event loop; `membership` is the state after the
    last step that arrived here.

    `on_decision` receives decisions that the broker has accepted; exceptions that observers raise are logged and
    ignored. `plan_in_force`: as far as Bellwether knows, members own what `last` assigned to them. False while a member
    leads, and after a return to a generation that another process may have planned.
    """

    def __init__(
        self,
        driver: MembershipDriver,
        transport: Transport,
        planner: Planner[P],
        watch: MetadataWatch,
        on_decision: Sequence[Callable[[Planned[P]], None]],
        on_note: Sequence[NoteObserver],
        on_role: Sequence[RoleObserver],
        relieve: Relieve,
    ) -> None:
        self.config = driver.config
        self.group_id = driver.config.group_id
        self.membership = driver.machine.view
        self.fatal: membership.Fatal | None = None
        self.last: Planned[P] | None = None
        self.plan_in_force = False
        self._driver = driver
        self._transport = transport
        self._planner = planner
        self._watch = watch
        self._on_decision = on_decision
        self._on_note = on_note
        self._on_role = on_role
        self._role_reported: tuple[membership.NotLeading | None, str] | None = None
        self._crashed: membership.Role | None = None
        self._relieve = relieve
        self._steps: asyncio.Queue[DriverStep] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._rebuilding: asyncio.Task[None] | None = None
        self._observing: asyncio.Task[None] | None = None
        self._stopped = False
        self._joined_from = 0.0
        self._synced_from = 0.0
        self._takes_part = False
        self.orders = NO_ORDERS  # in force
        self._pending: tuple[str, ...] = ()  # what has changed on places since the plan in force
        self._former = NO_ORDERS  # that it follows
        self._alerted: tuple[str, ...] = ()  # orders whose first attempt has failed
        self._carrying_out: asyncio.Task[None] | None = None
        self._asking: asyncio.Task[None] | None = None

    def post(self, event: membership.Event) -> None:
        self._driver.post(event)

    @property
    def role(self) -> membership.Role:
        """Whether Bellwether leads. After an internal error it is no longer the membership's."""
        return self._crashed or self.membership.role

    @property
    def kind(self) -> GroupKind[P]:
        return self._planner.kind

    def follow(self, orders: GroupOrders, news: str) -> None:
        """Follows the orders in force from now on; `news` says what has changed on places. Rebalances a stable group if
        that changes its plan."""
        before, self.orders = self.orders, orders
        if orders.on_membership != before.on_membership:
            log.info("orders_in_force", group=self.group_id, **orders.on_membership)
            self.post(membership.OrdersInForce(**orders.on_membership))
        if orders.places_as(before):
            return
        log.info("rules_in_force", group=self.group_id, rules=[order.sentence for order in orders.on_places])
        if refused := self.kind.rules_refused:
            log.warning("rules_ignored", group=self.group_id, reason=refused)
            return
        if not self._pending:
            self._former = before
        self._planner.order(news)
        self._pending = (*self._pending, news)
        self._carry_out_next()

    def begin_rebalance(self, order: str) -> None:
        """Begins a rebalance that the operator has ordered, even if it changes nothing."""
        self._planner.order(order)
        self.post(membership.RebalanceOrdered(order))

    async def before_removal(self, seen: membership.DescribeAnswer, dead: tuple[str, ...]) -> bool:
        """Waits until these dead members may be removed, as `in_front` does."""
        return await in_front(self, self._transport, seen, dead)

    def _is_in(self, state: membership.State) -> bool:
        return self.membership.state is state

    async def run(self) -> int:
        """Runs the group; returns the exit code, 0 or that of the Fatal command."""
        here = asyncio.get_running_loop()
        self._driver.start(lambda step: hand_over(here, self._steps.put_nowait, step))
        try:
            while not self._stopped:
                self._take(await self._steps.get())
        except Exception:
            log.exception("group_crashed", group=self.group_id)
            await self._hand_over("an internal error")
            sentence = f"Group '{self.group_id}': an internal error ended it; see the log."
            self.fatal = membership.Fatal(sentence, EXIT_BUG)
            self._crashed = membership.Role(membership.NotLeading.FAILED, sentence, clocks.monotonic())
            self._report_role()
        finally:
            self._cleanup()
        return self.fatal.exit_code if self.fatal is not None else 0

    def _take(self, step: DriverStep) -> None:
        """Takes over a step of the membership and executes its commands."""
        if step.error is not None:
            raise step.error
        if isinstance(step.event, membership.DescribeAnswer) and self._is_in(membership.State.WATCHING):
            self._observing = self._start(self._observe(step.event))
        elif isinstance(step.event, membership.RequestFailed):
            log.debug("request_failed", group=self.group_id, reason=step.event.reason)
        self.membership = step.view
        for command in step.commands:
            self._execute(command, step.at)
        self._unfollow_unless_leading()
        self._report_role()
        self._ask_for_offsets()
        self._carry_out_next()

    def _execute(self, command: membership.Command, at: float) -> None:
        match command:
            case membership.Join():
                self._joined_from = at
            case membership.Sync():
                self._synced_from = at
            case membership.Decide():
                self._start(self._compare(command) if command.dry else self._plan(command))
            case membership.RebuildMemory():
                self._rebuilding = self._start(self._rebuild(command))
            case membership.PlanDelivered():
                self._delivered(command, at)
            case membership.Note():
                self._noted(command)
            case membership.Fatal():
                self.fatal = command
                reason = self.role.reason
                why = {"reason": reason.value if reason else "", "detail": command.message}
                log.error("group_given_up", group=self.group_id, exit_code=command.exit_code, **why)
            case membership.MembershipStopped():
                self._stopped = True

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("group_task_failed", group=self.group_id, exc_info=error)

    # ---- decisions ---------------------------------------------------------------------------------------------

    async def _plan(self, command: membership.Decide) -> None:
        try:
            planned = await self._planner.plan(command)
        except Exception as error:
            if not isinstance(error, RefusalError):
                log.exception("plan_failed", group=self.group_id, generation=command.generation)
            self.post(membership.DecisionFailed(command.generation, _reason(error)))
            return
        decision = planned.decision
        topics, called_in_ms = planned.topics.subscribed, decision.called_in_ms(int(clocks.wall() * 1000))
        generation = decision.raw.generation
        ready = membership.DecisionReady(generation, decision.assignments, decision.followup, topics, called_in_ms)
        self.post(ready)

    async def _compare(self, command: membership.Decide) -> None:
        before = [task for task in (self._rebuilding, self._observing) if task is not None]
        if before:
            await asyncio.wait(before)
        deadline = max(command.deadline, clocks.monotonic() + self.config.decision_deadline_ms / 1000)
        generation = command.generation

        def failed(reason: str) -> None:
            self.post(membership.ComparisonFailed(generation, reason))

        asked = self._planner.compare(replace(command, deadline=deadline))
        comparison = await self._answered(asked, "comparison_failed", generation, failed)
        if comparison is None:
            if self._rests_in(generation):
                self._start(self._compare(command))
            return
        if self._rests_in(generation):
            self._planner.returned(comparison)
            # The next plan may not come for a long time, and members may consume what has been deleted since the last.
            self._follow(comparison.topics, extended(comparison.decision.cluster, comparison.assigned_sizes))
        reason, subscribed = comparison.worth_moving, comparison.topics.subscribed
        self.post(membership.ComparisonReady(generation, bool(reason), reason, subscribed))

    async def _answered(
        self, asked: Awaitable[R], failure: str, generation: int, failed: Callable[[str], None]
    ) -> R | None:
        """Returns whether a new plan would be better, as the planner says it. After an error, which is logged as a
        `failure`, returns None when it is time for the next attempt."""
        try:
            return await asked
        except Exception as error:
            reason, defect = _reason(error), not isinstance(error, RefusalError)
            log.warning(failure, group=self.group_id, generation=generation, reason=reason, exc_info=defect)
            failed(reason)
        await asyncio.sleep(COMPARE_AGAIN_S)
        return None

    def _carry_out_next(self) -> None:
        busy = self._carrying_out is not None and not self._carrying_out.done()
        if not busy and self._has_orders_to_carry_out():
            self._carrying_out = self._start(self._carry_out())

    def _has_orders_to_carry_out(self) -> bool:
        return bool(self._pending) and self._is_in(membership.State.STABLE)

    async def _carry_out(self) -> None:
        """Carries out orders on placement, one after the other those that come meanwhile, or cannot be compared yet."""
        while self._has_orders_to_carry_out():
            await self._carry_out_now(self._pending)

    async def _carry_out_now(self, orders: tuple[str, ...]) -> None:
        """Begins a rebalance for these orders, unless it would change nothing."""
        if self._rebuilding is not None:
            await asyncio.wait([self._rebuilding], timeout=ORDER_WAIT_S)
        member = self.membership
        generation, changes = member.generation, True
        if not member.alone:
            asked = self._planner.would_change(
                dry_plan(member, self.config.decision_deadline_ms / 1000), self._former.rules
            )
            failed = partial(self._not_carried_out, orders)
            answer = await self._answered(asked, "order_not_compared", generation, failed)
            if answer is None:  # the order stays, and says why it is not carried out
                return
            changes = answer
        if orders != self._pending or not self._rests_in(generation):
            return  # the next attempt uses the orders in force then
        self._pending = ()
        if changes:
            self.post(membership.RebalanceOrdered("; ".join(orders)))
            return
        for order in orders:
            self._planner.dismiss(order)
            log.info("order_changes_nothing", group=self.group_id, generation=generation, order=order)

    def _not_carried_out(self, orders: tuple[str, ...], reason: str) -> None:
        """Alerts once for these orders; they are tried again."""
        if orders != self._alerted:
            self._alerted = orders
            self._noted(
                membership.Note(membership.NoteKind.ALERT, f"not carried out yet: {'; '.join(orders)}: {reason}")
            )

    def _in_a_generation_of_others(self) -> bool:
        last = self.last
        return (
            last is not None
            and self._is_in(membership.State.STABLE)
            and not self._rests_in(last.decision.raw.generation)
        )

    def _rests_in(self, generation: int) -> bool:
        return self._is_in(membership.State.STABLE) and self.membership.generation == generation

    async def _rebuild(self, command: membership.RebuildMemory) -> None:
        async def take(group: membership.ShownGroup) -> None:
            await self._planner.rebuild(command, group, self.membership.member_id)

        await rebuild_memory(
            self.group_id, self._transport, take, lambda: self._keeps_what_is_shown(command.generation)
        )

    def _keeps_what_is_shown(self, generation: int) -> bool:
        """Returns whether Bellwether is still in this generation, to which it has returned and whose assignments it did
        not make."""
        member = self.membership
        return member.generation == generation and member.state in (membership.State.SYNCING, membership.State.STABLE)

    async def _observe(self, described: membership.DescribeAnswer) -> None:
        try:
            await self._planner.observed(described, self.config.instance_id)
        except Exception as error:
            log.warning("group_not_observed", group=self.group_id, reason=str(error), exc_info=not expected(error))

    def _delivered(self, command: membership.PlanDelivered, at: float) -> None:
        planned = self._planner.delivered(command.generation)
        if planned is None:
            return
        timings = planned.timings
        join_s, sync_s = max(0.0, timings.joined_at - self._joined_from), at - self._synced_from
        planned = replace(planned, timings=replace(timings, join_s=join_s, sync_s=sync_s))
        self.last, self.plan_in_force = planned, True
        self._pending = tuple(order for order in self._pending if order not in planned.ordered)
        self._follow(planned.topics, planned.decision.cluster)
        for observer in self._on_decision:
            notify(observer, planned)

    def _follow(self, topics: WatchedTopics, cluster: ClusterView) -> None:
        racks, kept, objection = topics.rack_aware, topics.kept, topics.objection
        self._watch.follow(self.group_id, topics.subscribed, cluster, rack_aware=racks, kept=kept, objection=objection)

    def _unfollow_unless_leading(self) -> None:
        state = self.membership.state
        if state in (membership.State.WATCHING, membership.State.STOPPED) or self.membership.alone:
            self._watch.forget(self.group_id)
        if state in (membership.State.WATCHING, membership.State.STOPPED) or self._in_a_generation_of_others():
            self.plan_in_force = False
        if state is membership.State.WATCHING and self._takes_part:
            self._planner.forget()
        self._takes_part = state is not membership.State.WATCHING

    def _report_role(self) -> None:
        role = self.role
        if (role.reason, role.detail) != self._role_reported:
            handed_back = membership.NotLeading.HANDED_BACK
            if role.reason is handed_back and (self._role_reported or (None, ""))[0] is not handed_back:
                self._planner.distrust()
            self._role_reported = (role.reason, role.detail)
            for observer in self._on_role:
                notify(observer, self.group_id, role)

    def _ask_for_offsets(self) -> None:
        """Starts reading the group's committed offsets: a process that has just started cannot know otherwise whether
        an empty group ever had members."""
        unknown = self.membership.role.reason is membership.NotLeading.UNKNOWN_GROUP
        if unknown and self._asking is None:
            posted = partial(self.post, membership.OffsetsFound())
            self._asking = self._start(find_offsets(self.group_id, self._transport, posted))

    def _noted(self, note: membership.Note) -> None:
        level = log.warning if note.kind in (membership.NoteKind.ALERT, membership.NoteKind.REFUSED) else log.info
        level("membership", group=self.group_id, what=note.kind.name, reason=note.reason, generation=note.generation)
        for observer in self._on_note:
            notify(observer, self.group_id, note)

    async def _hand_over(self, reason: str) -> None:
        """After a bug, hands the group to a standby, for which no member stops; without one, leaves, so that members do
        not wait for Bellwether's session to expire."""
        relieved = False
        try:
            relieved = await self._relieve(self.group_id, reason)
        except Exception:
            log.exception("not_relieved", group=self.group_id)
        if not relieved:
            await self._driver.leave(reason)

    def _cleanup(self) -> None:
        self._watch.forget(self.group_id)
        for task in self._tasks:
            task.cancel()
        self._driver.close()


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, RefusalError) else f"{type(error).__name__}: {error}"
