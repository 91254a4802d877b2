"""How large a table a take-over makes, and whom it removes: from member ids alone."""

import random
import uuid
from collections import Counter
from collections.abc import Sequence

import pytest

from bellwether_kafka.coordinator.membership import Forecasts, MembershipConfig, tables
from bellwether_kafka.coordinator.membership.broker_order import (
    BUCKETS_MIN,
    HashOrder,
    MemberTable,
    buckets_for,
    chance,
    on_the_way,
    sorting_before,
    sorts_first,
    spread_hash,
    unavoidable,
)
from bellwether_kafka.coordinator.membership.table_growth import OWN_MEMBERS, TEMPORARY_MAX, growths, removals_allowed
from tests.seeds import seeds

SIZE_MAX = 2**31 - 1
JAVA16 = MemberTable(HashOrder.JAVA, 16)


def drawn(seed: int, size: int, buckets: int = 0) -> list[str]:
    """As many random ids, as a table of Kafka 4 lists them that never held more, or has so many buckets."""
    draw = random.Random(seed)
    ids = [f"m-{uuid.UUID(int=draw.getrandbits(128), version=4)}" for _ in range(size)]
    buckets = buckets or buckets_for(size, HashOrder.JAVA)
    return sorted(ids, key=lambda m: spread_hash(m) & (buckets - 1))


@pytest.mark.parametrize("seed", seeds(40))
def test_a_growth_makes_the_table_that_it_names_and_bellwether_makes_none_larger(seed: int) -> None:
    ids = drawn(seed, seed + 2)
    for growth in growths(ids, [JAVA16], SIZE_MAX):
        if growth.temporary:
            (table,) = growth.tables
            assert OWN_MEMBERS <= growth.temporary <= TEMPORARY_MAX
            assert table.buckets == buckets_for(len(ids) + growth.temporary, HashOrder.JAVA)
            assert buckets_for(len(ids) + OWN_MEMBERS, HashOrder.JAVA) <= table.buckets
            assert growth.ahead == unavoidable(ids, table)


def test_growths_come_by_size_and_the_first_needs_no_temporary_member() -> None:
    ordered = list(growths(drawn(1, 20), [JAVA16], SIZE_MAX))
    assert [growth.temporary for growth in ordered] == [0, 5, 29, 77]
    assert [growth.tables[0].buckets for growth in ordered] == [32, 64, 128, 256]


@pytest.mark.parametrize(("size_max", "reached"), [(None, 32), (26, 32), (27, 64), (51, 128), (SIZE_MAX, 256)])
def test_a_group_keeps_room_for_all_its_members_and_bellwether(size_max: int | None, reached: int) -> None:
    *_, largest = growths(drawn(1, 20), [JAVA16], size_max)
    assert largest.tables[0].buckets == reached


@pytest.mark.parametrize(
    ("members", "most", "allowed"), [(1, 2, 1), (2, 2, 1), (4, 2, 1), (5, 2, 2), (50, 2, 2), (9, 1, 1)]
)
def test_never_half_of_the_group_is_removed(members: int, most: int, allowed: int) -> None:
    assert removals_allowed(members, most) == allowed


def taken_over(ids: Sequence[str], draw: random.Random) -> tuple[bool, bool, int]:
    """Whether it begins, whether Bellwether leads when the removed are gone, and how many these are: by a table that
    does what the broker's does."""
    foreseen = Forecasts().forecast(ids, tables(ids), "", 2, SIZE_MAX)
    if not foreseen.begins:
        return False, False, 0
    leader = draw.choice(ids)
    count = len(ids) + max(1, foreseen.chosen.temporary)
    buckets = max(buckets_for(len(ids), HashOrder.JAVA), buckets_for(count, HashOrder.JAVA))
    listed = sorted(ids, key=lambda m: spread_hash(m) & (buckets - 1))
    removed = {leader, *foreseen.with_leader}
    own_bucket = 0  # the best id that there is
    before = [m for m in listed if spread_hash(m) & (buckets - 1) <= own_bucket and m not in removed]
    return True, not before, len(removed)


GROUPS = [200, pytest.param(1_000, marks=pytest.mark.slow)]


@pytest.mark.slow
@pytest.mark.parametrize("groups", GROUPS)
def test_of_random_groups_97_of_100_are_taken_over_and_none_in_vain(groups: int) -> None:
    draw = random.Random(7)
    results = [taken_over(drawn(seed, draw.randint(2, 50)), draw) for seed in range(groups)]
    assert all(led for begun, led, _ in results if begun), "what begins succeeds, whichever member leads"
    assert sum(led for _, led, _ in results) >= 0.97 * groups
    removed = Counter(count for begun, _, count in results if begun)
    assert removed[1] > 0.85 * groups
    assert set(removed) == {1, 2}


@pytest.mark.parametrize("groups", GROUPS)
def test_without_growth_one_group_in_ten_cannot_be_taken_over(groups: int) -> None:
    draw = random.Random(7)
    begun = 0
    for seed in range(groups):
        ids = drawn(seed, draw.randint(2, 50))
        begun += Forecasts().forecast(ids, tables(ids), "", 2, None).begins
    assert 0.8 * groups < begun < 0.95 * groups


