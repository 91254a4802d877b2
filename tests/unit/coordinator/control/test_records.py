"""Records of the control topic: what is written is read again, what makes no sense is refused, what is in force is
kept."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bellwether_kafka.assignors.shared import Rule
from bellwether_kafka.coordinator.control import (
    Absence,
    InstanceHeartbeat,
    Order,
    OrderKind,
    Orders,
    PlacementOrder,
    Record,
    RecordError,
    Stage,
    Until,
    decode,
    encode,
)

MS_MAX = 253_402_300_799_999

ORDER = Order(OrderKind.LEAVE, "orders/of/today", "eve@desk", 1_000, 5_000, "offset reset")
HEARTBEAT = InstanceHeartbeat("pod-1", leads=("a",), claims=("b",), standby_for=("c",), hands_over=("a",), at_ms=7)

PIN = PlacementOrder(OrderKind.PIN, "orders", "clicks-3", "member:a", "eve@desk", 1_000, 5_000)
EVACUATION = PlacementOrder(OrderKind.EVACUATE, "orders", "*", "rack:az1", "eve@desk", 1_000, 5_000, "new disks")


@pytest.mark.parametrize("record", [ORDER, HEARTBEAT, PIN, EVACUATION])
def test_what_is_written_is_read(record: Record) -> None:
    assert decode(*encode(record)) == record


def test_the_value_is_documented_json() -> None:
    key, value = encode(ORDER)
    assert key == b"leave/orders/of/today"
    assert json.loads(value) == {
        "v": 1,
        "kind": "leave",
        "target": "orders/of/today",
        "owner": "eve@desk",
        "at_ms": 1_000,
        "expires_ms": 5_000,
        "reason": "offset reset",
    }


def expiring(when: object) -> bytes:
    return f'{{"v": 1, "kind": "leave", "target": "g", "owner": "e", "at_ms": 1, "expires_ms": {when}}}'.encode()


def test_the_last_moment_of_an_order_is_a_date() -> None:
    order = decode(b"leave/g", expiring(MS_MAX))
    assert isinstance(order, Order)
    assert datetime.fromtimestamp(order.expires_ms / 1000, UTC).year == 9999


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (b"no json", "not JSON"),
        (b"[" * 100_000, "nested more than"),
        (b"[]", "not a JSON object"),
        (b"{}", '"v"'),
        (b'{"v": true, "kind": "leave"}', '"v"'),
        (b'{"v": 1, "kind": "leave", "target": "", "owner": "e"}', '"target"'),
        (b'{"v": 1, "kind": "leave", "target": "g", "owner": 5}', '"owner"'),
        (b'{"v": 1, "kind": "leave", "target": "g", "owner": "e", "at_ms": 1, "expires_ms": -1}', '"expires_ms"'),
        (b'{"v": 1, "kind": "leave", "target": "g", "owner": "e", "at_ms": 1, "expires_ms": 1.5}', '"expires_ms"'),
        # In microseconds, or nonsense: a date is made of it later.
        (expiring(176372280000000000000), '"expires_ms"'),
        (expiring(MS_MAX + 1), '"expires_ms"'),
        (expiring("1" + "0" * 400), '"expires_ms"'),
        (expiring("1" + "0" * 5_000), "not JSON"),
        (expiring("1e400"), '"expires_ms"'),
        (expiring("NaN"), '"expires_ms"'),
        (expiring("{}"), '"expires_ms"'),
        (b" " * 1_000_001, "has 1000001 bytes, more than 1000000"),
        (b'{"v": 1, "kind": "beat", "target": "p", "at_ms": 1, "leads": "abc"}', '"leads"'),
        # Half a surrogate pair: the key of such a record could not be written, and its reader ended with that.
        (b'{"v": 1, "kind": "leave", "target": "\\ud800", "owner": "e", "at_ms": 1, "expires_ms": 2}', '"target"'),
        (b'{"v": 1, "kind": "beat", "target": "p", "at_ms": 1, "leads": ["\\udfff"]}', '"leads"'),
        (b'{"v": 1, "kind": "beat", "target": "p", "at_ms": 1}', "key"),
        (b'{"v": 1, "kind": "pin", "target": "g", "item": "t-1", "where": "az1"}', '"where"'),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(value: bytes, word: str) -> None:
    with pytest.raises(RecordError, match=word):
        decode(b"leave/g", value)


@pytest.mark.parametrize("value", [b'{"v": 2, "kind": "leave"}', b'{"v": 1, "kind": "evacuate-moon"}'])
def test_a_newer_bellwethers_records_are_left_alone(value: bytes) -> None:
    assert decode(b"any", value) is None


def test_an_order_is_in_force_until_it_expires_or_is_withdrawn() -> None:
    book = Orders()
    book.apply(ORDER.key, ORDER)
    assert book.in_force(OrderKind.LEAVE, ORDER.target, 4_999) == ORDER
    assert book.in_force(OrderKind.LEAVE, ORDER.target, 5_000) is None
    assert book.in_force(OrderKind.PAUSE, ORDER.target, 4_999) is None
    assert list(book.all_in_force(4_999)) == [ORDER]
    book.apply(ORDER.key, None)
    assert book.in_force(OrderKind.LEAVE, ORDER.target, 4_999) is None
    assert list(book.all_in_force(0)) == []


def test_a_sentence_says_who_and_why() -> None:
    assert ORDER.sentence == "eve@desk has ordered leave of 'orders/of/today' (offset reset)"


def test_placement_orders_are_rules_of_their_group_until_they_expire() -> None:
    book = Orders()
    for order in (PIN, EVACUATION, replace(PIN, target="other"), replace(PIN, where="rack:az2")):
        book.apply(order.key, order)
    assert [o.rule for o in book.of("orders", 4_999).placements] == [
        Rule("ban", "*", "rack:az1"),
        Rule("pin", "clicks-3", "rack:az2"),
    ], "a later pin of an item takes the place of the earlier one"
    assert book.of("orders", 5_000).placements == ()
    assert EVACUATION.sentence == "eve@desk has ordered evacuate of rack:az1 in 'orders' (new disks)"


def test_an_evacuation_says_what_ends_it_and_an_older_one_ends_when_it_expires() -> None:
    tied = replace(EVACUATION, where="member:a", until=Until.BACK)
    assert decode(*encode(tied)) == tied
    for message in ({}, {"until": "doomsday"}):
        key, value = encode(tied)
        fields = {name: field for name, field in json.loads(value).items() if name != "until"}
        assert decode(key, json.dumps({**fields, **message}).encode()) == replace(tied, until=Until.EXPIRY)


def test_an_absence_belongs_to_one_order_and_is_left_over_when_that_is_gone() -> None:
    tied = replace(EVACUATION, where="member:a", until=Until.BACK)
    absence = Absence("orders", "member:a", tied.at_ms, tied.expires_ms, Stage.EMPTY, 2_000)
    book = Orders()
    book.apply(absence.key, absence)
    assert book.left_over(1_000) == [absence]
    book.apply(tied.key, tied)
    assert book.absence(tied) == absence
    assert book.absence(replace(tied, at_ms=1_500)) is None
    assert book.left_over(4_999) == []
    assert book.left_over(5_000) == [absence]
