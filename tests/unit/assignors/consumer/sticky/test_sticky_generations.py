"""Whose claim counts: generations, the leader's memory, the JVM's mistakes
(docs/internals/assignors.md#stickiness-whose-claim-counts)."""

from itertools import permutations

import numpy as np
import pytest

from tests.unit.assignors.consumer.sticky.sticky_scenes import Who, decide

ALL_T = "t-0 t-1 t-2"


def test_the_newer_claims_win_and_the_other_gets_the_rest() -> None:
    outcome = decide({"t": 6}, {"c1": Who("t", ALL_T, 10), "c2": Who("t", ALL_T, 9)})
    assert outcome.plan == {"c1": ["t-0", "t-1", "t-2"], "c2": ["t-3", "t-4", "t-5"]}
    assert outcome.waiting == {}


def test_a_claim_without_a_generation_is_the_oldest() -> None:
    outcome = decide({"t": 6}, {"c1": Who("t", ALL_T, -1), "c2": Who("t", ALL_T, 9)})
    assert outcome.plan == {"c1": ["t-3", "t-4", "t-5"], "c2": ["t-0", "t-1", "t-2"]}


def test_an_equal_double_claim_waits_a_rebalance() -> None:
    members = {"c1": Who("t", "t-0 t-1", 3), "c2": Who("t", "t-0 t-2", 3), "c3": Who("t")}
    outcome = decide({"t": 3}, members)
    assert outcome.plan == {"c1": ["t-1"], "c2": ["t-2"], "c3": ["t-0"]}
    assert outcome.waiting == {"t-0": "c3"}
    with_a_free_one = decide({"t": 4}, {name: members[name] for name in ("c1", "c2")})
    assert "t-1" in with_a_free_one.of("c1")
    assert "t-2" in with_a_free_one.of("c2")
    assert set(with_a_free_one.waiting) == {"t-0"}


def test_uncontested_claims_of_any_age_are_kept() -> None:
    topics = {"t": 3, "u": 3, "v": 3}
    members = {
        "c1": Who("t u v", "t-0 u-0 v-0", 10),
        "c2": Who("t u v", "t-0 t-1 u-0 u-1 v-1", 9),
        "c3": Who("t u v", "t-1 u-1 u-2 v-1 v-2 t-2", 8),
    }
    outcome = decide(topics, members)
    assert outcome.plan == {
        "c1": ["t-0", "u-0", "v-0"],
        "c2": ["t-1", "u-1", "v-1"],
        "c3": ["t-2", "u-2", "v-2"],
    }


def test_current_members_keep_theirs_whatever_their_generations() -> None:
    members = {
        "c1": Who("t u v", "t-0 u-0 v-0", 9),
        "c2": Who("t u v", "t-1 u-1 v-1", 8),
        "c3": Who("t u v", "t-2 u-2 v-2", 7),
        "c0": Who("t u v", "", -1),
    }
    outcome = decide({"t": 4, "u": 4, "v": 4}, members)
    assert outcome.of("c0") == ["t-3", "u-3", "v-3"]
    assert outcome.kept == 9


def test_old_claims_only_for_what_nobody_newer_has() -> None:
    outcome = decide({"t": 3, "u": 3}, {"c1": Who("t u", "t-0 t-1 u-1", 10), "c2": Who("t u", "t-0 u-1 u-2", 8)})
    assert outcome.plan == {"c1": ["t-0", "t-1", "u-1"], "c2": ["t-2", "u-0", "u-2"]}
    assert outcome.waiting == {}


@pytest.mark.parametrize("generations", list(permutations((1, 2, 3))))
def test_three_members_of_different_age_share_a_claim(generations: tuple[int, int, int]) -> None:
    members = {
        "c1": Who("t u", "t-0 t-2", generations[0]),
        "c2": Who("t", "t-1 t-2", generations[1]),
        "c3": Who("t", "t-2", generations[2]),
    }
    outcome = decide({"t": 4, "u": 1}, members)
    assert outcome.sizes == [1, 2, 2]
    # c1 alone may have u-0, so it may have to give up one of t; the newest of the others keeps what it claims.
    assert set(outcome.waiting) <= {"t-0", "t-2"}
    if generations[0] != 3:
        assert "t-2" in outcome.of(f"c{generations.index(3) + 1}")


