"""What the cooperative step withholds (docs/internals/assignors.md#cooperative-rebalancing)."""

import numpy as np

from bellwether_kafka.assignors.consumer.follow_up import pending_partitions
from bellwether_kafka.assignors.shared import NOBODY
from tests.kit.consumers import cluster_of
from tests.unit.assignors.consumer.sticky.sticky_scenes import Who, decide, group_of


def pending(members: dict[str, Who], owner: list[int], topics: dict[str, int] | None = None) -> list[int]:
    cluster = cluster_of(topics or {"t": len(owner)})
    return np.flatnonzero(pending_partitions(group_of(cluster, members), np.array(owner, dtype=np.int32))).tolist()


def test_nothing_is_pending_for_its_owner_or_when_it_is_free() -> None:
    assert pending({"a": Who("t", "t-0"), "b": Who("t")}, [0, 1]) == []


def test_what_moves_waits() -> None:
    assert pending({"a": Who("t", "t-0 t-1"), "b": Who("t")}, [0, 1]) == [1]


def test_eager_members_claim_nothing_and_wait_for_nothing() -> None:
    assert pending({"a": Who("t"), "b": Who("t")}, [1, 0]) == []


def test_a_stale_claim_of_another_does_not_disturb_the_owner() -> None:
    assert pending({"a": Who("t", "t-0", 9), "b": Who("t", "t-0", 4)}, [0]) == []


def test_a_stale_claim_counts_as_consuming_when_it_moves_on() -> None:
    assert pending({"a": Who("t", "t-0", 9), "b": Who("t", "t-0", 4), "c": Who("t")}, [2]) == [0]
    assert pending({"a": Who("t", "t-0", 4), "c": Who("t")}, [1]) == [0]


def test_an_equal_double_claim_is_pending_even_from_a_claimant() -> None:
    assert pending({"a": Who("t", "t-0", 5), "b": Who("t", "t-0", 5)}, [0]) == [0]
    assert pending({"a": Who("t", "t-0", 5), "b": Who("t", "t-0", 5), "c": Who("t", "t-0", 6)}, [2]) == []


def test_what_nobody_gets_needs_no_pending() -> None:
    assert pending({"a": Who("t", "t-0")}, [NOBODY]) == []


def test_jvm_bug_a_stale_claim_is_handed_over_at_once() -> None:
    """The JVM's general path lets b start on t-0 and t-1 at once, because b has claimed them long ago, while a, whose
    claim is newer, consumes them until its own sync."""
    members = {"a": Who("t", "t-0 t-1 t-2 t-3", 9), "b": Who("t", "t-0 t-1", 4)}
    assert pending(members, [1, 1, 0, 0]) == [0, 1]
    outcome = decide({"t": 4, "u": 1}, members | {"b": Who("t u", "t-0 t-1", 4)})
    assert all(outcome.names[f] in outcome.waiting for f in np.flatnonzero(outcome.owner == 1)[:-1])


def test_the_second_rebalance_settles() -> None:
    members = {"a": Who("t", "t-0 t-1 t-2 t-3"), "b": Who("t")}
    first = decide({"t": 4}, members)
    assert first.waiting == {"t-2": "b", "t-3": "b"}
    second = decide({"t": 4}, first.next_rebalance(members))
    assert second.plan == first.plan
    assert second.waiting == {}


def test_no_members() -> None:
    cluster = cluster_of({"t": 2})
    assert pending_partitions(group_of(cluster, {}), np.full(2, NOBODY, dtype=np.int32)).tolist() == [False, False]
