"""A group of 2,000 members and 10,000 partitions, and a thousand groups, as the page is asked for them."""

from collections.abc import Sequence
from dataclasses import replace

from prometheus_client import CollectorRegistry

from bellwether_kafka.assignors.consumer import Policy, decide, recall
from bellwether_kafka.assignors.shared import AssignedMember, ClusterView, RawGroup, RawMember
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember
from bellwether_kafka.coordinator.observation import (
    Curve,
    Group,
    LagSummary,
    LagVerdict,
    Observation,
    Shadow,
    observation,
    worst_first,
)
from bellwether_kafka.coordinator.web import Present, Web, present
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.observed import group_lag, sample

POINTS = 68
STEP_MS_MAX = 320_000

MEMBERS, TOPICS, PARTITIONS = 2_000, 50, 200
GROUPS = 1_000
LARGE = "large"
NAMES = [f"orders-{number:02}" for number in range(TOPICS)]
SHARE = TOPICS * PARTITIONS // MEMBERS


def racks_of(partition: int) -> list[str]:
    return [f"az{partition % 3 + 1}", f"az{(partition + 1) % 3 + 1}"]


def member(number: int) -> DescribedMember:
    rack = f"az{number % 3 + 1}"
    flat = range(number * SHARE, (number + 1) * SHARE)
    owned = tuple(TopicPartition(NAMES[place // PARTITIONS], place % PARTITIONS) for place in flat)
    subscription = ConsumerProtocolSubscription(3, tuple(NAMES), None, (), 1, rack).encode()
    about = (f"orders-{number}", f"/10.0.{number // 250}.{number % 250}")
    member_id = f"consumer-{number}-9c1f7a3e-0000-4000-8000-00000000{number:04}"
    return DescribedMember(member_id, None, subscription, ConsumerProtocolAssignment(0, owned).encode(), *about)


def large_group() -> Observation:
    """A third of it is read from another rack, so that Bellwether's plan moves thousands; each partition has another
    lag."""
    members = tuple(map(member, range(MEMBERS)))
    cluster = ClusterView.of({name: [racks_of(p) for p in range(PARTITIONS)] for name in NAMES})
    stored = [AssignedMember(m.member_id, None, m.metadata, m.assignment) for m in members]
    raw = RawGroup(LARGE, 9, "range", tuple(RawMember(m.member_id, None, m.metadata) for m in members))
    decision = decide(raw, cluster, recall(9, "range", cluster, stored), Policy("rack-first"), 0, 0)
    committed = ({name: [100 * at] * PARTITIONS for name in NAMES} for at in range(0, 330, 30))
    ends = ({name: [100 * at + p for p in range(PARTITIONS)] for name in NAMES} for at in range(0, 330, 30))
    refreshes = (sample(at, *both) for at, *both in zip(range(0, 330, 30), committed, ends, strict=True))
    owners = {tp: m.member_id for m in members for tp in ConsumerProtocolAssignment.decode(m.assignment).partitions}
    seen = observation(LARGE, "classic", DescribeAnswer(0, 0, "Stable", "consumer", "range", members), 9_000)
    return replace(seen, shadow=Shadow.of(decision, decision.plan.before)).with_lag(
        group_lag(*refreshes, owners=owners)
    )


def group_now(number: int) -> Group:
    name = LARGE if number == 0 else f"team-{number % 10}-orders-{number:04}"
    tally = {verdict.value: 0 for verdict in LagVerdict} | {"stalled": number % 100 == 7}
    lag = LagSummary(100, LagVerdict.OK, number * 977, number, 0, number * 10, 0, 100.0, 100.0, 0, tally)
    curve = Curve(1_700_000_000_000, STEP_MS_MAX, tuple((number * 977 + at * 131) % 999_983 for at in range(POINTS)))
    shown = Group(group=name, type="classic", state="stable", assigned_by="a member", members=4, lag=lag, curve=curve)
    return replace(shown, items=100, unowned=0, cross_rack=33, cross_rack_planned=0, moves=40)


def application() -> Web:
    seen, groups = large_group(), [group_now(number) for number in range(GROUPS)]

    def rows(name: str) -> Sequence[Group]:
        return worst_first(group for group in groups if name in ("", group.group))

    def shown(name: str) -> Present | None:
        return present(seen) if name == LARGE else None

    return Web(CollectorRegistry(), lambda: None, observed=shown, overview=rows)
