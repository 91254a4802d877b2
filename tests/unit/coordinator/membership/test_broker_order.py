"""The two hash orders, from member ids alone. tests/interop/lead/test_succession.py asks real brokers."""

import random
import uuid

import pytest

from bellwether_kafka.coordinator.membership import tables
from bellwether_kafka.coordinator.membership.broker_order import (
    HashOrder,
    MemberTable,
    buckets_for,
    sorting_before,
    sorts_first,
    spread_hash,
    unavoidable,
)

JAVA16, SCALA16 = MemberTable(HashOrder.JAVA, 16), MemberTable(HashOrder.SCALA, 16)


def id_in(bucket: int, buckets: int, seed: int, *, negative: bool | None = None) -> str:
    draw = random.Random(seed)
    while True:
        candidate = f"m-{uuid.UUID(int=draw.getrandbits(128))}"
        value = spread_hash(candidate)
        if value % buckets == bucket and negative in (None, value >= 1 << 31):
            return candidate


def test_the_spread_hash_is_that_of_java() -> None:

    assert spread_hash("Hello") == 69609650 ^ 69609650 >> 16
    assert spread_hash("a") == 97


@pytest.mark.parametrize(
    ("members", "java", "scala"), [(1, 16, 16), (11, 16, 16), (12, 16, 32), (13, 32, 32), (24, 32, 64), (100, 256, 256)]
)
def test_tables_grow_at_three_quarters(members: int, java: int, scala: int) -> None:
    assert buckets_for(members, HashOrder.JAVA) == java
    assert buckets_for(members, HashOrder.SCALA) == scala


def test_a_listing_shows_the_table() -> None:
    draw = random.Random(1)
    ids = [f"m-{uuid.UUID(int=draw.getrandbits(128))}" for _ in range(40)]
    listing = sorted(ids, key=lambda m: spread_hash(m) & 63)
    assert tables(listing) == (MemberTable(HashOrder.JAVA, 64),)
    assert tables(ids) == ()


def test_a_table_is_recognized_that_has_grown_for_up_to_64_times_as_many_members() -> None:
    draw = random.Random(1)
    ids = [f"m-{uuid.UUID(int=draw.getrandbits(128))}" for _ in range(11)]
    large, too_large = (sorted(ids, key=lambda m, n=buckets: spread_hash(m) % n) for buckets in (1024, 2048))
    assert {table.buckets for table in tables(large)} == {1024}
    assert tables(too_large) == ()


def test_a_broker_with_another_order_is_recognized() -> None:
    draw = random.Random(2)
    total = sum(bool(tables([f"m-{draw.random()}" for _ in range(8)])) for _ in range(200))
    assert total <= 2


def test_who_comes_before_a_new_id() -> None:
    first, second, late = id_in(0, 16, 1), id_in(5, 16, 2), id_in(9, 16, 3)
    mine = id_in(3, 16, 4)
    assert sorting_before([first, second, late], mine, JAVA16) == (first,)
    assert sorts_first([second, late], mine, [JAVA16, SCALA16])
    assert sorts_first([first, second], mine, [JAVA16]), "nobody can pass the first bucket's first"
    assert not sorts_first([second, late], id_in(7, 16, 5), [JAVA16])


@pytest.mark.parametrize("table", [JAVA16, SCALA16])
def test_every_bucket_before_bellwethers_comes_first_and_none_behind_it(table: MemberTable) -> None:
    each = [id_in(bucket, 16, bucket) for bucket in range(16)]
    for bucket, mine in enumerate(each):
        assert sorting_before(each, mine, table) == tuple(each[:bucket])


def test_in_the_same_bucket_java_keeps_the_order_of_arrival_and_scala_sorts_by_hash() -> None:
    there = id_in(0, 16, 1, negative=False)
    lower = id_in(0, 16, 2, negative=True)
    assert sorting_before([there], lower, JAVA16) == (there,)
    assert sorting_before([there], lower, SCALA16) == ()
    assert unavoidable([there], JAVA16) == (there,)
    assert unavoidable([there], SCALA16) == ()
