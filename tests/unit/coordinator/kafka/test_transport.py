"""Messages in every version that brokers speak, failures by kind, and what happens where no broker is."""

import asyncio
import re
import socket
from collections.abc import Collection, Iterator, Mapping

import pytest
from kafka import errors
from kafka.protocol.admin.groups import DescribeGroupsResponse
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.consumer.group import JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from bellwether_kafka.coordinator.kafka.wire import Transport, TransportError, UnreachableError, release_of
from bellwether_kafka.coordinator.kafka.wire.group_messages import answer, failure_of, message, reason_of, unreachable
from bellwether_kafka.coordinator.membership import (
    CoordinatorAnswer,
    Describe,
    Failure,
    FindCoordinator,
    Heartbeat,
    Join,
    JoinedMember,
    Leave,
    Node,
    RequestFailed,
)
from tests.kit.brokers import FOLLOWER, LEADER, SILENT, AnsweringBrokers, Mute, Sizes

NODE = Node(1, "127.0.0.1", 9092)
JOIN = Join(1, NODE, "orders", 305_000, "bw-1", "bw", (("range", b"me"), ("sticky", b"me")), "why", 10_000, 15_000)
LEAVE = Leave(1, NODE, "orders", 1_000, "bw-1", "bw", "bye")


@pytest.mark.parametrize("version", range(10))
def test_a_join_in_every_version(version: int) -> None:
    request = message(JOIN)
    read = JoinGroupRequest.decode(request.encode(version=version), version=version)
    assert (read.group_id, read.member_id, read.session_timeout_ms) == ("orders", "bw-1", 10_000)
    assert [(p.name, bytes(p.metadata)) for p in read.protocols] == [("range", b"me"), ("sticky", b"me")]
    if version >= 5:
        assert read.group_instance_id == "bw"
    if version >= 8:
        assert read.reason == "why"


@pytest.mark.parametrize("version", range(10))
def test_a_join_answer_in_every_version(version: int) -> None:
    entry = JoinGroupResponse.JoinGroupResponseMember(member_id="a", group_instance_id="i", metadata=b"blob")
    sent = JoinGroupResponse(
        error_code=0,
        generation_id=7,
        protocol_type="consumer",
        protocol_name="range",
        leader="bw-1",
        skip_assignment=True,
        member_id="bw-1",
        members=[entry],
    )
    read = answer(JOIN, JoinGroupResponse.decode(sent.encode(version=version), version=version))
    expected = JoinedMember("a", "i" if version >= 5 else None, b"blob")
    assert read.members == (expected,)
    assert (read.generation, read.protocol, read.leader) == (7, "range", "bw-1")
    assert read.skip_assignment == (version >= 9)


@pytest.mark.parametrize("version", range(6))
def test_a_leave_in_every_version(version: int) -> None:
    read = LeaveGroupRequest.decode(message(LEAVE).encode(version=version), version=version)
    if version < 3:
        assert read.member_id == "bw-1"
    else:
        assert [(m.member_id, m.group_instance_id) for m in read.members] == [("bw-1", "bw")]


@pytest.mark.parametrize("version", [2, 4, 5])
def test_a_leave_answer_shows_the_members_error(version: int) -> None:
    entry = LeaveGroupResponse.MemberResponse(member_id="bw-1", group_instance_id=None, error_code=25)
    sent = LeaveGroupResponse(error_code=0, members=[entry])
    read = answer(LEAVE, LeaveGroupResponse.decode(sent.encode(version=version), version=version))
    assert read.error == (25 if version >= 3 else 0)


@pytest.mark.parametrize("version", range(7))
def test_finding_the_coordinator_in_every_version(version: int) -> None:
    command = FindCoordinator(5, "orders", 1_000)
    read = FindCoordinatorRequest.decode(message(command).encode(version=version), version=version)
    assert (read.coordinator_keys if version >= 4 else [read.key]) == ["orders"]
    if version >= 1:
        assert read.key_type == 0
    entry = FindCoordinatorResponse.Coordinator(key="orders", node_id=1, host="127.0.0.1", port=9092, error_code=0)
    sent = FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=9092, error_code=0, coordinators=[entry])
    received = FindCoordinatorResponse.decode(sent.encode(version=version), version=version)
    assert answer(command, received) == CoordinatorAnswer(5, 0, NODE)


