"""What is known of groups and topics before a broker sends a request: nothing here reads from a broker. Any thread may
use it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

TOPICS_MAX = 200_000
MISSING_MAX = 10_000


@dataclass(slots=True)
class KnownGroups:
    """Groups by the ids of their members. Clients generate these ids so that they are unique."""

    _members: dict[str, frozenset[str]] = field(default_factory=dict)
    _group_of: dict[str, str] = field(default_factory=dict)

    def see(self, group: str, members: Iterable[str]) -> None:
        """Records all members of a group."""
        now, before = frozenset(members), self._members.get(group, frozenset())
        self._members[group] = now
        self._group_of.update(dict.fromkeys(now - before, group))
        for gone in before - now:
            self._group_of.pop(gone, None)

    def forget(self, group: str) -> None:
        self.see(group, ())
        self._members.pop(group, None)

    def has_members(self, group: str) -> bool:
        return bool(self._members.get(group))

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
