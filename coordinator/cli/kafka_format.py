"""The output of `kafka-consumer-groups.sh --describe`, column for column, for scripts that read it. Pure.

Source: `ConsumerGroupCommand.printOffsets` of Kafka 4.3. Its LAG is the log end offset minus the committed one, even if
the log begins later than the committed offset.
"""

from collections.abc import Iterator, Sequence

from bellwether_kafka.coordinator.cli.output import count_or_dash
from bellwether_kafka.coordinator.membership import REBALANCING
from bellwether_kafka.coordinator.names import for_terminal
from bellwether_kafka.coordinator.observation import Observation, PartitionLag

# The columns with the least width of each.
COLUMNS = {
    "GROUP": 15,
    "TOPIC": 15,
    "PARTITION": 10,
    "CURRENT-OFFSET": 15,
    "LOG-END-OFFSET": 15,
    "LAG": 15,
    "CONSUMER-ID": 15,
    "HOST": 15,
    "CLIENT-ID": 0,
}
GROWING = ("GROUP", "TOPIC", "CONSUMER-ID", "HOST")  # as wide as the longest value


def kafka_lines(seen: Observation) -> Iterator[str]:
    """Yields the heading and a line for each partition that is assigned or has a committed offset, as Kafka's tool
    lists them; nothing if there is none."""
    rows = [tuple(map(for_terminal, row)) for row in _rows(seen)]  # as they are printed
    if not rows:
        return
    values = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
    widths = [max(width, *map(len, values[name])) if name in GROWING else width for name, width in COLUMNS.items()]
    for row in [(*COLUMNS,), *rows]:
        yield " ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))


def kafka_notice(seen: Observation) -> str:
    """Returns what Kafka's tool writes to standard error about a group that is not stable, "" for nothing."""
    if not seen.members:
        return f"Consumer group '{seen.group_id}' has no active members."
    if seen.state in REBALANCING:
        return f"Warning: Consumer group '{seen.group_id}' is rebalancing."
    return ""


def _rows(seen: Observation) -> Iterator[Sequence[str]]:
    """Yields assigned partitions by member, members with the most partitions first, and then the others."""
    lags = {(lag.topic, lag.partition): lag for lag in seen.group_lag.report().partitions} if seen.group_lag else {}
    members = sorted(
        (*seen.members, *seen.bellwether_members), key=lambda member: (-len(member.owned), member.member_id)
    )
    for member in members:
        for topic, partition in sorted(member.owned):
            owner = (member.member_id, member.client_host, member.client_id)
            yield (seen.group_id, topic, str(partition), *_offsets(lags.get((topic, partition))), *owner)
    owned = {item for member in members for item in member.owned}
    for item in sorted(lags.keys() - owned):
        if lags[item].committed is not None:
            yield (seen.group_id, item[0], str(item[1]), *_offsets(lags[item]), "-", "-", "-")


def _offsets(lag: PartitionLag | None) -> tuple[str, str, str]:
    """Returns the committed offset, the log end offset and their difference, "-" for what is unknown."""
    committed, end = (None, None) if lag is None else (lag.committed, lag.end)
    behind = None if committed is None or end is None else end - committed
    return count_or_dash(committed), count_or_dash(end), count_or_dash(behind)
