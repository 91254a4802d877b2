"""Racks (KIP-881) in sticky plans: grids of broker and member racks, as other clients' tests have them.

Topics of 6, 7 and 2 partitions, three members. The figures are what the JVM reaches; the plan is never further away
from its racks and always as balanced.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import score
from bellwether_kafka.assignors.consumer.sticky import exchange, general, place
from bellwether_kafka.assignors.consumer.sticky.constrained import rack_quotas
from bellwether_kafka.assignors.shared import ClusterView
from tests.kit.consumers import rack_mismatches, racked
from tests.unit.assignors.consumer.sticky.sticky_scenes import Outcome, Who, decide, group_of

TOPICS = {"t1": 6, "t2": 7, "t3": 2}
EQUAL = ("t1 t2 t3",) * 3
UNEQUAL = ("t1 t2 t3", "t1 t2 t3", "t1 t3")
ABC = ("a", "b", "c")


def members_of(topics: Sequence[str], racks: Sequence[str | None]) -> dict[str, Who]:
    return {f"c{i}": Who(wanted, rack=rack) for i, (wanted, rack) in enumerate(zip(topics, racks, strict=True))}


def far(outcome: Outcome) -> int:
    return rack_mismatches(outcome.group, outcome.cluster, outcome.owner)


@pytest.mark.parametrize("topics", [EQUAL, UNEQUAL])
@pytest.mark.parametrize(
    ("replicas", "broker_racks", "member_racks"),
    [
        (3, ABC, ABC),
        (2, ABC, (None,) * 3),
        (2, ABC, ("",) * 3),
        (2, (None,) * 3, ABC),
        (2, ABC, ("d", "e", "f")),
    ],
    ids=["all racks hold all", "no member rack", "empty member rack", "no broker rack", "foreign racks"],
)
def test_without_use_for_racks_the_plan_is_the_plain_one(
    topics: Sequence[str], replicas: int, broker_racks: Sequence[str | None], member_racks: Sequence[str | None]
) -> None:
    plain = decide(TOPICS, members_of(topics, (None,) * 3))
    outcome = decide(TOPICS, members_of(topics, member_racks), replicas=replicas, racks=broker_racks)
    assert outcome.plan == plain.plan
    assert outcome.sizes == [5, 5, 5]


def test_what_is_owned_in_the_wrong_rack_moves_in_two_rebalances() -> None:
    """Partition i is in rack i mod 3; every member owns what is in the next rack."""
    flats = [f"{topic}-{p}" for topic, count in TOPICS.items() for p in range(count)]
    members = {f"c{i}": Who("t1 t2 t3", " ".join(flats[(i + 1) % 3 :: 3]), 1, rack) for i, rack in enumerate(ABC)}
    first = decide(TOPICS, members, racks=ABC)
    assert far(first) == 0
    assert first.kept == 0
    assert len(first.waiting) == len(flats)
    second = decide(TOPICS, first.next_rebalance(members), racks=ABC)
    assert second.plan == first.plan
    assert second.waiting == {}


def test_exactly_the_two_misplaced_partitions_are_exchanged() -> None:
    members = {"c0": Who("t", "t-0 t-1", rack="a"), "c1": Who("t", "t-2 t-3", rack="b")}
    outcome = decide({"t": 4}, members, racks=("a", "b"))
    assert outcome.plan == {"c0": ["t-0", "t-2"], "c1": ["t-1", "t-3"]}
    assert outcome.waiting == {"t-2": "c0", "t-1": "c1"}


@pytest.mark.parametrize(
    ("topics", "kept"),
    # With the mixed lists one partition is exchanged, because that brings another one home.
    [(("t u",) * 4, 12), (("t u", "t", "u", "t u"), 11)],
)
def test_a_member_leaves_and_what_is_local_stays(topics: Sequence[str], kept: int) -> None:
    members = {f"m{i}": Who(wanted, rack="abab"[i]) for i, wanted in enumerate(topics)}
    first = decide({"t": 8, "u": 8}, members, racks=("a", "b"))
    assert far(first) == 0
    remaining = {name: who for name, who in first.next_rebalance(members).items() if name != "m3"}
    after = decide({"t": 8, "u": 8}, remaining, racks=("a", "b"))
    assert after.kept == kept
    assert after.sizes in ([5, 5, 6], [4, 6, 6])


@pytest.mark.parametrize("topics", [("t u",) * 3, ("t u", "t u", "t")])
def test_a_settled_group_stays_though_not_everything_can_be_local(topics: Sequence[str]) -> None:
    """The JVM puts every misplaced partition back into the pool at each rebalance."""
    members = {f"c{i}": Who(wanted, rack=rack) for i, (wanted, rack) in enumerate(zip(topics, "aaz", strict=True))}
    first = decide({"t": 7, "u": 8}, members, racks=ABC)
    members = first.next_rebalance(members)
    assert far(first) > 0
    again = decide({"t": 7, "u": 8}, members, racks=ABC)
    assert again.plan == first.plan
    assert again.waiting == {}


def quotas(
    supply: Sequence[int], above: Sequence[int], excess: int, even: int, room: Sequence[int], extra: int, spare: int
) -> tuple[list[list[int]], list[int]]:
    """Of three signatures the first is in both racks, the second in rack 0, the third nowhere."""
    near = np.array([[True, True], [True, False], [False, False]])
    flow, taken = rack_quotas(
        np.array(supply), np.array(above), excess, near, np.full((3, 2), even), np.array(room), np.full(2, extra), spare
    )
    return flow.tolist(), taken.tolist()


def test_rack_quotas_reroute_and_share_the_spare_places() -> None:
    """Three local places at most: one for each rack and one spare; what only rack 0 holds finds its place."""
    flow, _ = quotas([2, 1, 4], [0, 0, 0], 0, 9, [1, 1], 1, 1)
    assert sum(map(sum, flow)) == 3
    assert flow[1:] == [[1, 0], [0, 0]]
    assert quotas([2, 1, 4], [0, 0, 0], 0, 9, [0, 0], 1, 0)[0] == [[0, 0]] * 3


def test_rack_quotas_split_a_signature_evenly_where_that_costs_nothing() -> None:
    assert quotas([4, 0, 0], [0, 0, 0], 0, 2, [4, 4], 0, 0)[0][0] == [2, 2]
    assert quotas([4, 0, 0], [0, 0, 0], 0, 2, [1, 4], 0, 0)[0][0] == [1, 3]


def test_rack_quotas_say_which_partitions_members_above_their_quota_should_give() -> None:
    """Three are to become free, and the room is in rack 0 alone."""
    assert quotas([0, 0, 0], [0, 5, 5], 3, 9, [3, 0], 0, 0)[1] == [0, 3, 0]


def test_a_newcomer_gets_what_is_in_its_rack() -> None:
    """Both have partitions of all racks, of which those in the rack of the newcomer go to it."""
    layout: dict[str, list[list[str | None]]] = {"t": [["a", "c"], ["b", "c"], ["a", "b"], ["a", "b"]] * 3}
    cluster = ClusterView.of(layout)
    owned = {
        "A": [f"t-{p}" for p in range(12) if p % 4 in (0, 2)],
        "B": [f"t-{p}" for p in range(12) if p % 4 in (1, 3)],
    }
    group = group_of(
        cluster,
        {
            "A": Who("t", " ".join(owned["A"]), rack="a"),
            "B": Who("t", " ".join(owned["B"]), rack="b"),
            "C": Who("t", rack="c"),
        },
    )
    owner = place(group, cluster)
    assert rack_mismatches(group, cluster, owner) == 0
    assert np.bincount(owner).tolist() == [4, 4, 4]
    assert [int(owner[p]) for p in range(12) if p % 4 >= 2] == [0, 1] * 3


@pytest.mark.parametrize("members", [6, 8])
def test_a_rack_that_loses_a_member_finds_its_partitions_near(members: int) -> None:
    """Every signature is split over its racks, and in a rack over its members, so that nothing has to move."""
    layout: dict[str, list[list[str | None]]] = {"t": [[ABC[p % 3], ABC[(p + 1) % 3]] for p in range(600)]}
    cluster = ClusterView.of(layout)
    everybody = {f"m{i}": Who("t", rack=ABC[i % 3]) for i in range(members)}
    owner = place(group_of(cluster, everybody), cluster)
    owned = {name: " ".join(f"t-{p}" for p in np.flatnonzero(owner == i)) for i, name in enumerate(everybody)}
    rest = {name: replace(who, owned=owned[name]) for name, who in list(everybody.items())[:-1]}
    group = group_of(cluster, rest)
    after = place(group, cluster)
    assert rack_mismatches(group, cluster, after) == 0
    assert int(((owner < members - 1) & (owner != after)).sum()) == 0


def test_one_partition_alone_moves_into_its_rack() -> None:
    """Java leaves it, since all partitions, one, have the same racks (KIP-881)."""
    cluster = ClusterView.of({"t": [["b"]]})
    group = group_of(cluster, {"A": Who("t", "t-0", rack="a"), "B": Who("t", rack="b")})
    assert place(group, cluster).tolist() == [1]


def test_too_many_kinds_for_racks_are_placed_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    group, cluster = racked()
    near = rack_mismatches(group, cluster, place(group, cluster))
    monkeypatch.setattr(general, "CELLS", 0)
    monkeypatch.setattr(exchange, "CELLS", 0)
    plain = place(group, cluster)
    assert score(group, cluster, plain).spread <= 1
    assert rack_mismatches(group, cluster, plain) > near
