"""The column readers say what the dataclasses say, for honest and for mutated bytes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from bellwether_kafka.protocol.bulk import read_assigned
from bellwether_kafka.protocol.messages import AssignmentInfo, SubscriptionInfo
from bellwether_kafka.protocol.primitives import HostInfo, ProcessId, TaskId, TopicPartition
from tests.unit.protocol.bulk.agreement import assigned_agree, infos_agree, is_named

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


@settings(max_examples=300)
@given(st.lists(st.one_of(infos(), mutated(infos()), st.binary(max_size=40), st.none()), max_size=5))
def test_subscription_infos(blobs: list[bytes | None]) -> None:
    infos_agree(blobs)


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


@settings(max_examples=300)
@given(st.lists(assignments(), max_size=4))
def test_assignment_infos(group: list[AssignmentInfo]) -> None:
    blobs = [info.encode() for info in group]
    assert read_assigned(blobs).errors.keys() == {m for m, info in enumerate(group) if is_named(info)}
    assigned_agree(blobs)


@settings(max_examples=300)
@given(st.lists(mutated(assignments().map(AssignmentInfo.encode)), max_size=4))
def test_mutated_assignment_infos_are_errors_or_read_as_the_dataclass_does(blobs: list[bytes]) -> None:
    if all(name.isascii() for name in read_assigned(blobs).topic_names):
        assigned_agree(blobs)
