"""State machines: the membership under any order of answers, errors, silence and orders, and every assignor through any
life of a group, with `validate` as the oracle of each plan.

Short here; `make machines EXAMPLES=2000` for longer.
"""

import os
from collections import Counter
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from bellwether_kafka.assignors.consumer import BUILT_IN, POLICIES, Policy
from bellwether_kafka.assignors.consumer.validate import validate
from bellwether_kafka.assignors.shared import ClusterView, Memory
from bellwether_kafka.assignors.streams.application import BALANCE_SUBTOPOLOGY, NO_STRATEGY, AssignmentConfigs
from bellwether_kafka.assignors.streams.policies import STREAMS_POLICIES, assign_streams
from bellwether_kafka.assignors.streams.sending import validate_plan
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.consumers import LiveMember, decided, given, live_group
from tests.kit.streams_views import RACKS, Application, Instance, random_process_id
from tests.properties.membership_machine import Membership

EXAMPLES = int(os.environ.get("BELLWETHER_MACHINE_EXAMPLES", "15"))


STEPS = int(os.environ.get("BELLWETHER_MACHINE_STEPS", "30"))


RUN = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


LONG_S = 120 + EXAMPLES * STEPS  # for all of one machine, on a slow computer


# ---- plain consumers -------------------------------------------------------------------------------------------------

TOPICS = ("t", "u", "v")


PLACES = ("az1", "az2", "az3", None)


class Consumers(RuleBasedStateMachine):
    """Members come, go, die, change their minds; topics grow, racks move. Each plan is valid, every partition has one
    owner once the follow-ups are through, and a rebalance in which nothing happens moves nothing."""

    policy = "kafka"
    protocol = "range"

    def __init__(self) -> None:
        super().__init__()
        self.sizes = {"t": 4}
        self.members: list[LiveMember] = []
        self.memory = Memory.empty()
        self.generation = 0
        self.made = 0

    @rule(data=st.data(), rack=st.sampled_from(PLACES))
    def joins(self, data: st.DataObject, rack: str | None) -> None:
        if len(self.members) < 8:
            self.made += 1
            topics = tuple(data.draw(st.lists(st.sampled_from(TOPICS), unique=True, min_size=1)))
            cooperative = BUILT_IN[self.protocol].cooperative
            self.members.append(LiveMember(f"m{self.made}", topics, rack, cooperative))
            self._rebalances()

    @precondition(lambda self: len(self.members) > 1)
    @rule(data=st.data())
    def goes(self, data: st.DataObject) -> None:
        self.members.remove(data.draw(st.sampled_from(self.members)))
        self._rebalances()

    @rule(topic=st.sampled_from(TOPICS), size=st.integers(1, 9))
    def topic_grows(self, topic: str, size: int) -> None:
        if size > self.sizes.get(topic, 0):
            self.sizes[topic] = size
            self._rebalances()

    @rule(topic=st.sampled_from(TOPICS))
    def topic_vanishes(self, topic: str) -> None:
        if self.sizes.pop(topic, None):
            gone = set(self.sizes)
            self.members = [
                LiveMember(
                    m.member_id,
                    m.topics,
                    m.rack,
                    m.cooperative,
                    tuple(p for p in m.owned if p.topic in gone),
                    m.generation,
                )
                for m in self.members
            ]
            self._rebalances()

    @rule()
    def nothing_happens(self) -> None:
        if self.members:
            before = {m.member_id: sorted(m.owned) for m in self.members}
            self._rebalances()
            if self.protocol in ("sticky", "cooperative-sticky") or self.policy == "sticky-min-churn":
                assert {m.member_id: sorted(m.owned) for m in self.members} == before

    def _cluster(self) -> ClusterView:
        return ClusterView.of({t: [[PLACES[p % 3]] for p in range(n)] for t, n in self.sizes.items()})

    def _rebalances(self) -> None:
        """Until nothing is pending any more."""
        cluster = self._cluster()
        for _ in range(4):
            self.generation += 1
            raw = live_group(self.members, self.generation, self.protocol)
            decision = decided(raw, cluster, self.memory, Policy(self.policy), 0)
            holds = decision.plan.group.protocol != "sticky"
            assert validate(decision.plan.group, decision.cluster, decision.plan.target, holds_claims=holds) == ()
            self._one_owner(given(decision))
            self.members = [m.after(decision) for m in self.members]
            self.memory = decision.plan.memory
            if not decision.followup:
                break
        else:
            raise AssertionError("four rounds and still something is withheld")
        wanted = {TopicPartition(t, p) for t, n in self.sizes.items() if self._subscribed(t) for p in range(n)}
        assert {p for m in self.members for p in m.owned} == wanted

    def _subscribed(self, topic: str) -> bool:
        return any(topic in m.topics for m in self.members)

    def _one_owner(self, sent: dict[str, tuple[TopicPartition, ...]]) -> None:
        counts = Counter(p for partitions in sent.values() for p in partitions)
        assert not [p for p, times in counts.items() if times > 1]
        if not BUILT_IN[self.protocol].cooperative:
            return
        for member in self.members:  # they consume on while they rebalance
            taken = {p for other, partitions in sent.items() if other != member.member_id for p in partitions}
            assert not taken & set(member.owned), "sent to one while another consumes it"


