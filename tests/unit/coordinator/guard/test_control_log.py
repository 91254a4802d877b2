"""What a guard reads of the control topic: all that is in force for its group, in bounded memory."""

import time
from dataclasses import replace
from typing import Any

import pytest

from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.guard import control_log, evacuation
from bellwether_kafka.coordinator.guard.control_log import ControlLog, NotOrderedError
from bellwether_kafka.coordinator.guard.group_link import GroupLink
from bellwether_kafka.coordinator.kafka.wire import ReadRecords, Unread
from bellwether_kafka.coordinator.kafka.wire.topic_log import ReadLog
from tests.kit.membership import GROUP, P1
from tests.unit.coordinator.guard.stage import heartbeat, orders
from tests.unit.coordinator.guard.world import Brokers

DAY_S = 86_400
HEARTBEATS_OF_MINUTES = 2_000


class Paged(Brokers):
    """A log that is answered in parts, as a broker does."""

    def _read(self, request: ReadLog, code: int) -> ReadRecords:
        batch = self.log[request.offset : request.offset + 100]
        return ReadRecords(code, tuple(batch), request.offset + len(batch), len(self.log))


def an_evacuation(*, by: str = "operator", reason: str = "disk", at_ms: int = 0) -> control.PlacementOrder:
    expires_ms = int((time.time() + DAY_S) * 1000)
    kind, where = control.OrderKind.EVACUATE, f"member:{P1}"
    return control.PlacementOrder(kind, GROUP, "*", where, by, at_ms, expires_ms, reason, until=control.Until.BACK)


def a_log(brokers: Brokers, message: list[str] | None = None) -> ControlLog:
    return ControlLog(GroupLink(brokers, GROUP), "control", (message if message is not None else []).append)


def with_many_heartbeats(*first: control.Record) -> Paged:
    brokers = Paged()
    for record in first:
        brokers.echo(record)
    for _ in range(HEARTBEATS_OF_MINUTES):
        brokers.echo(heartbeat())
    return brokers


async def test_an_order_of_the_day_before_is_seen_behind_any_number_of_heartbeats() -> None:
    order = an_evacuation()
    record = await a_log(with_many_heartbeats(order)).newest()
    assert record[order.key] == order
    assert len(record) == 2


async def test_an_operators_evacuation_is_neither_overwritten_nor_withdrawn() -> None:
    brokers = with_many_heartbeats(an_evacuation())
    given = await evacuation.evacuation(a_log(brokers), [P1], 60)
    await given.give()
    await given.withdraw()
    assert len(orders(brokers)) == 1


async def test_an_operators_evacuation_that_comes_after_the_guards_is_not_withdrawn_with_it() -> None:
    brokers = with_many_heartbeats()
    given = await evacuation.evacuation(a_log(brokers), [P1], 60)
    await given.give()
    brokers.echo(an_evacuation())
    await given.give()
    await given.withdraw()
    key = an_evacuation().key
    assert orders(brokers) == [(key, True), (key, True)], "the guard's, and the operator's"


async def test_an_order_that_an_earlier_guard_left_is_withdrawn_however_long_ago() -> None:
    brokers = with_many_heartbeats(an_evacuation(reason=evacuation.REASON))
    assert await evacuation.withdraw_left(a_log(brokers), P1, int(time.time() * 1000))
    assert orders(brokers)[-1] == (an_evacuation().key, False)


async def test_what_concerns_other_groups_is_not_kept() -> None:
    brokers = Paged()
    for number in range(500):
        brokers.echo(replace(an_evacuation(), target=f"other-{number}", reason="x" * 900))
        brokers.echo(replace(heartbeat(), instance=f"s-{number}", leads=("other",), orders_for=()))
    brokers.echo(heartbeat(policies={GROUP: "streams-ha", "other": "range"}))
    (record,) = (await a_log(brokers).newest()).values()
    assert isinstance(record, control.InstanceHeartbeat)
    assert (record.leads, record.policies) == ((GROUP,), {GROUP: "streams-ha"})