def test_a_coordinator_that_is_not_there_yet() -> None:
    sent = FindCoordinatorResponse(node_id=-1, host="", port=-1, error_code=15)
    received = FindCoordinatorResponse.decode(sent.encode(version=3), version=3)
    assert answer(FindCoordinator(5, "orders", 1_000), received) == CoordinatorAnswer(5, 15)


def test_a_description_shows_what_kind_of_group_it_is_not() -> None:
    group = DescribeGroupsResponse.DescribedGroup(
        error_code=69, error_message="Group orders is not a classic group.", group_id="orders", group_state="Dead",
        protocol_type="", protocol_data="", members=[],
    )  # fmt: skip
    received = DescribeGroupsResponse.decode(DescribeGroupsResponse(groups=[group]).encode(version=6), version=6)
    read = answer(Describe(1, NODE, "orders", 1_000), received)
    assert (read.error, read.message) == (69, "Group orders is not a classic group.")


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (errors.SaslAuthenticationFailedError("x"), Failure.AUTHENTICATION),
        (errors.UnsupportedSaslMechanismError("x"), Failure.AUTHENTICATION),
        (errors.KafkaConnectionError("Handshake failed: certificate"), Failure.AUTHENTICATION),
        # How a broker's refusal of Bellwether's certificate comes back in TLS 1.3: after the handshake, as a lost
        # connection.
        (
            errors.KafkaConnectionError("[SSL: SSLV3_ALERT_CERTIFICATE_EXPIRED] ssl/tls alert (_ssl.c:2580)"),
            Failure.AUTHENTICATION,
        ),
        (
            errors.KafkaConnectionError("[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred (_ssl.c:2580)"),
            Failure.DISCONNECTED,
        ),
        (errors.IncompatibleBrokerVersion("x"), Failure.UNSUPPORTED),
        (errors.KafkaTimeoutError("x"), Failure.TIMED_OUT),
        (errors.RequestTimedOutError("x"), Failure.TIMED_OUT),
        (errors.KafkaConnectionError("x"), Failure.DISCONNECTED),
        (ConnectionResetError(), Failure.DISCONNECTED),
        (errors.InvalidReceiveError("x"), Failure.MALFORMED),
        (IndexError(), Failure.MALFORMED),
        (RuntimeError("x"), Failure.DISCONNECTED),
    ],
)
def test_errors_of_the_library_by_kind(error: Exception, failure: Failure) -> None:
    assert failure_of(error) is failure


def test_a_reason_does_not_change_with_the_time_that_passed() -> None:
    """Each group of a broker that hung was logged at each refresh, since 4999 ms is not 4998 ms."""
    assert not re.search(r"\d ms", reason_of(errors.RequestTimedOutError("Request timed out")))
    assert reason_of(TimeoutError()) == "TimeoutError"


async def test_nobody_listens() -> None:
    async def scenario(address: str) -> None:
        transport = Transport({"bootstrap.servers": address})
        try:
            with pytest.raises(UnreachableError, match=rf"bootstrap.servers \({address}\)"):
                await transport.start(3_000)
            failed = await transport.request(Heartbeat(9, Node(1, "127.0.0.1", 1), "orders", 500, "m", None, 1))
            assert failed == RequestFailed(9, Failure.DISCONNECTED, failed.reason)
        finally:
            await transport.close()
            await transport.close()

    with socket.socket() as silent:  # bound, so that nobody else gets the port, and nothing listens
        silent.bind(("127.0.0.1", 0))
        await scenario(f"127.0.0.1:{silent.getsockname()[1]}")


@pytest.fixture
def mute() -> Iterator[Mute]:
    broker = Mute()
    yield broker
    broker.close()


