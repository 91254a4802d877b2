"""What is said of a move's gain: racks and balance, for better and for worse."""

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import PartitionPlan, Policy, decide
from bellwether_kafka.assignors.explain import FARTHER, gains
from bellwether_kafka.assignors.shared import ClusterView, Decision, Memory
from tests.kit.consumers import LiveMember, live_group

NEARER = "no longer read from another rack"

CLUSTER = ClusterView.of({"t": [["az1"], ["az1"], ["az2"], ["az2"]]})


def planned() -> Decision[PartitionPlan]:
    """0 and 1 on a in az1, 2 and 3 on b in az2: each reads what is near."""
    members = [LiveMember("a", ("t",), "az1"), LiveMember("b", ("t",), "az2")]
    made = decide(live_group(members, 1, "range"), CLUSTER, Memory.empty(), Policy("rack-first"), 0)
    assert made.plan.owner.tolist() == [0, 0, 1, 1]
    return made


@pytest.mark.parametrize(
    ("before", "item", "expected"),
    [
        ([1, 0, 0, 1], 0, NEARER),
        ([0, 0, 0, 1], 2, f"{NEARER}, 3 and 1 become 2 and 2"),
        ([0, 0, 1, 1], 0, ""),
        ([1, 0, 0, 0], 0, NEARER),
    ],
)
def test_a_gain_in_words(before: list[int], item: int, expected: str) -> None:
    plan = planned().plan
    assert gains(plan, np.array(before, dtype=np.int32), np.array([item])) == [expected]


def test_a_price_is_reported_too() -> None:
    members = [LiveMember("a", ("t",), "az2"), LiveMember("b", ("t",), "az1")]
    plan = decide(live_group(members, 1, "range"), CLUSTER, Memory.empty(), Policy("sticky-min-churn"), 0).plan
    _, far = plan.read_remotely(plan.owner)
    assert far.any(), "this policy does not look at racks"
    other = (1 - plan.owner).astype(np.int32)
    assert gains(plan, other, np.arange(4)) == [FARTHER if then else NEARER for then in far]


def test_nothing_moves_and_nothing_is_gained() -> None:
    plan = planned().plan
    assert gains(plan, plan.owner, np.array([], dtype=np.int64)) == []
