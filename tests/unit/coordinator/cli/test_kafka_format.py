"""`describe --output kafka`: the columns of kafka-consumer-groups.sh."""

from dataclasses import replace

from bellwether_kafka.coordinator.cli.kafka_format import COLUMNS, kafka_lines, kafka_notice
from bellwether_kafka.coordinator.names import for_terminal
from bellwether_kafka.coordinator.observation import Observation, ObservedMember

LONG = "consumer-orders-1-" + "a" * 40


def member(member_id: str, *partitions: int) -> ObservedMember:
    owned = tuple(("orders", p) for p in partitions)
    return ObservedMember(member_id, None, "app", "/10.0.0.1", topics=("orders",), owned=owned)


SEEN = Observation("g", "classic", "Stable", "range", 0, members=(member("few", 2), member(LONG, 0, 1)))


def test_members_with_most_partitions_come_first_and_columns_grow() -> None:
    heading, *rows = kafka_lines(SEEN)
    assert heading.split() == list(COLUMNS)
    assert [row.split()[2] for row in rows] == ["0", "1", "2"]
    assert rows[0].split() == ["g", "orders", "0", "-", "-", "-", LONG, "/10.0.0.1", "app"]
    assert {line.index(host) for line, host in [(heading, "HOST"), *((row, "/10.0.0.1") for row in rows)]} == {
        heading.index("HOST")
    }


def test_columns_are_as_wide_as_what_is_printed() -> None:
    odd = replace(SEEN, group_id="orders\x1b[31m", members=(member("a\tb" * 20, 0), member("plain", 1)))
    heading, *rows = (for_terminal(line) for line in kafka_lines(odd))
    assert {row.index("/10.0.0.1") for row in rows} == {heading.index("HOST")}


def test_a_group_without_members_is_reported_as_by_the_tool() -> None:
    empty = replace(SEEN, state="Empty", members=())
    assert kafka_notice(empty) == "Consumer group 'g' has no active members."
    assert list(kafka_lines(empty)) == []
    assert kafka_notice(replace(SEEN, state="PreparingRebalance")) == "Warning: Consumer group 'g' is rebalancing."
    assert kafka_notice(SEEN) == ""