TRIES = MembershipConfig("orders", instance_id="bellwether").tries_max()


@pytest.mark.slow
def test_where_ids_are_tried_while_members_wait_hardly_a_group_is_disturbed_in_vain() -> None:
    """As many ids are tried as there is time for. Before they were counted, 11 of 1,000 such groups were."""
    draw, groups = random.Random(3), 500
    foreseen = [
        Forecasts().forecast(ids, tables(ids), "", 2, SIZE_MAX, TRIES)
        for ids in (drawn(seed, draw.randint(2, 50)) for seed in range(groups))
    ]
    begun = [foreseen_table for foreseen_table in foreseen if foreseen_table.begins]
    assert len(begun) >= 0.97 * groups
    assert sum(rebalance.fails for rebalance in begun) / groups < 0.001
    assert all(len(rebalance.with_leader) < rebalance.allowed for rebalance in begun)
    assert all(len(rebalance.with_leader) + 2 <= rebalance.allowed for rebalance in begun if rebalance.perhaps), (
        "leader, and one more"
    )


@pytest.mark.parametrize("groups", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_the_chance_of_an_id_is_that_of_random_ids(groups: int) -> None:
    draw = random.Random(5)
    for seed in range(groups):
        ids = drawn(seed, draw.randint(2, 30))
        possible_tables = tables(ids)
        others = drawn(1_000 + seed, 1_000)
        first = sum(sorts_first(ids, own, possible_tables) for own in others) / len(others)
        assert abs(chance(ids, possible_tables, 0) - first) < 0.05
        second = sum(
            all(
                len(set(sorting_before(ids, own, table)).difference(unavoidable(ids, table))) <= 1
                for table in possible_tables
            )
            for own in others
        )
        assert abs(chance(ids, possible_tables, 1) - second / len(others)) < 0.05


@pytest.mark.parametrize("seed", seeds(20))
def test_the_chance_counts_the_slots_that_are_free_in_each_table(seed: int) -> None:
    """It is computed without a visit to each slot: the tables of a small group have hundreds."""
    draw = random.Random(seed)
    ids = drawn(seed, draw.randint(1, 40))
    sizes = sorted({BUCKETS_MIN << draw.randint(0, 6) for _ in range(draw.randint(1, 4))})
    tables_possible = [MemberTable(HashOrder.JAVA, size) for size in sizes]
    for behind in (0, 1, 2):
        first = {
            size: sorted(bucket for m in ids if (bucket := spread_hash(m) & (size - 1)))[behind:] for size in sizes
        }
        free = [slot for slot in range(sizes[-1]) if all(slot % n < (first[n] or [n])[0] for n in sizes)]
        assert chance(ids, tables_possible, behind) == len(free) / sizes[-1]


def test_growths_are_computed_again_only_when_members_tables_or_limits_have_changed() -> None:
    ids, forecasts = drawn(3, 50, buckets=256), Forecasts()
    first = forecasts.forecast(ids, tables(ids), "", 2, SIZE_MAX, 100)
    other = forecasts.forecast(ids, tables(ids), ids[0], 2, SIZE_MAX, 3)
    assert other.growths is first.growths
    assert (other.leader, other.tries) == (ids[0], 3)
    for members, size_max, removals in ((ids[1:], SIZE_MAX, 2), (ids, None, 2), (ids, SIZE_MAX, 3)):
        changed = forecasts.forecast(members, tables(members), "", removals, size_max, 100)
        assert changed == Forecasts().forecast(members, tables(members), "", removals, size_max, 100)
        assert changed.growths is not first.growths


def test_ids_that_are_tried_before_anybody_is_disturbed_are_no_matter() -> None:
    ids = drawn(3, 50, buckets=256)
    assert Forecasts().forecast(ids, tables(ids), "", 2, None, 1).begins is False
    assert Forecasts().forecast(ids, tables(ids), "", 2, None, None).begins


def test_a_member_that_is_alone_leads() -> None:
    assert Forecasts().forecast(drawn(1, 1), [JAVA16], "", 2, None).leader != ""


def test_a_leader_that_has_gone_is_not_known() -> None:
    assert Forecasts().forecast(drawn(1, 3), [JAVA16], "gone", 2, None).leader == ""


def test_first_slots_are_named_for_each_size() -> None:
    ids = drawn(3, 30, buckets=64)
    slots = Forecasts().forecast(ids, [MemberTable(HashOrder.JAVA, 64)], "", 2, SIZE_MAX).first_slots()
    assert list(slots) == [64, 128, 256]
    for size, first in slots.items():
        assert first == tuple(m for m in ids if spread_hash(m) & (size - 1) == 0)


def test_a_table_that_may_not_have_grown_is_one_of_those_on_the_way() -> None:
    growths_left = on_the_way([JAVA16], [MemberTable(HashOrder.JAVA, 128)])
    assert [table.buckets for table in growths_left] == [BUCKETS_MIN, 32, 64, 128]
