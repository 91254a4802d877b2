"""Which table a broker has, how large a take-over makes it, and whom it removes: from member ids alone.
tests/interop/lead/test_succession.py asks real brokers."""

import random
import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from bellwether_kafka.coordinator.membership import Forecasts, MembershipConfig, first_bucket, tables
from tests.kit.membership import BrokerTable, HashOrder, buckets_for, spread_hash
from tests.seeds import seeds

SIZE_MAX = 2**31 - 1
TEMPORARY_MAX, OWN_MEMBERS = 97, 2


def drawn(seed: int, size: int, buckets: int = 0, order: HashOrder = HashOrder.JAVA) -> list[str]:
    """As many random ids, as a table of the broker lists them that never held more, or has so many buckets."""
    draw = random.Random(seed)
    ids = [f"m-{uuid.UUID(int=draw.getrandbits(128), version=4)}" for _ in range(size)]
    return BrokerTable(order, buckets or buckets_for(size, order)).listed(ids)


def as_broker_tables(possible: Sequence[Any]) -> list[BrokerTable]:
    return [BrokerTable(HashOrder(table.order.value), table.buckets) for table in possible]


def forecast(ids: Sequence[str], size_max: int | None = SIZE_MAX, *, only: HashOrder | None = None, **more: Any) -> Any:
    """What a take-over of these would require, whose table is of this order."""
    possible = [table for table in tables(ids) if only is None or table.order.value == only.value]
    return Forecasts().forecast(
        ids, possible, more.get("leader", ""), more.get("removed", 2), size_max, more.get("tries")
    )


# ---- the table that a listing shows ----------------------------------------------------------------------------------


def test_the_spread_hash_is_that_of_java() -> None:
    assert spread_hash("Hello") == 69609650 ^ 69609650 >> 16
    assert spread_hash("a") == 97


@pytest.mark.parametrize("order", HashOrder)
@pytest.mark.parametrize("members", [11, 12, 13, 23, 24, 25, 40, 100])
def test_a_listing_shows_the_table(members: int, order: HashOrder) -> None:
    shown = as_broker_tables(tables(drawn(members, members, order=order)))
    least = {each: buckets_for(members, each) for each in HashOrder}
    assert BrokerTable(order, least[order]) in shown
    assert all(table.buckets >= least[table.order] for table in shown)
    assert shown == sorted(shown, key=lambda table: list(HashOrder).index(table.order))


def test_a_table_is_recognized_that_has_grown_for_up_to_64_times_as_many_members() -> None:
    assert {table.buckets for table in tables(drawn(1, 11, 1024))} == {1024}
    assert tables(drawn(1, 11, 2048)) == ()


def test_a_broker_with_another_order_is_recognized() -> None:
    draw = random.Random(2)
    total = sum(bool(tables([f"m-{draw.random()}" for _ in range(8)])) for _ in range(200))
    assert total <= 2


@pytest.mark.parametrize("order", HashOrder)
def test_whom_every_new_id_sorts_behind(order: HashOrder) -> None:
    """In Java's table the members of the first bucket, also after Bellwether's coming has made it larger."""
    for seed, members in ((1, 11), (2, 12), (3, 40), (4, 100)):
        ids = drawn(seed, members, order=order)
        possible = [table.grown(members + 1) for table in as_broker_tables(tables(ids))]
        first = {m for table in possible for m in table.unavoidable(ids)}
        assert first_bucket(ids, ids) == tuple(m for m in ids if m in first)
        assert first_bucket(ids, ids[1:]) == tuple(m for m in ids[1:] if m in first)


# ---- growth ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", HashOrder)
@pytest.mark.parametrize("seed", seeds(40))
def test_a_growth_makes_the_table_that_it_names_and_bellwether_makes_none_larger(seed: int, order: HashOrder) -> None:
    ids = drawn(seed, seed + 10, order=order)
    for growth in forecast(ids, only=order).growths:
        (*_, table) = as_broker_tables(growth.tables)
        assert growth.ahead == tuple(max((t.unavoidable(ids) for t in as_broker_tables(growth.tables)), key=len))
        if growth.temporary:
            assert OWN_MEMBERS <= growth.temporary <= TEMPORARY_MAX
            assert table.buckets >= buckets_for(len(ids) + growth.temporary, order)
            assert buckets_for(len(ids) + OWN_MEMBERS, order) <= table.buckets


def test_growths_come_by_size_and_the_first_needs_no_temporary_member() -> None:
    ordered = forecast(drawn(1, 20), only=HashOrder.JAVA).growths
    assert [growth.temporary for growth in ordered] == [0, 5, 29, 77]
    assert [growth.tables[0].buckets for growth in ordered] == [32, 64, 128, 256]


