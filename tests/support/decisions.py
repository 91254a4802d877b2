"""Decisions of plain consumer groups that must not be refused."""

from collections.abc import Sequence
from typing import Any

from bellwether_kafka.assignors.consumer import PartitionPlan, Policy, decide
from bellwether_kafka.assignors.consumer.validate import validate
from bellwether_kafka.assignors.shared import ClusterView, Decision, Memory, Refusal
from tests.unit.assignors.consumer.scenes import KAFKA
from tests.unit.assignors.consumer.wire import LiveMember, given, live_group


def decided(*arguments: Any, **options: Any) -> Decision[PartitionPlan]:
    """What `decide` returns for these arguments. AssertionError where it refuses."""
    decision = decide(*arguments, **options)
    assert not isinstance(decision, Refusal), decision.reason
    return decision


def settle(
    members: Sequence[LiveMember], cluster: ClusterView, memory: Memory, policy: Policy = KAFKA, generation: int = 1
) -> tuple[Sequence[LiveMember], Decision[PartitionPlan], list[Decision[PartitionPlan]]]:
    """Rebalances until nothing is pending; checks on the way that no partition has two consumers."""
    rebalances: list[Decision[PartitionPlan]] = []
    while not rebalances or rebalances[-1].followup:
        assert len(rebalances) < 4
        decision = decided(live_group(members, generation + len(rebalances)), cluster, memory, policy, now_ms=0)
        assert validate(decision.plan.group, decision.cluster, decision.plan.target) == ()
        consumer = {tp: m.member_id for m in members if m.cooperative for tp in m.owned}
        for member, partitions in given(decision).items():
            assert all(consumer.get(tp, member) == member for tp in partitions)
        members = [m.after(decision) for m in members]
        memory = decision.plan.memory
        rebalances.append(decision)
    return members, rebalances[-1], rebalances
