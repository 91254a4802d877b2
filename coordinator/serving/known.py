"""What is known of groups and topics before a broker sends a request: nothing here reads from a broker. Any thread may
use it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bellwether_kafka.assignors.shared import ClusterView

TOPICS_MAX = 200_000
MISSING_MAX = 10_000


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
