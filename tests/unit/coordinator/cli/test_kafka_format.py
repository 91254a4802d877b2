"""`describe --output kafka`: the columns of kafka-consumer-groups.sh."""

from dataclasses import replace

from bellwether_kafka.coordinator.observation import Observation, ObservedMember
from tests.kit.commands import ShownGroups

LONG = "consumer-orders-1-" + "a" * 40
HEADING = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"


def member(member_id: str, *partitions: int) -> ObservedMember:
    owned = tuple(("orders", p) for p in partitions)
    return ObservedMember(member_id, None, "app", "/10.0.0.1", topics=("orders",), owned=owned)  # type: ignore[arg-type]


SEEN = Observation("g", "classic", "Stable", "range", 0, members=(member("few", 2), member(LONG, 0, 1)))


def lines(groups: ShownGroups, seen: Observation = SEEN) -> list[str]:
    groups.show(seen)
    return [line for line in groups.says("describe", seen.group_id, "-o", "kafka").splitlines() if line]


def test_members_with_most_partitions_come_first_and_columns_grow(groups: ShownGroups) -> None:
    heading, *rows = lines(groups)
    assert heading.split() == HEADING.split()
    assert [row.split()[2] for row in rows] == ["0", "1", "2"]
    assert rows[0].split() == ["g", "orders", "0", "-", "-", "-", LONG, "/10.0.0.1", "app"]
    assert {line.index(host) for line, host in [(heading, "HOST"), *((row, "/10.0.0.1") for row in rows)]} == {
        heading.index("HOST")
    }


def test_columns_are_as_wide_as_what_is_printed(groups: ShownGroups) -> None:
    heading, *rows = lines(
        groups, replace(SEEN, group_id="orders\x1b[31m", members=(member("a\tb" * 20, 0), member("plain", 1)))
    )
    assert {row.index("/10.0.0.1") for row in rows} == {heading.index("HOST")}


def test_a_group_without_members_is_reported_as_by_the_tool(groups: ShownGroups) -> None:
    groups.show(replace(SEEN, group_id="empty", state="Empty", members=()))
    groups.show(replace(SEEN, group_id="moving", state="PreparingRebalance"))
    groups.show(SEEN)
    empty, moving, still = (groups.run("describe", name, "-o", "kafka") for name in ("empty", "moving", "g"))
    assert "Consumer group 'empty' has no active members." in empty.stdout + empty.stderr
    assert "orders" not in empty.stdout
    assert "Warning: Consumer group 'moving' is rebalancing." in moving.stdout + moving.stderr
    assert "Consumer group" not in still.stdout + still.stderr