@pytest.mark.parametrize(("size_max", "reached"), [(None, 32), (26, 32), (27, 64), (51, 128), (SIZE_MAX, 256)])
def test_a_group_keeps_room_for_all_its_members_and_bellwether(size_max: int | None, reached: int) -> None:
    *_, largest = forecast(drawn(1, 20), size_max, only=HashOrder.JAVA).growths
    assert largest.tables[0].buckets == reached


@pytest.mark.parametrize(
    ("members", "most", "allowed"), [(1, 2, 1), (2, 2, 1), (4, 2, 1), (5, 2, 2), (50, 2, 2), (9, 1, 1)]
)
def test_never_half_of_the_group_is_removed(members: int, most: int, allowed: int) -> None:
    assert forecast(drawn(1, members), removed=most).allowed == allowed


def taken_over(ids: Sequence[str], draw: random.Random) -> tuple[bool, bool, int]:
    """Whether it begins, whether Bellwether leads when the removed are gone, and how many these are: by a table that
    does what the broker's does."""
    foreseen = forecast(ids)
    if not foreseen.begins:
        return False, False, 0
    leader = draw.choice(ids)
    table = BrokerTable().grown(len(ids)).grown(len(ids) + max(1, foreseen.chosen.temporary))
    removed = {leader, *foreseen.with_leader}
    in_the_way = [m for m in table.unavoidable(ids) if m not in removed]  # Bellwether has the best id that there is
    return True, not in_the_way, len(removed)


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


@pytest.mark.slow
@pytest.mark.parametrize("groups", GROUPS)
def test_without_growth_one_group_in_ten_cannot_be_taken_over(groups: int) -> None:
    draw = random.Random(7)
    begun = sum(forecast(drawn(seed, draw.randint(2, 50)), None).begins for seed in range(groups))
    assert 0.8 * groups < begun < 0.95 * groups


TRIES = MembershipConfig("orders", instance_id="bellwether").tries_max()


@pytest.mark.slow
def test_where_ids_are_tried_while_members_wait_hardly_a_group_is_disturbed_in_vain() -> None:
    """As many ids are tried as there is time for. Before they were counted, 11 of 1,000 such groups were."""
    draw, groups = random.Random(3), 500
    foreseen = [forecast(drawn(seed, draw.randint(2, 50)), tries=TRIES) for seed in range(groups)]
    begun = [foreseen_table for foreseen_table in foreseen if foreseen_table.begins]
    assert len(begun) >= 0.97 * groups
    assert sum(rebalance.fails for rebalance in begun) / groups < 0.001
    assert all(len(rebalance.with_leader) < rebalance.allowed for rebalance in begun)
    assert all(len(rebalance.with_leader) + 2 <= rebalance.allowed for rebalance in begun if rebalance.perhaps), (
        "leader, and one more"
    )


@pytest.mark.parametrize("order", HashOrder)
@pytest.mark.parametrize("seed", seeds(20))
def test_the_chance_of_an_id_is_that_of_all_ids(seed: int, order: HashOrder) -> None:
    """It is computed without a visit to each slot: the tables of a small group have hundreds. An id has to be good in
    the table of now and in that which Bellwether's own members make of it."""
    size = random.Random(seed).randint(1, 40)
    ids = drawn(seed, size, order=order)
    foreseen = forecast(ids, None, only=order)
    (growth,) = foreseen.growths
    tried = drawn(1_000 + seed, 1_000)
    for table, odds in zip(as_broker_tables(growth.tables), growth.chances, strict=True):
        both = (table, table.grown(size + OWN_MEMBERS))
        first = {t: sorted(t.place(m) for m in ids if m not in t.unavoidable(ids)) for t in both}
        for behind, chance in ((0, odds.first), (max(0, foreseen.allowed - 1 - len(growth.ahead)), odds.second)):
            limits = {t: (places[behind:] or [(t.buckets, 0)])[0] for t, places in first.items()}
            if order is HashOrder.JAVA:
                slots = range(max(t.buckets for t in both))
                free = [slot for slot in slots if all(slot % t.buckets < limits[t][0] for t in both)]
                assert chance == len(free) / len(slots)
            good = sum(all(t.place(own) < limits[t] for t in both) for own in tried)
            assert abs(chance - good / len(tried)) < 0.06
        assert odds.likely == pytest.approx(1 / table.buckets / sum(1 / t.buckets for t in growth.tables))


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
    assert forecast(ids, None, tries=1).begins is False
    assert forecast(ids, None).begins


def test_who_leads_is_known_of_a_member_that_is_alone_and_not_of_one_that_has_gone() -> None:
    assert forecast(drawn(1, 1), None).leader != ""
    assert forecast(drawn(1, 3), None, leader="gone").leader == ""


def test_first_slots_are_named_for_each_size() -> None:
    ids = drawn(3, 30, buckets=64)
    slots = forecast(ids, only=HashOrder.JAVA).first_slots()
    assert list(slots) == [64, 128, 256]
    for size, first in slots.items():
        assert first == tuple(BrokerTable(buckets=size).unavoidable(ids))
