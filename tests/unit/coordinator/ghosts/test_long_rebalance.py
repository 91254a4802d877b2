"""Rebalances under exactly-once that wait for half of the transaction timeout."""

from bellwether_kafka.coordinator.ghosts import Rebalancing, troubles
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember
from tests.kit.membership import plain

A, B = plain("a-1", "a", "/10.0.0.1"), plain("b-1", "b", "/10.0.0.2")
A_AGAIN = plain("a-2", "a", "/10.0.0.1")


class Scenario:
    def __init__(self) -> None:
        self.now = 100.0
        self.state = Rebalancing()

    def refresh(self, state: str, *members: DescribedMember, after_s: float = 0.25, error: int = 0) -> str:
        """The alert, "" for none."""
        self.now += after_s
        answer = DescribeAnswer(0, error, state, "consumer", "stream", members)
        self.state, trouble = troubles(answer, self.state, self.now, own="bellwether-1", exactly_once=True)
        return "".join(trouble.alerts)


def test_the_danger_is_named_once_with_whom_the_rebalance_waits_for() -> None:
    scenario = Scenario()
    assert scenario.refresh("Stable", A, B) == ""
    assert scenario.refresh("PreparingRebalance", A, B, A_AGAIN) == ""
    assert scenario.refresh("PreparingRebalance", A, B, A_AGAIN, after_s=4.5) == ""
    danger = scenario.refresh("PreparingRebalance", A, B, A_AGAIN, after_s=0.6)
    assert "waited for 5 s: after transaction.timeout.ms (10 s unless set)" in danger
    waits = "it waits for one or more of a-1 (/10.0.0.1); since the group was last Stable came a-2 (/10.0.0.1)"
    assert waits in danger
    assert scenario.refresh("PreparingRebalance", A, B, A_AGAIN, after_s=3) == "", "once for each round"


def test_without_a_newcomer_any_of_them_may_be_dead() -> None:
    scenario = Scenario()
    own = plain("bellwether-1", "bellwether", "/10.0.0.3")
    scenario.refresh("Stable", A, B, own)
    scenario.refresh("PreparingRebalance", A, B, own)
    danger = scenario.refresh("CompletingRebalance", A, B, own, after_s=6)
    assert "it waits for one or more of a-1 (/10.0.0.1), b-1 (/10.0.0.2);" in danger
    assert "since the group was last Stable" not in danger


def test_of_a_group_that_was_never_at_rest_nobody_is_named() -> None:
    scenario = Scenario()
    scenario.refresh("PreparingRebalance", A, B)
    danger = scenario.refresh("PreparingRebalance", A, B, after_s=6)
    assert "the members that it waits for are not known" in danger


def test_each_rebalance_is_timed_for_itself() -> None:
    scenario = Scenario()
    for _ in range(5):
        assert scenario.refresh("Stable", A, B, after_s=3) == ""
        assert scenario.refresh("PreparingRebalance", A, B, after_s=3) == ""
        assert scenario.refresh("PreparingRebalance", A, B, after_s=3) == ""
    assert scenario.refresh("Dead", error=16, after_s=30) == "", "of an error nothing is concluded"
