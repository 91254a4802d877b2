"""What a plan for a broker was made without, because it was not observed yet: a broker sends neither client ids nor
hosts, and topics by id. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bellwether_kafka.assignors.consumer import LOAD_AWARE, STICKY_MIN_CHURN, TOPIC_BALANCE, Policy
from bellwether_kafka.assignors.shared import Rule
from bellwether_kafka.coordinator.serving.known import KnownMember
from bellwether_kafka.coordinator.serving.wire import Request
from bellwether_kafka.coordinator.serving.wire_tasks import TaskGroup

WITHOUT_RACKS = (STICKY_MIN_CHURN, TOPIC_BALANCE)  # policies for which the racks of members do not matter


@dataclass(frozen=True, slots=True, eq=False)
class Incomplete:
    """What one plan lacked: the names of `topics`, and the client ids and hosts of `members`. `rackless` are those of
    the members that send no rack."""

    assignor: str
    topics: tuple[bytes, ...] = ()
    members: tuple[str, ...] = ()
    rackless: frozenset[str] = frozenset()

    def cause(self, policy: Policy, members_seen: Sequence[KnownMember | None]) -> str:
        """Returns which rack by `[racks]` or which capacity by client id the plan lacked, "" for none. `policy` is that
        of the group, `members_seen` what is observed of `members` by now."""
        capacity = capacity_by_client_id(policy)
        for member, seen in zip(self.members, members_seen, strict=True):
            if seen is None:
                continue
            if member in self.rackless and seen.rack is not None and policy.name not in WITHOUT_RACKS:
                return f"the plan was made before {member} was observed, which has rack {seen.rack} by [racks]"
            if capacity.get(seen.client_id, 1.0) != 1.0:
                return f"the plan was made before {member} was observed, which has the capacity of {seen.client_id}"
        return ""


def capacity_by_client_id(policy: Policy) -> Mapping[str, float]:
    """Returns the capacities that the policy uses. The names may be instance ids, too."""
    return policy.load.capacity if policy.name == LOAD_AWARE else {}


def incomplete(
    request: Request,
    members_seen: Sequence[KnownMember | None],
    rules: Sequence[Rule],
    policy: Policy | None,
    *,
    racks_configured: bool,
    are_known: Callable[[Sequence[bytes]], bool],
) -> Incomplete | None:
    """Returns what the plan of a request lacks, None for nothing that may matter. `policy` is None where that of the
    group is not known yet. `are_known`: whether all of these topics have a name."""
    rows = zip(request.members, request.instances, request.rack_of, members_seen, strict=True)
    unobserved = [(member, instance, rack < 0) for member, instance, rack, seen in rows if seen is None]
    by_client_id = any(rule.where.startswith("member:") for rule in rules)
    capacity = {} if policy is None else capacity_by_client_id(policy)
    members = tuple(
        member
        for member, instance, rackless in unobserved
        if by_client_id
        or policy is None
        or (racks_configured and rackless)
        or (capacity and (instance or "") not in capacity)
    )
    if not members and are_known(request.topics):
        return None
    rackless = frozenset(member for member, _, rackless in unobserved if racks_configured and rackless)
    return Incomplete(request.assignor, request.topics, members, rackless)


def incomplete_tasks(
    request: TaskGroup, members_seen: Sequence[KnownMember | None], rules: Sequence[Rule]
) -> Incomplete | None:
    """Returns what the plan of an application lacked; such plans need client ids only for orders."""
    if not any(rule.where.startswith("member:") for rule in rules):
        return None
    unobserved = [member for member, seen in zip(request.members, members_seen, strict=True) if seen is None]
    return Incomplete(request.assignor, members=tuple(unobserved)) if unobserved else None
