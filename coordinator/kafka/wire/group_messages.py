"""Translates commands into kafka-python's request messages, and its responses into events. Belongs to `transport`."""

from collections.abc import Callable, Sequence
from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.admin.groups import DescribeGroupsRequest
from kafka.protocol.consumer.group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from bellwether_kafka.coordinator import membership

PROTOCOL_TYPE = "consumer"
GROUP_KEY_TYPE = 0
# Texts of TLS errors: Bellwether refuses the broker, or the broker refuses Bellwether, in TLS 1.3 after the handshake.
TLS_REFUSALS = ("Handshake failed", "_ALERT_")
NOT_CONNECTED = ("unable to connect", "DNS Resolution failure")  # in the sentences of `connections`


def failure_of(error: BaseException) -> membership.Failure:
    """Returns the kind of failure that an exception of the library means for the membership machine."""
    match error:
        case (
            kafka_errors.SaslAuthenticationFailedError()
            | kafka_errors.UnsupportedSaslMechanismError()
            | kafka_errors.AuthorizationError()
        ):
            return membership.Failure.AUTHENTICATION
        case kafka_errors.KafkaConnectionError() if any(words in str(error) for words in TLS_REFUSALS):
            return membership.Failure.AUTHENTICATION
        case kafka_errors.UnsupportedVersionError():
            return membership.Failure.UNSUPPORTED
        case kafka_errors.KafkaTimeoutError() | kafka_errors.RequestTimedOutError():
            return membership.Failure.TIMED_OUT
        case kafka_errors.KafkaConnectionError() | OSError():
            return membership.Failure.DISCONNECTED
        case kafka_errors.KafkaProtocolError() | ValueError() | TypeError() | LookupError():
            return membership.Failure.MALFORMED
    return membership.Failure.DISCONNECTED


def reason_of(error: BaseException) -> str:
    """Returns the text of an exception, which has no time that differs each time: a reason is logged when it
    changes."""
    return str(error) or type(error).__name__


def reason_at_advertised(error: BaseException, node: membership.Node, servers: Sequence[str]) -> str:
    """Returns the same for an address that has never worked, which a broker has stated unless it is one of `servers`,
    those of the user."""
    reason = reason_of(error)
    if f"{node.host}:{node.port}" in servers or not any(words in reason for words in NOT_CONNECTED):
        return reason
    return f"{reason}; a broker advertises {node.host}:{node.port} (advertised.listeners), which must work from here"


def unreachable(names: Sequence[str], protocol: str | None, why: str, failure: membership.Failure) -> str:
    """Returns a sentence on why no bootstrap server could be used, with the properties to check. `protocol` is
    security.protocol, None if it is not set."""
    servers, protocol = ",".join(names), protocol or "PLAINTEXT"
    if failure is membership.Failure.AUTHENTICATION:
        return (
            f"The brokers at bootstrap.servers ({servers}) refused the login ({why}); check security.protocol and"
            " the sasl.* or ssl.* properties."
        )
    tls = protocol.endswith("SSL")
    other = "without TLS needs PLAINTEXT or SASL_PLAINTEXT" if tls else "with TLS needs SSL or SASL_SSL"
    perhaps = f"security.protocol: it is {protocol}, and a listener {other}"
    if failure is membership.Failure.MALFORMED:
        return (
            f"What answers at bootstrap.servers ({servers}) does not speak Kafka's protocol in the clear ({why});"
            f" check the ports and {perhaps}."
        )
    hint = "" if any(words in why for words in NOT_CONNECTED) else f", and {perhaps}"
    return (
        f"No broker can be reached at bootstrap.servers ({servers}): {why}; check the addresses and the network{hint}."
    )


# The library leaves out fields that a version does not have. Where versions have different fields for one thing (key
# and coordinator_keys, member_id and members), both are filled.


def message(command: membership.Request) -> Any:
    return _WIRE[type(command)][0](command)


def answer(command: membership.Request, response: Any) -> membership.Answer:
    reply: membership.Answer = _WIRE[type(command)][1](command, response)
    return reply


def _find_message(command: membership.FindCoordinator) -> Any:
    return FindCoordinatorRequest(key=command.group_id, key_type=GROUP_KEY_TYPE, coordinator_keys=[command.group_id])


def _coordinator_answer(command: membership.FindCoordinator, response: Any) -> membership.CoordinatorAnswer:
    coordinator = response.coordinators[0] if response.API_VERSION >= 4 else response
    if coordinator.error_code:
        return membership.CoordinatorAnswer(command.request_id, coordinator.error_code)
    node = membership.Node(coordinator.node_id, coordinator.host, coordinator.port)
    return membership.CoordinatorAnswer(command.request_id, 0, node)