@pytest.mark.slow
async def test_more_than_a_guard_can_keep_is_refused_with_a_remedy() -> None:
    brokers = Paged()
    for number in range(2_000):
        brokers.echo(replace(an_evacuation(), where=f"member:{number}", reason="x" * 900))
    with pytest.raises(NotOrderedError, match="withdraw orders that are not needed"):
        await a_log(brokers).newest()


async def test_a_record_that_cannot_be_understood_leaves_the_one_before_in_force() -> None:
    brokers, order = Paged(), an_evacuation()
    brokers.echo(order)
    key = order.key.encode()
    brokers.log += [
        (key, value) for value in (b"no json", b"[" * 100_000, b'{"v": 1, "kind": "evacuate"}', b"9" * 5_000)
    ]
    assert await a_log(brokers).newest() == {order.key: order}


async def test_what_is_not_read_is_named_once() -> None:
    class Unreadable(Paged):
        def _read(self, request: ReadLog, code: int) -> ReadRecords:
            read = super()._read(request, code)
            return replace(read, unread=(Unread(3, b"pause/x\x1b[2J", "has 9 bytes, more than 8"),))

    message: list[str] = []
    log = a_log(Unreadable(), message)
    await log.newest()
    log._began = float("-inf")  # as after a minute
    await log.newest()
    (sentence,) = message
    assert sentence.startswith("Record 3 ('pause/x")
    assert sentence.endswith("of the topic 'control' is not read: it has 9 bytes, more than 8.")
    assert "\x1b" not in sentence


class Bounded(Paged):
    """Refuses offsets that the log does not have."""

    def _read(self, request: ReadLog, code: int) -> ReadRecords:
        in_log = self.starts_at <= request.offset <= len(self.log)
        return super()._read(request, code) if in_log else ReadRecords(1)


async def test_a_topic_that_was_made_anew_is_read_from_its_beginning() -> None:
    brokers, order = Bounded(), an_evacuation()
    log = a_log(brokers)
    for _ in range(3):
        brokers.echo(an_evacuation(reason="before"))

    async def both() -> Any:
        await log.newest()
        brokers.log.clear()
        brokers.echo(order)
        return await log.newest()

    assert await both() == {order.key: order}


async def test_a_topic_whose_beginning_was_deleted_is_read_from_where_it_begins() -> None:
    brokers, order = Bounded(), an_evacuation()
    brokers.log += [(b"pause/x", None)] * 7
    brokers.echo(order)
    brokers.starts_at = 7
    assert await a_log(brokers).newest() == {order.key: order}


@pytest.mark.slow
async def test_a_topic_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Paged):
        def _read(self, request: ReadLog, code: int) -> ReadRecords:
            return ReadRecords(code, (), request.offset, 5)

    monkeypatch.setattr(control_log, "READ_S", 0.3)
    with pytest.raises(NotOrderedError, match=r"not read to its end within 0\.3 s") as raised:
        await a_log(Slow()).newest()
    assert raised.value.passes


async def test_an_instance_that_is_to_lead_the_group_is_seen() -> None:
    brokers = Paged()
    brokers.echo(heartbeat(leads=("other",), claims=(GROUP, "more"), orders_for=()))
    (record,) = (await a_log(brokers).newest()).values()
    assert isinstance(record, control.InstanceHeartbeat)
    assert (record.leads, record.claims) == ((), (GROUP,))


async def test_an_instance_that_gives_the_broker_plans_is_seen() -> None:
    brokers = Paged()
    brokers.echo(heartbeat(leads=("other",), serves=(GROUP, "more"), orders_for=(GROUP, "more")))
    (record,) = (await a_log(brokers).newest()).values()
    assert isinstance(record, control.InstanceHeartbeat)
    assert (record.leads, record.serves, record.orders_for) == ((), (GROUP,), (GROUP,))
