"""Answers one request of one broker: converts it to views, from which `decide` makes the plan. Pure, except for clocks
and known names.

The thread of a connection calls `answer`, sends the bytes that it returns, and then calls the returned function, which
reports the result without delaying the broker.
"""

import threading
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bellwether_kafka.assignors import consumer, shared
from bellwether_kafka.assignors.consumer import KAFKA, LOAD_AWARE, PartitionPlan, Policy
from bellwether_kafka.assignors.shared import NOBODY, Decision, GroupPlan, IntArray, Plan, Refusal, Rule, Weights
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.kafka.wire import OWN_ASSIGNORS, policy_in
from bellwether_kafka.coordinator.planning import (
    Cause,
    Planned,
    StreamsConfig,
    Timings,
    WatchedTopics,
    cause,
    follows_from_orders,
    no_plan_for_broker,
)
from bellwether_kafka.coordinator.serving import task_plans, wire
from bellwether_kafka.coordinator.serving.known import (
    Incomplete,
    KnownGroups,
    RefusedError,
    TopicNames,
    incomplete,
    incomplete_tasks,
)
from bellwether_kafka.coordinator.serving.request_views import views_of
from bellwether_kafka.coordinator.serving.task_request_views import KnownApplication, task_views
from bellwether_kafka.coordinator.serving.wire_tasks import TaskGroup
from bellwether_kafka.protocol.primitives import RemoteProtocolError

GROUPS_MAX = 10_000
NAMELESS_MAX = 1_000
MEMBERS_KEPT = 3  # of a plan's members: enough to recognise their group, and few to look up
UNREADABLE = "unreadable"
ORDERS_UNREAD = "the control topic has not been read yet, so orders on placement are unknown"
UNOBSERVED = (
    "no observed group has these members yet, or the control topic has not been read yet, so orders on placement in it"
    " are unknown"
)


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """The result of one request. `group` is "" if no observed group has these members. `refusal` says why there is no
    plan, "" if there is one; `planned` is then set. `late`: the broker did not wait for the plan."""

    assignor: str
    group: str
    took_s: float
    refusal: str = ""
    planned: Planned[GroupPlan] | None = None
    late: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class NewestPlan:
    """The newest plan that this process has made for a group, at `made_at`, in seconds of a monotonic clock, under
    `rules`."""

    plan: GroupPlan
    made_at: float
    rules: tuple[Rule, ...] = ()

    @property
    def topics(self) -> tuple[str, ...]:
        return self.plan.topology.source_topics if isinstance(self.plan, TaskPlan) else self.plan.cluster.topics

    def owned(self) -> dict[str, frozenset[tuple[str, int]]]:
        """Returns the partitions of each member, by instance id, else by member id; of an application, the active tasks
        of each process."""
        if isinstance(self.plan, TaskPlan):
            return task_plans.tasks_by_process(self.plan, self.plan.owner)
        if not isinstance(self.plan, PartitionPlan):
            return {}
        cluster, members = self.plan.cluster, self.plan.group.members
        owned = defaultdict[int, set[tuple[str, int]]](set)
        for topic, first, count in zip(cluster.topics, cluster.first.tolist(), cluster.counts.tolist(), strict=False):
            for partition, owner in enumerate(self.plan.owner[first : first + count].tolist()):
                owned[owner].add((topic, partition))
        return {m.instance_id or m.member_id: frozenset(owned[number]) for number, m in enumerate(members)}


@dataclass(frozen=True, slots=True, eq=False)
class _Made:
    """A decision, the same as the broker reads it (`numbers`), and how it was made: `incomplete` is what it lacked."""

    request: wire.Request | TaskGroup
    group: str
    decision: Decision[GroupPlan]
    numbers: IntArray
    topics: WatchedTopics
    timings: Timings
    rules: tuple[Rule, ...] = ()
    incomplete: Incomplete | None = None


@dataclass(slots=True)
class _LastPlan:
    """What later answers and orders need of the newest plan of a known group. `incomplete` is what the plan lacked, if
    something."""

    decision: Decision[GroupPlan] | None = None
    policy: str = ""
    newest: NewestPlan | None = None
    incomplete: Incomplete | None = None


