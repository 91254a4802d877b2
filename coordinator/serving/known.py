"""What is known of groups and topics before a broker asks: nothing here asks a broker. Any thread may use it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

TOPICS_MAX = 200_000
MISSING_MAX = 10_000


@dataclass(slots=True)
class KnownGroups:
    """Groups by the ids of their members, which clients make so that no two are equal."""

    _members: dict[str, frozenset[str]] = field(default_factory=dict)
    _group_of: dict[str, str] = field(default_factory=dict)

    def see(self, group: str, members: Iterable[str]) -> None:
        """Takes all members of a group."""
        now, before = frozenset(members), self._members.get(group, frozenset())
        self._members[group] = now
        self._group_of.update(dict.fromkeys(now - before, group))
        for gone in before - now:
            self._group_of.pop(gone, None)

    def forget(self, group: str) -> None:
        self.see(group, ())
        self._members.pop(group, None)

    def group_of(self, members: Sequence[str]) -> str:
        """The group in which one of them was seen, "" for none."""
        return next((group for member in members if (group := self._group_of.get(member))), "")


@dataclass(slots=True)
class TopicNames:
    """Names of topics by id. An id never gets another name, but a name another id."""

    _names: dict[bytes, str] = field(default_factory=dict)
    _named: set[str] = field(default_factory=set)
    _missing: dict[bytes, None] = field(default_factory=dict)
    _expected: dict[str, None] = field(default_factory=dict)

    def of(self, ids: Sequence[bytes]) -> list[str | None]:
        """None for one that is not known, which is noted."""
        names = [self._names.get(topic) for topic in ids]
        for topic, name in zip(ids, names, strict=True):
            if name is None and len(self._missing) < MISSING_MAX:
                self._missing[topic] = None
        return names

    def expect(self, names: Iterable[str]) -> None:
        """Topics of a group that may be asked about."""
        self._expected.update(dict.fromkeys(name for name in names if name not in self._named))

    def learn(self, names: Mapping[bytes, str]) -> None:
        if len(self._names) + len(names) > TOPICS_MAX:
            self._names.clear()
            self._named.clear()
        self._names.update(names)
        self._named.update(names.values())

    def take_missing(self) -> tuple[tuple[bytes, ...], tuple[str, ...]]:
        """The ids that were asked for since the last call and have no name, and the names that have no id."""
        missing, self._missing = self._missing, {}
        expected, self._expected = self._expected, {}
        return tuple(missing), tuple(expected)