def test_a_member_returns_with_old_claims() -> None:
    topics = {"t": 6, "u": 6}
    trio = {name: Who("t u") for name in ("c1", "c2", "c3")}
    first = decide(topics, trio)
    second = decide(topics, {n: Who("t u", " ".join(first.of(n)), 1) for n in ("c1", "c2")})
    assert second.kept == 8
    alone = {"c2": Who("t u", " ".join(second.of("c2")), 2)}
    third = decide(topics, alone | {"c3": Who("t u", " ".join(first.of("c3")), 1)})
    assert third.sizes == [6, 6]
    assert set(third.of("c2")) <= set(second.of("c2"))


def test_two_return_after_one_was_alone() -> None:
    topics = {"t": 4, "u": 4, "v": 4}
    first = decide(topics, {name: Who("t u v") for name in ("c1", "c2", "c3")})
    assert first.sizes == [4, 4, 4]
    alone = decide(topics, {"c1": Who("t u v", " ".join(first.of("c1")), 1)})
    old = {name: Who("t u v", " ".join(first.of(name)), 1) for name in ("c2", "c3")}
    back = decide(topics, {"c1": Who("t u v", " ".join(alone.of("c1")), 2)} | old)
    assert back.sizes == [4, 4, 4]
    assert set(back.waiting) == set(back.of("c2")) | set(back.of("c3"))


def test_conflicting_previous_generations() -> None:
    claims = " ".join(f"{topic}-{p}" for topic in "tuv" for p in range(4))
    members = {name: Who("t u v", claims, age) for name, age in (("c1", 1), ("c2", 1), ("c3", 2))}
    outcome = decide({"t": 4, "u": 4, "v": 4}, members)
    assert outcome.sizes == [4, 4, 4]
    assert outcome.kept == 12
    assert not set(outcome.waiting) & set(outcome.of("c3"))


def test_a_member_that_dropped_the_topic_does_not_invalidate_an_older_claim() -> None:
    outcome = decide({"t": 1, "u": 1}, {"a": Who("t", "t-0", 1), "b": Who("u", "t-0 u-0", 2)})
    assert outcome.plan == {"a": ["t-0"], "b": ["u-0"]}


def test_one_bad_old_claim_does_not_stop_the_others() -> None:
    members = {
        "c2": Who("v z", "z-0", 2),
        "a": Who("v w", "w-0 v-0", 1),
        "x": Who("xw", "t-0 xw-0", 1),
        "y": Who("t", "t-0", 2),
        "bq": Who("q", "v-0 q-0", 2),
    }
    outcome = decide(dict.fromkeys(["v", "z", "w", "q", "t", "xw"], 1), members)
    assert outcome.of("a") == ["v-0", "w-0"]
    assert outcome.of("y") == ["t-0"]


def test_a_stale_owner_does_not_take_back_from_a_smaller_or_equal_one() -> None:
    members = {"a": Who("t", "t-0", 1), "b": Who("t", ALL_T, 2), "c": Who("t u")}
    assert decide({"t": 3, "u": 0}, members).sizes == [1, 1, 1]


def test_a_change_of_interest_leaves_nothing_behind() -> None:
    members = {"a": Who("w x", "t-0 u-0", 1), "b": Who("w x", "w-0 x-0", 2), "c": Who("t u v", "t-0 u-0 v-0", 2)}
    outcome = decide(dict.fromkeys("tuvwx", 1), members)
    assert outcome.of("c") == ["t-0", "u-0", "v-0"]
    assert outcome.sizes == [1, 1, 3]
    assert outcome.kept == 4


def test_hostile_claims_do_no_harm() -> None:
    members = {"a": Who("t", "t--1 t-0 t-0 t-99 nothing-0", 1), "b": Who("t", "t--2", 1)}
    assert decide({"t": 2}, members).plan == {"a": ["t-0"], "b": ["t-1"]}


