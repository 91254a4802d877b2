"""Rounds under exactly-once that wait for half of the transaction timeout."""

from bellwether_kafka.coordinator.ghosts.long_round import LongRound, LongRounds
from bellwether_kafka.coordinator.membership.events import DescribeAnswer, DescribedMember
from tests.unit.coordinator.ghosts.test_proof import plain

A, B = plain("a-1", "a", "/10.0.0.1"), plain("b-1", "b", "/10.0.0.2")
A_AGAIN = plain("a-2", "a", "/10.0.0.1")


class Story:
    def __init__(self) -> None:
        self.now = 100.0
        self.rounds = LongRounds()

    def look(self, state: str, *members: DescribedMember, after_s: float = 0.25, error: int = 0) -> LongRound | None:
        self.now += after_s
        answer = DescribeAnswer(0, error, state, "consumer", "stream", members)
        return self.rounds.look(answer, self.now, ours="bellwether-1")


def test_the_danger_is_named_once_with_whom_the_round_waits_for() -> None:
    story = Story()
    assert story.look("Stable", A, B) is None
    assert story.look("PreparingRebalance", A, B, A_AGAIN) is None
    assert story.look("PreparingRebalance", A, B, A_AGAIN, after_s=4.5) is None
    found = story.look("PreparingRebalance", A, B, A_AGAIN, after_s=0.6)
    assert found is not None
    assert "waited for 5 s: after transaction.timeout.ms (10 s unless set)" in found.reason
    assert (
        "it waits for one or more of a-1 (/10.0.0.1); since the group last rested came a-2 (/10.0.0.1)" in found.reason
    )
    assert story.look("PreparingRebalance", A, B, A_AGAIN, after_s=3) is None, "once for each round"


def test_without_a_newcomer_any_of_them_may_be_dead() -> None:
    story = Story()
    ours = plain("bellwether-1", "bellwether", "/10.0.0.3")
    story.look("Stable", A, B, ours)
    story.look("PreparingRebalance", A, B, ours)
    found = story.look("CompletingRebalance", A, B, ours, after_s=6)
    assert found is not None
    assert [m.member_id for m in found.awaited] == ["a-1", "b-1"]
    assert "since the group last rested" not in found.reason


def test_of_a_group_that_was_never_at_rest_nobody_is_named() -> None:
    story = Story()
    story.look("PreparingRebalance", A, B)
    found = story.look("PreparingRebalance", A, B, after_s=6)
    assert found is not None
    assert "the members that it waits for are not known" in found.reason


def test_each_round_is_timed_for_itself() -> None:
    story = Story()
    for _ in range(5):
        assert story.look("Stable", A, B, after_s=3) is None
        assert story.look("PreparingRebalance", A, B, after_s=3) is None
        assert story.look("PreparingRebalance", A, B, after_s=3) is None
    assert story.look("Dead", error=16, after_s=30) is None, "of an error nothing is concluded"
