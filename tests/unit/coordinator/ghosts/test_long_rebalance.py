"""Rebalances under exactly-once that wait for half of the transaction timeout."""

from bellwether_kafka.coordinator.ghosts.coexistence import LongRebalance, LongRebalances
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember
from tests.kit.membership import plain

A, B = plain("a-1", "a", "/10.0.0.1"), plain("b-1", "b", "/10.0.0.2")
A_AGAIN = plain("a-2", "a", "/10.0.0.1")


class Scenario:
    def __init__(self) -> None:
        self.now = 100.0
        self.rebalances = LongRebalances()

    def refresh(
        self, state: str, *members: DescribedMember, after_s: float = 0.25, error: int = 0
    ) -> LongRebalance | None:
        self.now += after_s
        answer = DescribeAnswer(0, error, state, "consumer", "stream", members)
        return self.rebalances.refresh(answer, self.now, own="bellwether-1")


def test_the_danger_is_named_once_with_whom_the_rebalance_waits_for() -> None:
    scenario = Scenario()
    assert scenario.refresh("Stable", A, B) is None
    assert scenario.refresh("PreparingRebalance", A, B, A_AGAIN) is None
    assert scenario.refresh("PreparingRebalance", A, B, A_AGAIN, after_s=4.5) is None
    refreshed = scenario.refresh("PreparingRebalance", A, B, A_AGAIN, after_s=0.6)
    assert refreshed is not None
    assert "waited for 5 s: after transaction.timeout.ms (10 s unless set)" in refreshed.reason
    assert (
        "it waits for one or more of a-1 (/10.0.0.1); since the group was last Stable came a-2 (/10.0.0.1)"
        in refreshed.reason
    )
    assert scenario.refresh("PreparingRebalance", A, B, A_AGAIN, after_s=3) is None, "once for each round"


def test_without_a_newcomer_any_of_them_may_be_dead() -> None:
    scenario = Scenario()
    own = plain("bellwether-1", "bellwether", "/10.0.0.3")
    scenario.refresh("Stable", A, B, own)
    scenario.refresh("PreparingRebalance", A, B, own)
    refreshed = scenario.refresh("CompletingRebalance", A, B, own, after_s=6)
    assert refreshed is not None
    assert [m.member_id for m in refreshed.awaited] == ["a-1", "b-1"]
    assert "since the group was last Stable" not in refreshed.reason


def test_of_a_group_that_was_never_at_rest_nobody_is_named() -> None:
    scenario = Scenario()
    scenario.refresh("PreparingRebalance", A, B)
    refreshed = scenario.refresh("PreparingRebalance", A, B, after_s=6)
    assert refreshed is not None
    assert "the members that it waits for are not known" in refreshed.reason


def test_each_rebalance_is_timed_for_itself() -> None:
    scenario = Scenario()
    for _ in range(5):
        assert scenario.refresh("Stable", A, B, after_s=3) is None
        assert scenario.refresh("PreparingRebalance", A, B, after_s=3) is None
        assert scenario.refresh("PreparingRebalance", A, B, after_s=3) is None
    assert scenario.refresh("Dead", error=16, after_s=30) is None, "of an error nothing is concluded"