def test_jvm_bug_the_older_claim_wins_when_it_is_seen_second() -> None:
    """The JVM compares a claim's generation with the *subscription field* of the other claimant, which is -1 for
    members that carry their generation in userData: the second one seen always wins there."""
    for first, second in (("a", "b"), ("b", "a")):
        outcome = decide({"t": 6}, {first: Who("t", ALL_T, 5), second: Who("t", ALL_T, 4)})
        assert outcome.of(first) == ["t-0", "t-1", "t-2"]


def test_jvm_bug_members_with_no_topics_are_given_partitions() -> None:
    """A member that subscribes to nothing and is visited first made the JVM treat all subscriptions as equal."""
    for name in ("0", "zzz", "m-1"):
        members = {name: Who(""), "m-0": Who("t"), "m-2": Who("t")}
        outcome = decide({"t": 4}, members)
        assert outcome.of(name) == []
        assert outcome.sizes == [0, 2, 2]
        assert decide({"t": 4, "u": 4}, members | {"m-3": Who("u")}).of(name) == []


def test_jvm_bug_a_newer_third_claim_waits_too() -> None:
    """Two equal claims made the JVM's constrained path distrust a third one of a higher generation as well."""
    members = {"a": Who("t", "t-0", 3), "b": Who("t", "t-0", 3), "c": Who("t", "t-0", 4)}
    outcome = decide({"t": 3}, members)
    assert "t-0" in outcome.of("c")
    assert outcome.waiting == {}


def test_memory_comes_before_claims_of_its_generation() -> None:
    members = {"c1": Who("t", "t-1", 5), "c2": Who("t", "t-0", 5)}
    outcome = decide({"t": 2}, members, remembered={"c1": "t-0", "c2": "t-1"}, remembered_generation=5)
    assert outcome.plan == {"c1": ["t-0"], "c2": ["t-1"]}


def test_memory_is_all_that_eager_members_need() -> None:
    members = {"c1": Who("t", "", -1), "c2": Who("t", "", -1)}
    outcome = decide({"t": 4}, members, remembered={"c1": "t-2 t-3", "c2": "t-0 t-1"}, remembered_generation=5)
    assert outcome.plan == {"c1": ["t-2", "t-3"], "c2": ["t-0", "t-1"]}


def test_a_newer_claim_comes_before_memory() -> None:
    members = {"c1": Who("t", "t-1", 6), "c2": Who("t", "t-0", 6)}
    outcome = decide({"t": 2}, members, remembered={"c1": "t-0", "c2": "t-1"}, remembered_generation=5)
    assert outcome.plan == {"c1": ["t-1"], "c2": ["t-0"]}


def test_memory_decides_between_equal_claims() -> None:
    members = {"c1": Who("t", "t-0", 5), "c2": Who("t", "t-0 t-1", 5)}
    outcome = decide({"t": 2}, members, remembered={"c1": "t-0", "c2": "t-1"}, remembered_generation=5)
    assert outcome.plan == {"c1": ["t-0"], "c2": ["t-1"]}
    # Both say that they consume it, so it is taken from both first.
    assert outcome.waiting == {"t-0": "c1"}


def test_memory_of_a_topic_that_its_member_dropped_is_ignored() -> None:
    members = {"c1": Who("u"), "c2": Who("t u")}
    outcome = decide({"t": 2, "u": 2}, members, remembered={"c1": "t-0 t-1"}, remembered_generation=5)
    assert outcome.of("c2") == ["t-0", "t-1"]


def test_claims_fill_what_memory_does_not_know() -> None:
    members = {"c1": Who("t", "t-2", 4), "c2": Who("t", "t-3", 4)}
    outcome = decide({"t": 4}, members, remembered={"c1": "t-0", "c2": "t-1"}, remembered_generation=5)
    assert outcome.plan == {"c1": ["t-0", "t-2"], "c2": ["t-1", "t-3"]}
    assert np.array_equal(np.flatnonzero(outcome.pending), [])
