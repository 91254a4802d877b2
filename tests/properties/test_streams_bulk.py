"""The column readers say what the dataclasses say, for honest and for mutated bytes."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from bellwether_kafka.protocol.bulk.streams_assignments import AssignedColumns, read_assigned
from bellwether_kafka.protocol.bulk.streams_subscriptions import InfoColumns, read_infos
from bellwether_kafka.protocol.messages.streams_assignment import AssignmentInfo
from bellwether_kafka.protocol.messages.streams_subscription import SubscriptionInfo
from bellwether_kafka.protocol.primitives.errors import RemoteProtocolError
from bellwether_kafka.protocol.primitives.types import HostInfo, ProcessId, TaskId, TopicPartition

int32s = st.integers(-(2**31), 2**31 - 1)
small = st.integers(0, 9)
int64s = st.one_of(st.sampled_from([-2, -3, 0, 1000]), st.integers(-(2**63), 2**63 - 1))
names = st.sampled_from(["t", "u", "a-long-topic-name", "ä"])


@st.composite
def infos(draw: st.DrawFn) -> bytes:
    version = draw(st.integers(1, 11))
    name = st.sampled_from([None, None, None, "top", ""]) if version >= 10 else st.none()
    tasks = st.builds(TaskId, st.one_of(small, int32s), st.one_of(small, int32s), name)
    sums = draw(st.lists(st.tuples(tasks, int64s), max_size=6))
    tags = draw(st.lists(st.tuples(names, names), max_size=3))
    return SubscriptionInfo(
        version,
        draw(st.integers(version, 14)) if version > 2 else -1,
        ProcessId(draw(int64s), draw(int64s)),
        draw(st.sampled_from([None, "h:9", "x"])),
        tuple(sums),
        draw(st.integers(-128, 127)),
        draw(st.sampled_from([0, 4, 7])),
        tuple(tags),
    ).encode()


@st.composite
def mutated(draw: st.DrawFn, blobs: st.SearchStrategy[bytes]) -> bytes:
    blob = bytearray(draw(blobs))
    for at in draw(st.lists(st.integers(0, max(0, len(blob) - 1)), max_size=3)):
        blob[at] = draw(st.integers(0, 255))
    tail = draw(st.binary(max_size=4))
    return bytes(blob[: draw(st.integers(0, len(blob)))]) + tail if draw(st.booleans()) else bytes(blob)


def check_info(columns: InfoColumns, m: int, blob: bytes | None) -> None:
    try:
        expected = SubscriptionInfo.decode(blob) if blob is not None else None
        reason = "userData is null"
    except RemoteProtocolError as error:
        expected, reason = None, str(error)
    rows = slice(int(columns.sum_first[m]), int(columns.sum_first[m + 1]))
    if expected is None:
        assert columns.errors[m] == reason
        assert rows.start == rows.stop
        return
    assert m not in columns.errors
    assert (columns.version[m], columns.latest[m]) == (expected.version, expected.latest_supported_version)
    assert columns.process[m] == (None if expected.future else expected.process_id)
    assert columns.end_point[m] == expected.user_end_point
    assert columns.error_code[m] == expected.error_code
    assert columns.tags[m] == expected.client_tags
    ids = zip(columns.sum_subtopology[rows].tolist(), columns.sum_partition[rows].tolist(), strict=True)
    sums = list(zip(ids, columns.sum_value[rows].tolist(), strict=True))
    assert sums == [((task.subtopology, task.partition), value) for task, value in expected.task_offset_sums]
    assert (m in columns.named) == any(task.topology is not None for task, _ in expected.task_offset_sums)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(infos(), mutated(infos()), st.binary(max_size=40), st.none()), max_size=5))
def test_subscription_infos(blobs: list[bytes | None]) -> None:
    columns = read_infos(blobs)
    for m, blob in enumerate(blobs):
        check_info(columns, m, blob)


partitions = st.lists(st.builds(TopicPartition, names, small), max_size=3).map(tuple)
hosts = st.lists(st.tuples(st.builds(HostInfo, names, small), partitions), max_size=2).map(tuple)


@st.composite
def assignments(draw: st.DrawFn) -> AssignmentInfo:
    version = draw(st.integers(1, 11))
    name = st.sampled_from([None, None, None, "top"]) if version >= 10 else st.none()
    tasks = st.builds(TaskId, small, small, name)
    return AssignmentInfo(
        version,
        draw(st.integers(1, 11)) if version >= 3 else -1,
        tuple(draw(st.lists(tasks, max_size=4))),
        tuple(draw(st.lists(st.tuples(tasks, partitions), max_size=5))),
        draw(hosts) if version >= 2 else (),
        draw(hosts) if version >= 6 else (),
        draw(small) if version >= 4 else 0,
        draw(int64s) if version >= 7 else 2**63 - 1,
    )


def seen(columns: AssignedColumns, m: int) -> tuple[object, ...]:
    """(active, standby with partitions, the rest) of one member."""
    rows = slice(int(columns.active_first[m]), int(columns.active_first[m + 1]))
    active = zip(columns.active_subtopology[rows].tolist(), columns.active_partition[rows].tolist(), strict=True)
    standby = []
    for i, member in enumerate(columns.standby_member.tolist()):
        if member == m:
            task = (int(columns.standby_subtopology[i]), int(columns.standby_partition[i]))
            mine = columns.pair_standby == i
            topics = [columns.topic_names[t] for t in columns.pair_topic[mine]]
            standby.append((task, tuple(zip(topics, columns.pair_partition[mine].tolist(), strict=True))))
    return tuple(active), tuple(standby), columns.rest[m]


def plain(info: AssignmentInfo) -> tuple[object, ...]:
    rest = AssignmentInfo(
        info.version,
        info.commonly_supported_version,
        (),
        (),
        info.partitions_by_host,
        info.standby_partitions_by_host,
        info.error_code,
        info.next_rebalance_ms,
    )
    active = tuple(task[:2] for task in info.active_tasks)
    return active, tuple((task[:2], tuple(map(tuple, held))) for task, held in info.standby_tasks), rest


def named(infos: Sequence[TaskId]) -> bool:
    return any(task.topology for task in infos)


@settings(max_examples=300, deadline=None)
@given(st.lists(assignments(), max_size=4))
def test_assignment_infos(group: list[AssignmentInfo]) -> None:
    columns = read_assigned([info.encode() for info in group])
    for m, info in enumerate(group):
        if named([*info.active_tasks, *(task for task, _ in info.standby_tasks)]):
            assert m in columns.errors
        else:
            assert seen(columns, m) == plain(info)


@settings(max_examples=300, deadline=None)
@given(st.lists(mutated(assignments().map(AssignmentInfo.encode)), max_size=4))
def test_mutated_assignment_infos_are_errors_or_read_as_the_dataclass_does(blobs: list[bytes]) -> None:
    columns = read_assigned(blobs)
    for m, blob in enumerate(blobs):
        if m in columns.errors:
            continue
        if all(info.isascii() for info in columns.topic_names):
            assert seen(columns, m) == plain(AssignmentInfo.decode(blob))