@pytest.mark.slow
async def test_a_parked_join_blocks_nobody_and_its_connection_can_be_dropped(mute: Mute) -> None:
    node = Node(1, *mute.address)
    properties = {"bootstrap.servers": f"127.0.0.1:{mute.address[1]}", "bellwether.api.version": "2.3"}
    transport = Transport(properties)
    await transport.start(1_000)
    parked = asyncio.create_task(transport.request(Join(1, node, "g", 60_000, "", None, (), "", 1, 1)))
    other = asyncio.create_task(transport.request(Join(2, node, "h", 60_000, "", None, (), "", 1, 1)))
    late = await transport.request(Heartbeat(3, node, "g", 300, "m", None, 1))
    assert late == RequestFailed(3, Failure.TIMED_OUT, late.reason)
    assert mute.connections == 4, "bootstrap, control and one per group"
    assert not parked.done()
    mute.closed.clear()
    transport.abandon("g")
    failed = await asyncio.wait_for(parked, 5)
    assert failed == RequestFailed(1, Failure.DISCONNECTED, failed.reason)
    assert await asyncio.to_thread(mute.closed.wait, 5)
    assert not other.done(), "the other group's join stays where it is"
    other.cancel()
    await transport.close()


@pytest.mark.slow
async def test_a_request_to_another_address_of_a_broker_ends_no_other_request(mute: Mute) -> None:
    """As to the former address of a broker that was replaced, or to another of its listeners: the requests that were
    on their way, such as heartbeats, failed."""
    properties = {"bootstrap.servers": f"127.0.0.1:{mute.address[1]}", "bellwether.api.version": "2.3"}
    transport = Transport(properties)
    await transport.start(1_000)
    here, there = (Node(1, host, mute.address[1]) for host in ("127.0.0.1", "localhost"))
    first = asyncio.create_task(transport.request(Heartbeat(1, here, "g", 600, "m", None, 1)))
    await asyncio.sleep(0.1)
    await transport.request(Heartbeat(2, there, "g", 200, "m", None, 1))
    failed = await first
    assert failed == RequestFailed(1, Failure.TIMED_OUT, failed.reason)
    await transport.close()


@pytest.mark.slow
async def test_a_broker_that_is_slow_to_read_its_disks_holds_up_no_other_request(mute: Mute) -> None:
    """All groups of the node counted as unknown until it had answered, and all requests failed if it did not."""
    properties = {"bootstrap.servers": f"127.0.0.1:{mute.address[1]}", "bellwether.api.version": "2.3"}
    transport = Transport(properties)
    await transport.start(1_000)
    node = Node(1, *mute.address)
    sizes = asyncio.create_task(transport.log_sizes(node, {"t": 1}))
    await transport.request(Heartbeat(1, node, "g", 300, "m", None, 1))
    assert not sizes.done()
    assert mute.connections == 3, "bootstrap, sizes and all else"
    sizes.cancel()
    await transport.close()


async def test_the_next_search_asks_the_next_bootstrap_server(mute: Mute) -> None:
    other = Mute()
    servers = f"127.0.0.1:{mute.address[1]},127.0.0.1:{other.address[1]}"
    try:
        transport = Transport({"bootstrap.servers": servers, "bellwether.api.version": "2.3"})
        try:
            await transport.start(500)
            assert sorted((mute.connections, other.connections)) == [0, 1], "the library shuffles them"
            await transport.request(FindCoordinator(1, "g", 300, attempt=1))
            assert (mute.connections, other.connections) == (1, 1)
            await transport.request(FindCoordinator(2, "g", 300, attempt=2))
            assert (mute.connections, other.connections) == (1, 1), "round and round"
        finally:
            await transport.close()
    finally:
        other.close()


async def largest(*answers: Sizes | TransportError, in_sync: Collection[int] | None = None) -> Sizes:
    transport, nodes = AnsweringBrokers(*answers), [Node(i, "127.0.0.1", 1) for i in range(len(answers))]
    counted = in_sync and {node: {("t", 0), ("t", 1)} if node.node_id in in_sync else set() for node in nodes}
    try:
        return await transport.largest_logs(nodes, {"t": 2}, counted or None)
    finally:
        await transport.close()


async def test_of_the_replicas_of_a_log_the_largest_counts() -> None:
    assert await largest(FOLLOWER, LEADER, FOLLOWER) == LEADER


async def test_of_in_sync_replicas_the_largest_counts() -> None:
    assert await largest(LEADER, FOLLOWER, in_sync=[1]) == FOLLOWER


async def test_a_broker_that_does_not_answer_is_left_out() -> None:
    assert await largest(FOLLOWER, SILENT) == FOLLOWER


