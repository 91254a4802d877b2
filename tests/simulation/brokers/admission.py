"""Which JoinGroups a coordinator node refuses (docs/internals/broker-behaviour.md#limits)."""

from typing import TYPE_CHECKING

from bellwether_kafka.coordinator.membership import Code, Join
from tests.simulation.brokers.group_states import EMPTY, PREPARING

if TYPE_CHECKING:
    from tests.simulation.brokers.group_model import Group

SESSION_MS = (6_000, 1_800_000)


def join_error(group: "Group", request: Join) -> int:
    """Returns 0 for a JoinGroup that is not refused."""
    if not SESSION_MS[0] <= request.session_timeout_ms <= SESSION_MS[1]:
        return Code.INVALID_SESSION_TIMEOUT
    if not _has_room(group, request.member_id):
        return Code.GROUP_MAX_SIZE_REACHED
    names = {name for name, _ in request.protocols}
    shared = names.intersection(*{tuple(n for n, _ in s.protocols) for s in group.member_entries.values()})
    if not shared:
        return Code.INCONSISTENT_GROUP_PROTOCOL
    if not request.member_id or request.member_id in group.pending:
        return 0
    return group.id_error(request.member_id, request.instance_id)


def _has_room(group: "Group", member_id: str) -> bool:
    """In a join phase only members count that have come: those that come late find a full group, and are refused. An
    empty group takes all."""
    limit, member = group.hooks.size_max, group.member_entries.get(member_id)
    if limit is None or group.state == EMPTY:
        return True
    if group.state == PREPARING:
        back = sum(member_entry.join is not None for member_entry in group.member_entries.values())
        return back < limit or (member is not None and member.join is not None)
    return len(group.member_entries) < limit or member is not None