def _describe_message(command: membership.Describe) -> Any:
    return DescribeGroupsRequest(groups=[command.group_id], include_authorized_operations=False)


def _describe_answer(command: membership.Describe, response: Any) -> membership.DescribeAnswer:
    return described(response.groups[0], command.request_id)


def described(group: Any, request_id: int = 0) -> membership.DescribeAnswer:
    """Returns one group of a DescribeGroups response."""
    return membership.DescribeAnswer(
        request_id=request_id,
        error=group.error_code,
        state=group.group_state or "",
        protocol_type=group.protocol_type or "",
        protocol=group.protocol_data or "",
        members=tuple(
            membership.DescribedMember(
                member_id=member.member_id,
                instance_id=getattr(member, "group_instance_id", None),
                metadata=bytes(member.member_metadata or b""),
                assignment=bytes(member.member_assignment or b""),
                client_id=member.client_id or "",
                client_host=member.client_host or "",
            )
            for member in group.members
        ),
        message=getattr(group, "error_message", None) or "",
    )


def _as_member(command: membership.Join | membership.Sync | membership.Heartbeat) -> dict[str, Any]:
    return {"group_id": command.group_id, "member_id": command.member_id, "group_instance_id": command.instance_id}


def _join_message(command: membership.Join) -> Any:
    entry = JoinGroupRequest.JoinGroupRequestProtocol
    return JoinGroupRequest(
        **_as_member(command),
        session_timeout_ms=command.session_timeout_ms,
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        protocol_type=PROTOCOL_TYPE,
        protocols=[entry(name=name, metadata=metadata) for name, metadata in command.protocols],
        reason=command.reason or None,
    )


def _join_answer(command: membership.Join, response: Any) -> membership.JoinAnswer:
    return membership.JoinAnswer(
        request_id=command.request_id,
        error=response.error_code,
        generation=response.generation_id,
        protocol=response.protocol_name or "",
        leader=response.leader or "",
        member_id=response.member_id or "",
        skip_assignment=bool(getattr(response, "skip_assignment", False)),
        members=tuple(
            membership.JoinedMember(m.member_id, getattr(m, "group_instance_id", None), bytes(m.metadata))
            for m in response.members
        ),
    )


def _sync_message(command: membership.Sync) -> Any:
    entry = SyncGroupRequest.SyncGroupRequestAssignment
    return SyncGroupRequest(
        **_as_member(command),
        generation_id=command.generation,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=command.protocol,
        assignments=[entry(member_id=member_id, assignment=blob) for member_id, blob in command.assignments],
    )


def _sync_answer(command: membership.Sync, response: Any) -> membership.SyncAnswer:
    return membership.SyncAnswer(command.request_id, response.error_code, bytes(response.assignment or b""))


def _heartbeat_message(command: membership.Heartbeat) -> Any:
    return HeartbeatRequest(**_as_member(command), generation_id=command.generation)


def _heartbeat_answer(command: membership.Heartbeat, response: Any) -> membership.HeartbeatAnswer:
    return membership.HeartbeatAnswer(command.request_id, response.error_code)


def _leave_message(command: membership.Leave | membership.Evict) -> Any:
    if isinstance(command, membership.Leave):
        ids = [(command.member_id, command.instance_id)]
    else:
        ids = [(member_id, None) for member_id in command.member_ids]
    entry, reason = LeaveGroupRequest.MemberIdentity, command.reason or None
    members = [entry(member_id=member_id, group_instance_id=instance, reason=reason) for member_id, instance in ids]
    return LeaveGroupRequest(group_id=command.group_id, member_id=ids[0][0], members=members)


def _leave_answer(command: membership.Leave | membership.Evict, response: Any) -> membership.LeaveAnswer:
    members = getattr(response, "members", None) or ()
    errors = [response.error_code, *(member.error_code for member in members)]
    return membership.LeaveAnswer(command.request_id, next((code for code in errors if code), 0))


# Of each request: the library's message, and the answer in the response to it.
_WIRE: dict[type, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    membership.FindCoordinator: (_find_message, _coordinator_answer),
    membership.Describe: (_describe_message, _describe_answer),
    membership.Join: (_join_message, _join_answer),
    membership.Sync: (_sync_message, _sync_answer),
    membership.Heartbeat: (_heartbeat_message, _heartbeat_answer),
    membership.Leave: (_leave_message, _leave_answer),
    membership.Evict: (_leave_message, _leave_answer),
}