async def test_brokers_that_refuse_log_sizes_differ_from_brokers_that_do_not_answer() -> None:
    assert await largest({}, {}) == {}
    with pytest.raises(TransportError, match="no answer in time"):
        await largest(SILENT, SILENT)


@pytest.mark.parametrize(
    ("answered", "release"),
    [(None, ()), ({89: (0, 0), 42: (0, 2)}, (4, 3)), ({89: (0, 1), 42: (0, 3)}, (4, 4)), ({89: (0, 1)}, (4, 3))],
)
def test_a_release_after_4_3_is_seen_by_the_requests_that_it_supports(
    answered: Mapping[int, tuple[int, int]] | None, release: tuple[int, ...]
) -> None:
    """The library calls all later ones 4.3."""
    data = None if answered is None else BrokerVersionData((4, 3))
    if data is not None:
        data.api_versions = {**data.api_versions, **(answered or {})}
    assert release_of(data) == release


async def test_a_connection_that_is_dropped_leaves_nothing_behind(mute: Mute) -> None:
    """Each abandoned JoinGroup makes a new name, and two entries of each were kept for good."""
    transport, node = Transport({"bootstrap.servers": "127.0.0.1:1"}), Node(1, *mute.address)
    for number in range(20):
        join = Join(number, node, "orders", 60_000, "", None, (), "", 1, 1)
        waiting = asyncio.create_task(transport.request(join))
        await asyncio.sleep(0)
        transport.abandon("orders")
        assert isinstance(await waiting, RequestFailed)
    kept = vars(transport) | vars(transport._connections)
    assert {name: len(part) for name, part in kept.items() if isinstance(part, dict) and "config" not in name} == {
        "_dropped_joins": 1,
        "_lanes": 0,
        "_failed": 0,
        "by_name": 0,
    }
    await transport.close()


@pytest.mark.parametrize(
    ("protocol", "why", "failure", "words"),
    [
        ("PLAINTEXT", "[Errno 104] Connection reset by peer", Failure.DISCONNECTED, "with TLS needs SSL or SASL_SSL"),
        ("SASL_SSL", "I/O wait timed out", Failure.TIMED_OUT, "without TLS needs PLAINTEXT or SASL_PLAINTEXT"),
        ("SASL_PLAINTEXT", "21 is no length", Failure.MALFORMED, "with TLS needs SSL or SASL_SSL"),
        ("PLAINTEXT", "unable to connect to b:9092: 111 ECONNREFUSED", Failure.DISCONNECTED, ""),
        ("PLAINTEXT", "DNS Resolution failure of b", Failure.DISCONNECTED, ""),
    ],
)
def test_a_listener_that_accepts_and_does_not_answer_names_the_other_kind(
    protocol: str, why: str, failure: Failure, words: str
) -> None:
    """A listener with TLS that was asked without it was said to be a fault of the network."""
    sentence = unreachable(["b:9092"], protocol, why, failure)
    assert ("security.protocol" in sentence) == bool(words)
    assert words in sentence
    assert why in sentence, "what the library says is kept"


async def test_an_advertised_address_that_never_worked_is_named_as_such(mute: Mute) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        host, port = closed.getsockname()
    transport = Transport(
        {"bootstrap.servers": f"{mute.address[0]}:{mute.address[1]}", "bellwether.api.version": "2.3"}
    )
    try:
        failed = await transport.request(Heartbeat(9, Node(1, host, port), "orders", 500, "m", None, 1))
        assert isinstance(failed, RequestFailed)
        assert f"a broker advertises {host}:{port} (advertised.listeners)" in failed.reason
    finally:
        await transport.close()


async def test_an_address_of_the_user_or_one_that_has_worked_is_not_named_as_advertised() -> None:
    transport = Transport({"bootstrap.servers": "b:9092"})
    error = errors.KafkaConnectionError("unable to connect to b:9092")
    assert "advertises" not in transport._reason(error, Node(1, "b", 9092))
    transport._answering.add(Node(2, "c", 9092))
    assert "advertises" not in transport._reason(error, Node(2, "c", 9092))
    assert "advertises d:9092" in transport._reason(error, Node(3, "d", 9092))
    await transport.close()
