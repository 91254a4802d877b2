"""Stateful members: what is written is read back, no bytes raise anything but RemoteProtocolError, and whatever members
say, a group of them gets a valid plan or a reason."""

import contextlib

from hypothesis import example, given
from hypothesis import strategies as st

from bellwether_kafka.assignors.shared import RawGroup, RawMember, Refusal
from bellwether_kafka.assignors.stateful import (
    as_streams,
    end_offsets,
    from_streams,
    inspect_stateful,
    read_member,
    stateful_topology,
    topology_of,
)
from bellwether_kafka.assignors.streams import STOCK, decide_streams
from bellwether_kafka.assignors.streams.application import AssignmentConfigs
from bellwether_kafka.assignors.streams.members import StreamsMemory
from bellwether_kafka.assignors.streams.policies import STREAMS_HA
from bellwether_kafka.protocol.messages import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    Copy,
    StatefulAssignment,
    StatefulSubscription,
    StatefulTaskState,
    Task,
)
from bellwether_kafka.protocol.primitives import ProcessId, RemoteProtocolError, TopicPartition
from tests.kit.consumers import cluster_of
from tests.properties.protocol.protocol_strategies import INT64, TEXT, mutated

COUNTS = {"clicks": 3, "orders": 5}
NUMBERS = st.integers(0, (1 << 31) - 1)
NAMES = st.one_of(st.integers(0, 2), NUMBERS)
POSITIONS = st.one_of(st.integers(-1, 200), st.integers(-1, (1 << 63) - 1))
TASKS = st.builds(Task, NAMES, st.one_of(st.integers(0, 6), NUMBERS))
STATES = st.builds(StatefulTaskState, TASKS, POSITIONS, POSITIONS, running=st.booleans())
SUBSCRIPTIONS = st.builds(
    StatefulSubscription,
    st.builds(ProcessId, INT64, INT64),
    st.one_of(st.none(), TEXT.filter(bool)),
    st.one_of(st.integers(1, 8), st.integers(1, (1 << 31) - 1)),
    st.lists(st.tuples(TEXT, TEXT), max_size=3).map(tuple),
    st.lists(STATES, max_size=6, unique_by=lambda state: state.task).map(tuple),
)
GROUPS = st.tuples(NAMES, st.lists(TEXT, max_size=3).map(tuple))
ASSIGNMENTS = st.builds(
    StatefulAssignment,
    st.lists(GROUPS, max_size=3).map(tuple),
    st.lists(TASKS, max_size=5).map(tuple),
    st.lists(st.builds(Copy, TASKS, st.integers(0, 1)), max_size=5).map(tuple),
)


@given(SUBSCRIPTIONS)
def test_subscriptions_come_back(message: StatefulSubscription) -> None:
    assert StatefulSubscription.decode(message.encode()) == message


@given(ASSIGNMENTS)
def test_assignments_come_back(message: StatefulAssignment) -> None:
    read = StatefulAssignment.decode(message.encode())
    assert read == message
    assert {*read.standby, *read.warmup} == {copy.task for copy in message.copies}


@given(
    st.one_of(
        st.binary(max_size=80),
        mutated(SUBSCRIPTIONS.map(lambda message: message.encode())),
        mutated(ASSIGNMENTS.map(lambda message: message.encode())),
    )
)
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    for read in (StatefulSubscription.decode, StatefulAssignment.decode):
        with contextlib.suppress(RemoteProtocolError):
            read(data)


USER_DATA = st.one_of(
    SUBSCRIPTIONS.map(lambda message: message.encode()),
    mutated(SUBSCRIPTIONS.map(lambda message: message.encode())),
    st.none(),
)
OWNED = st.lists(
    st.builds(TopicPartition, st.sampled_from(["clicks", "orders"]), st.integers(0, 4)), max_size=4, unique=True
)
MEMBERS = st.builds(
    lambda data, owned: ConsumerProtocolSubscription(3, tuple(COUNTS), data, tuple(owned), 1, "az1").encode(),
    USER_DATA,
    OWNED,
)


# A member that subscribes to what no topic can be called: the plan of the whole group failed with it.
NAMELESS = ConsumerProtocolSubscription(3, ("\0licks", "orders"), StatefulSubscription().encode()).encode()


@example([ConsumerProtocolSubscription(3, tuple(COUNTS), StatefulSubscription().encode()).encode(), NAMELESS], 1)
@given(st.lists(st.one_of(MEMBERS, mutated(MEMBERS)), min_size=1, max_size=4), st.integers(0, 2))
def test_any_group_gets_a_valid_plan_or_a_reason(metadata: list[bytes], replicas: int) -> None:
    decoded = [read_member(data) for data in metadata]
    declared = topology_of("group", decoded)
    if declared is None:
        return
    topology = stateful_topology(declared, COUNTS)
    members = tuple(RawMember(f"m{i}", None, as_streams(m, topology, COUNTS)) for i, m in enumerate(decoded))
    decision = decide_streams(
        RawGroup("group", 2, "bellwether-stateful", members),
        cluster_of(COUNTS),
        end_offsets(topology, COUNTS, decoded, 0),
        topology,
        StreamsMemory.empty(),
        AssignmentConfigs(num_standby_replicas=replicas),
        STREAMS_HA,
        0,
        assignors=STOCK,
    )
    if isinstance(decision, Refusal):
        assert decision.reason
        return
    sent = from_streams(decision)
    assert inspect_stateful(decision, sent) == ()
    active = [t for _, blob in sent for t in StatefulAssignment.decode(_data(blob)).active]
    assert len(active) == len(set(active))
    pending = int(decision.plan.pending.sum())
    assert len(active) + pending == max(COUNTS.values())


def _data(blob: bytes) -> bytes:
    return ConsumerProtocolAssignment.decode(blob).user_data or b""