class Answers:
    """Answers requests. `policy_of` returns the configured policy of a group, None for a group that is not configured.
    `weights` returns those of a group, "" if it is not known. `rules_of` returns the operator's rules of placement in a
    known group, None if they are not read yet. `on_served` is called in the thread of the connection. `application_of`
    returns the configuration of a group that is configured as an application, `observed` what its last observation
    shows of it. `racks_configured`: a member's rack may depend on its client id or host."""

    def __init__(
        self,
        groups: KnownGroups,
        topics: TopicNames,
        policy_of: Callable[[str], Policy | None],
        on_served: Callable[[Served], None],
        *,
        weights: Callable[[str], Weights] | None = None,
        rules_of: Callable[[str], tuple[Rule, ...] | None] | None = None,
        application_of: Callable[[str], StreamsConfig | None] | None = None,
        observed: Callable[[str], KnownApplication | None] | None = None,
        racks_configured: bool = False,
    ) -> None:
        self._groups = groups
        self._topics = topics
        self._policy_of = policy_of
        self._on_served = on_served
        self._weights = weights
        self._rules_of = rules_of
        self._application_of = application_of
        self._observed = observed
        self._racks_configured = racks_configured
        self._last: dict[str, _LastPlan] = {}
        # Policies of plans by members, before their group was known, and what the plans lacked.
        self._nameless: dict[tuple[str, ...], tuple[str, Incomplete]] = {}
        self._reporting = threading.Lock()

    def answer(self, data: bytes) -> tuple[bytes, Callable[[bool], None]]:
        """Returns the answer to a request (without its size), and a function to call afterwards: with False if the
        broker had gone when it was sent. Never raises."""
        began = clocks.monotonic()
        try:
            request = wire.read_request(data)
        except RemoteProtocolError as error:
            served = Served(UNREADABLE, "", clocks.monotonic() - began, str(error))
            return wire.refused(wire.number_of(data), str(error)), lambda _: self._on_served(served)
        group = self._groups.group_of(request.members)
        try:
            if isinstance(request, TaskGroup):
                made = self._made_of_tasks(request, group, began)
            else:
                made = self._made(request, group, began)
        except Exception as error:  # noqa: BLE001 - the broker must have an answer
            reason = str(error) if isinstance(error, RefusedError) else repr(error)
            served = Served(request.assignor, group, clocks.monotonic() - began, reason)
            return wire.refused(request.number, reason), lambda _: self._on_served(served)
        return wire.planned(request.number, made.numbers), lambda sent: self._report(made, late=not sent)

    def _made(self, request: wire.Request, group: str, began: float) -> _Made:
        # An invented group has no orders. While its plan is refused, a broker asks for no other group.
        rules = () if request.kind == wire.PROBE else self._rules(group)
        policy = self._policy(request.assignor, group).with_rules(rules)
        members_seen, observed = self._groups.members_of(request.members), self._groups.cluster_of(group)
        views = views_of(request, self._topics.of(request.topics), group, began, members_seen, observed)
        read_s = clocks.monotonic() - began
        now_ms, seed = int(clocks.wall() * 1000), zlib.crc32(group.encode())
        decided = consumer.decide(views.raw, views.cluster, views.memory, policy, now_ms, seed)
        if isinstance(decided, Refusal):
            raise RefusedError(decided.reason)
        owner = decided.plan.owner
        if (owner == NOBODY).any():
            unowned = decided.plan.name(int((owner == NOBODY).argmax()))
            raise RefusedError(f"the plan of policy {policy.name} leaves {unowned} without an owner")
        # The broker itself waits for the former owner, so nothing is pending here.
        decision = replace(decided, plan=replace(decided.plan, target=Plan.of(owner)), assignments=())
        return _Made(
            request=request,
            group=group,
            decision=decision,
            numbers=views.as_asked(owner),
            topics=WatchedTopics(
                views.cluster.topics, rack_aware=bool((decision.plan.group.rack != shared.NO_RACK).any())
            ),
            timings=Timings(began, read_s, clocks.monotonic() - began - read_s),
            rules=rules,
            incomplete=incomplete(
                request,
                members_seen,
                rules,
                policy if group or (request.assignor != OWN_ASSIGNORS and policy.name != LOAD_AWARE) else None,
                racks_configured=self._racks_configured,
                are_known=self._topics.are_known,
            ),
        )

    def _made_of_tasks(self, request: TaskGroup, group: str, began: float) -> _Made:
        refused = no_plan_for_broker("streams", request.assignor, Policy())
        if refused:
            raise RefusedError(refused)
        config = (self._application_of(group) if group and self._application_of is not None else None) or StreamsConfig(
            group
        )
        observed = self._observed(group) if group and self._observed is not None else None
        rules, members_seen = self._rules(group), self._groups.members_of(request.members)
        views = task_views(request, observed, group, began, members_seen)
        read_s = clocks.monotonic() - began
        decision = task_plans.decide_tasks(request, views, config, rules, int(clocks.wall() * 1000))
        return _Made(
            request=request,
            group=group,
            decision=decision,
            numbers=task_plans.numbers_of(request, decision),
            topics=task_plans.watched(decision),
            timings=Timings(began, read_s, clocks.monotonic() - began - read_s),
            rules=rules,
            incomplete=incomplete_tasks(request, members_seen, rules),
        )

    def _policy(self, assignor: str, group: str) -> Policy:
        """Returns the policy in the assignor's name, with the group's capacities; that of the group if there is none in
        the name."""
        configured = (self._policy_of(group) if group else None) or Policy()
        refused = no_plan_for_broker("consumer", assignor, configured)
        if refused:
            raise RefusedError(refused)
        policy = configured if assignor == OWN_ASSIGNORS else configured.stock(policy_in(assignor))
        if policy.name == KAFKA:
            return replace(policy, assignors={})
        if policy.name == LOAD_AWARE and self._weights is not None:
            return policy.with_weights(self._weights(group))
        return policy

    def _rules(self, group: str) -> tuple[Rule, ...]:
        """Returns the rules in force. Raises RefusedError before they are read: a plan would undo an evacuation."""
        if self._rules_of is None:
            return ()
        rules = self._rules_of(group)
        if rules is None:
            raise RefusedError(ORDERS_UNREAD if group else UNOBSERVED)
        return rules

    def _report(self, made: _Made, *, late: bool) -> None:
        """Reports a plan. For each group in the order in which plans were made, as far as the threads run in it."""
        if isinstance(made.request, wire.Request) and made.request.kind == wire.PROBE:
            return
        decision, group = made.decision, made.group
        with self._reporting:
            last = self._last.get(group)
            previous = last.decision if last is not None else None
            before = last.newest.rules if last is not None and last.newest is not None else made.rules
            self._remember(made)
        planned = Planned(
            decision,
            made.topics,
            made.timings,
            previous=previous,
            cause=_cause(previous, decision, before, made.rules),
        )
        took_s = made.timings.metadata_s + made.timings.plan_s
        self._on_served(Served(made.request.assignor, group, took_s, planned=planned, late=late))

    def _remember(self, made: _Made) -> None:
        """Keeps what later answers and orders need. Called under the lock."""
        request, group, decision = made.request, made.group, made.decision
        if not group:
            topics = () if isinstance(request, TaskGroup) else request.topics
            lacked = made.incomplete or Incomplete(request.assignor, topics)
            self._nameless[request.members[:MEMBERS_KEPT]] = decision.policy, lacked
            while len(self._nameless) > NAMELESS_MAX:
                del self._nameless[next(iter(self._nameless))]
        elif group in self._last or len(self._last) < GROUPS_MAX:
            self._recognise()  # plans from before this one
            newest = NewestPlan(decision.plan, made.timings.joined_at, made.rules)
            self._last[group] = _LastPlan(decision, decision.policy, newest, made.incomplete)

    def _recognise(self) -> None:
        """Finds the groups of plans that were made before their group was known. Called under the lock."""
        for members in [*self._nameless]:
            group = self._groups.group_of(members)
            if group:
                last = self._last.setdefault(group, _LastPlan())
                last.policy, last.incomplete = self._nameless.pop(members)

    def newest(self, group: str) -> NewestPlan | None:
        """Returns the newest plan of a known group; None if there was none."""
        with self._reporting:
            last = self._last.get(group)
            return last.newest if last is not None else None

    def policies(self) -> dict[str, str]:
        """Returns the policy of the newest plan of each group that is known by now."""
        with self._reporting:
            self._recognise()
            return {group: last.policy for group, last in self._last.items() if last.policy}

    def lacked(self, group: str) -> tuple[Incomplete, str] | None:
        """Returns what the newest plan of the group was made without, because the group, one of its topics or a
        member's client id and host were not known: orders, capacities by client id or racks by configuration had no
        effect; with the rack or capacity, "" where only orders may have been missed. None if that is nothing, or is not
        known yet."""
        with self._reporting:
            last = self._last.get(group)
            plan = last.incomplete if last is not None else None
            if plan is None or not self._topics.are_known(plan.topics):
                return None
            return None if None in self._groups.members_of(plan.members) else (plan, self._lacked(group, plan))

    def _lacked(self, group: str, plan: Incomplete) -> str:
        """Returns the rack or the capacity that a plan lacked."""
        try:
            policy = self._policy(plan.assignor, group)
        except RefusedError:
            return ""  # its policy was changed to one that does not run for brokers
        return plan.cause(policy, self._groups.members_of(plan.members))

    def forget(self, group: str, before: float = float("inf")) -> None:
        """Forgets the newest plan of a group unless it was made later. `before` is in seconds of a monotonic clock."""
        with self._reporting:
            last = self._last.get(group)
            if last is not None and (last.newest.made_at if last.newest is not None else 0.0) < before:
                del self._last[group]


def _cause(
    previous: Decision[GroupPlan] | None,
    decision: Decision[GroupPlan],
    before: Sequence[Rule],
    rules: Sequence[Rule],
) -> Cause:
    """Returns why the broker asked: the orders that have come or ended since the plan `before`, else what differs."""
    began = [rule.order for rule in rules if rule not in before]
    ended = [f"{rule.order}: ended" for rule in before if rule not in rules]
    why = cause(previous, decision, ordered=tuple(dict.fromkeys((*began, *ended))))
    places = {rule.where for rule in (*before, *rules) if rule.empties}
    return replace(why, by_order=follows_from_orders(why, previous, decision, places, before=False))
