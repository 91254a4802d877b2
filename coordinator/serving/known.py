"""What is known of groups and topics before a broker sends a request, and what a plan was made without, because it was
not known yet: a broker sends neither client ids nor hosts, and topics by id. Nothing here reads from a broker, and any
thread may use it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bellwether_kafka.assignors.consumer import LOAD_AWARE, STICKY_MIN_CHURN, TOPIC_BALANCE, Policy
from bellwether_kafka.assignors.shared import ClusterView, Rule
from bellwether_kafka.coordinator.serving.wire import Request
from bellwether_kafka.coordinator.serving.wire_tasks import TaskGroup

TOPICS_MAX = 200_000
MISSING_MAX = 10_000
WITHOUT_RACKS = (STICKY_MIN_CHURN, TOPIC_BALANCE)  # policies for which the racks of members do not matter


class RefusedError(Exception):
    """Raised if there is no plan for a request; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class KnownMember:
    """A member as it was last observed. `rack` is the effective one: the rack that the member sends, else the one by
    `[racks]`. `leader_only`: the rack is by `[racks]`, and the member fetches from leaders only."""

    client_id: str = ""
    rack: str | None = None
    leader_only: bool = False


@dataclass(slots=True)
class KnownGroups:
    """Groups by the ids of their members. Clients generate these ids so that they are unique."""

    _members: dict[str, frozenset[str]] = field(default_factory=dict)
    _group_of: dict[str, str] = field(default_factory=dict)
    _observed: dict[str, KnownMember] = field(default_factory=dict)
    _clusters: dict[str, ClusterView] = field(default_factory=dict)

    def see(self, group: str, members: Mapping[str, KnownMember], cluster: ClusterView | None = None) -> None:
        """Records all members of a group, and its topics with the racks of their leaders, if they were read."""
        now, before = frozenset(members), self._members.get(group, frozenset())
        self._observed.update(members)
        self._members[group] = now
        self._group_of.update(dict.fromkeys(now - before, group))
        for gone in before - now:
            self._group_of.pop(gone, None)
            self._observed.pop(gone, None)
        if cluster is not None:
            self._clusters[group] = cluster

    def forget(self, group: str) -> None:
        self.see(group, {})
        self._members.pop(group, None)
        self._clusters.pop(group, None)

    def has_members(self, group: str) -> bool:
        return bool(self._members.get(group))

    def members_of(self, members: Sequence[str]) -> list[KnownMember | None]:
        """Returns what is known of these members, None for one that was not observed."""
        return [self._observed.get(member) for member in members]

    def cluster_of(self, group: str) -> ClusterView | None:
        return self._clusters.get(group)

    def group_of(self, members: Sequence[str]) -> str:
        """Returns the group in which one of these members was seen, "" for none."""
        return next((group for member in members if (group := self._group_of.get(member))), "")


@dataclass(slots=True)
class TopicNames:
    """Names of topics by id. The name of an id never changes, but a name may get another id."""

    _names: dict[bytes, str] = field(default_factory=dict)
    _named: set[str] = field(default_factory=set)
    _missing: dict[bytes, None] = field(default_factory=dict)
    _expected: dict[str, None] = field(default_factory=dict)

    def of(self, ids: Sequence[bytes]) -> list[str | None]:
        """Returns the names of these topics, None for an unknown one, which is noted as missing."""
        names = [self._names.get(topic) for topic in ids]
        for topic, name in zip(ids, names, strict=True):
            if name is None and len(self._missing) < MISSING_MAX:
                self._missing[topic] = None
        return names

    def are_known(self, ids: Iterable[bytes]) -> bool:
        return all(topic in self._names for topic in ids)

    def expect(self, names: Iterable[str]) -> None:
        """Records the topics of a group for which a broker may send a request."""
        self._expected.update(dict.fromkeys(name for name in names if name not in self._named))

    def learn(self, names: Mapping[bytes, str]) -> None:
        if len(self._names) + len(names) > TOPICS_MAX:
            self._names.clear()
            self._named.clear()
        self._names.update(names)
        self._named.update(names.values())

    def take_missing(self) -> tuple[tuple[bytes, ...], tuple[str, ...]]:
        """Returns the ids without a name that were requested since the last call, and the expected names without an
        id."""
        missing, self._missing = self._missing, {}
        expected, self._expected = self._expected, {}
        return tuple(missing), tuple(expected)


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