# ---- Streams ---------------------------------------------------------------------------------------------------------


class Tasks(RuleBasedStateMachine):
    """Instances with racks come, go, and come back with their state, with standbys and warm-ups; every plan is valid,
    warm-ups are no more than allowed, and left alone the application comes to rest."""

    policy = "streams-ha"

    @initialize(
        seed=st.integers(0, 1 << 30),
        standbys=st.integers(0, 2),
        warmups=st.integers(1, 3),
        strategy=st.sampled_from((NO_STRATEGY, "min_traffic", BALANCE_SUBTOPOLOGY)),
        sizes=st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=4),
    )
    def begin(self, seed: int, standbys: int, warmups: int, strategy: str, sizes: list[tuple[int, bool]]) -> None:
        self.random = Random(seed)
        self.configs = AssignmentConfigs(
            acceptable_recovery_lag=100,
            max_warmup_replicas=warmups,
            num_standby_replicas=standbys,
            rack_aware_assignment_strategy=strategy,
        )
        total = sum(count for count, _ in sizes)
        replicas = [self.random.randrange(len(RACKS)) for _ in range(total)]
        reported = [(count, 150_000 if stateful else None) for count, stateful in sizes]
        self.tasks = sum(count for count, stateful in sizes if stateful)
        self.application = Application(reported, replicas=replicas)
        self.away: list[Instance] = []
        self.joins()

    @rule()
    def joins(self) -> None:
        if len(self.application.instances) < 6:
            self.application.instances.append(Instance(random_process_id(self.random), rack=self.random.choice(RACKS)))
            self._rebalance()

    @precondition(lambda self: len(self.application.instances) > 1)
    @rule(keeps=st.booleans())
    def goes(self, keeps: bool) -> None:
        instances = self.application.instances
        gone = instances.pop(self.random.randrange(len(instances)))
        if keeps:
            self.away.append(gone)
        self._rebalance()

    @precondition(lambda self: self.away)
    @rule()
    def comes_back_with_its_state(self) -> None:
        self.application.instances.append(self.away.pop())
        self._rebalance()

    @rule()
    def left_alone(self) -> None:
        """Within what KIP-441's own test grants, and one for a probe that finds everything done."""
        for _ in range(2 * self.tasks * (1 + self.configs.num_standby_replicas) + 2):
            if not self._rebalance():
                return
        raise AssertionError("it never comes to rest")

    def _rebalance(self) -> bool:
        view = self.application.view()
        plan = assign_streams(view, self.configs, self.policy)
        assert validate_plan(view, plan) == ()
        assert int((plan.warmup != 0).sum()) <= self.configs.max_warmup_replicas
        self.application.settle(plan)
        return bool(plan.probing)


MACHINES = [
    pytest.param(Membership, id="membership"),
    *(
        pytest.param(
            type("Consumers", (Consumers,), {"policy": policy, "protocol": protocol}), id=f"{policy}-{protocol}"
        )
        for policy in POLICIES
        for protocol in ("range", "roundrobin", "sticky", "cooperative-sticky", "rack-affinity")
    ),
    *(pytest.param(type("Tasks", (Tasks,), {"policy": policy}), id=f"tasks-{policy}") for policy in STREAMS_POLICIES),
]


@pytest.mark.timeout(LONG_S)
@pytest.mark.parametrize("machine", MACHINES)
def test_any_life(machine: type[RuleBasedStateMachine]) -> None:
    case = machine.TestCase
    case.settings = RUN
    case("runTest").runTest()
