"""What is in force after a control topic was read from its start again."""

from collections.abc import Mapping
from dataclasses import replace

from structlog.testing import capture_logs

from bellwether_kafka.coordinator.control import Controller, ControlSettings, Order, OrderKind, Record, Stopped
from tests.kit.runtime import Group, KeptRecords

NOW_MS = 600
LEAVE = Order(OrderKind.LEAVE, "orders", "eve", 0, 1_000, reason="a migration")
PAUSE = Order(OrderKind.PAUSE, "orders", "eve", 0, 500)
STOPPED = Stopped("clicks", ("a",), (), "guard", 0, 1_000)


class Read:
    """A process with the group `orders`, whose topic has these records."""

    def __init__(self, *records: Record) -> None:
        self.group, topic = Group(standby=False), KeptRecords()
        self.controller = Controller(
            topic, ControlSettings("control", "pod-1"), {"orders": self.group}, wall_clock=lambda: NOW_MS / 1000
        )
        self.controller._all_read()
        for record in records:
            self.controller._on_record(record.key, record)

    def again(self, last: Mapping[str, Record | None]) -> list[str]:
        """The orders that were lost in the log that was read again."""
        with capture_logs() as logs:
            self.controller._read_again(last)
        return [order for entry in logs if entry["event"] == "orders_lost" for order in entry["orders"]]

    @property
    def ordered_out(self) -> str:
        return self.group.orders.on_membership["leave"]


def test_what_a_log_has_no_more_has_ended_and_orders_in_force_are_named_once() -> None:
    read = Read(LEAVE, PAUSE, STOPPED)
    assert read.ordered_out == LEAVE.sentence
    assert read.again({}) == [LEAVE.sentence], "the other had expired"
    assert (read.ordered_out, read.controller._stopped) == ("", {})
    assert read.again({}) == []


def test_the_last_record_of_each_key_counts() -> None:
    other = replace(LEAVE, reason="a test")
    read = Read(LEAVE)
    assert read.again({other.key: other, PAUSE.key: None}) == []
    assert read.ordered_out == other.sentence


def test_an_order_that_was_withdrawn_is_not_lost() -> None:
    read = Read(LEAVE)
    read.controller._on_record(LEAVE.key, None)
    assert read.again({}) == []
