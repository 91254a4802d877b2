"""What moves goes back to a member that had it before."""

from random import Random

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer.derived import current_owner, former_owners
from bellwether_kafka.assignors.consumer.sticky import former
from bellwether_kafka.assignors.consumer.sticky.former import give_back
from bellwether_kafka.assignors.shared import NOBODY
from tests.kit.consumers import cluster_of
from tests.unit.assignors.consumer.sticky.sticky_scenes import Who, decide, group_of

SIX = "t-0 t-1 t-2 t-3 t-4 t-5"
MISSED = {"1": Who("t", "t-0 t-3", 1), "2": Who("t", SIX, 2), "3": Who("t", "t-2 t-5", 1)}
TWICE = {"1": Who("t", "t-0 t-1 t-4", 1), "2": Who("t", "t-0 t-2 t-3", 1), "3": Who("t", "t-3 t-4 t-5", 2)}


def test_members_that_missed_a_generation_get_back_what_they_had() -> None:
    """franz-go's and kafka-python's test of several generations."""
    outcome = decide({"t": 6}, MISSED)
    assert outcome.plan == {"1": ["t-0", "t-3"], "2": ["t-1", "t-4"], "3": ["t-2", "t-5"]}


def test_of_two_claims_of_one_generation_one_is_met() -> None:
    outcome = decide({"t": 6}, TWICE)
    assert outcome.sizes == [2, 2, 2]
    assert outcome.kept == 6


@pytest.mark.parametrize("scene", [MISSED, TWICE], ids=["missed", "twice"])
def test_the_same_where_lists_differ(scene: dict[str, Who]) -> None:
    outcome = decide({"t": 6, "u": 1}, scene | {"4": Who("u")})
    assert outcome.kept == 6
    mixed = decide({"t": 6, "u": 2}, scene | {"4": Who("t u", "u-0 u-1", 2)})
    assert mixed.kept == 8


def test_with_racks_only_what_is_alike_is_exchanged() -> None:
    scene = {m: Who("t", who.owned, who.generation, rack) for (m, who), rack in zip(MISSED.items(), "aab", strict=True)}
    assert decide({"t": 6}, scene).kept == 6


@pytest.mark.slow
@pytest.mark.parametrize("exact", [former.EXACT_MAX, 0], ids=["exact", "first come"])
def test_numbers_stay_and_more_go_back(monkeypatch: pytest.MonkeyPatch, exact: int) -> None:
    """Random plans: each member has as many of each key as before, as many stay, and no fewer go back."""
    monkeypatch.setattr(former, "EXACT_MAX", exact)
    random, gained = Random(8), 0
    for _ in range(300):
        total, size = random.randint(1, 14), random.randint(2, 5)
        claims = {
            f"m{i}": Who("t", " ".join(f"t-{p}" for p in range(total) if random.random() < 0.5), random.randint(1, 3))
            for i in range(size)
        }
        cluster = cluster_of({"t": total})
        group = group_of(cluster, claims)
        before = current_owner(group, cluster)
        key = np.array([random.randint(0, 1) for _ in range(total)], dtype=np.int64)
        placed = np.array([o if o >= 0 and random.random() < 0.4 else random.randrange(size) for o in before], np.int32)
        claimant, flats = former_owners(group, cluster, before)
        after = give_back(before, placed, key, claimant, flats)
        was = set(zip(flats.tolist(), claimant.tolist(), strict=True))

        def back(owner: np.ndarray, was: set[tuple[int, int]] = was) -> int:
            return sum((p, o) in was for p, o in enumerate(owner.tolist()))

        for k in (0, 1):
            counts = [np.bincount(owner[key == k], minlength=size).tolist() for owner in (placed, after)]
            assert counts[0] == counts[1]
        owned = before != NOBODY
        assert ((after == before) & owned).sum() >= ((placed == before) & owned).sum()
        assert exact == 0 or back(after) >= back(placed)
        gained += back(after) - back(placed)
    assert gained > 100
