"""Finds the subtopology of each changelog: by names, sizes, reported state, growth, and offsets. Pure."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from bellwether_kafka.assignors.streams.application import CHANGELOG, REPARTITION, TopologyError, named_internal
from bellwether_kafka.coordinator.topology.changelog_names import (
    TABLE,
    is_of_another_topic,
    of_one_join,
    owner_by_name,
    shorter_alike,
)
from bellwether_kafka.coordinator.topology.offset_fit import Ends, OffsetSum, Places, by_offsets, ranked_by_offsets

_SUBSCRIPTIONS = re.compile(r"(.+)-subscription-store")
_REGISTRATION = "-subscription-registration-topic"
_NUMBERED_STORE = re.compile(r"KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-(\d{10})")
_NUMBERED_TOPIC = re.compile(r"KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-(\d{10})-topic")
NOTHING: Mapping[str, int] = MappingProxyType({})
NONE_SERVES: Mapping[int, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Candidates:
    """What names, sizes and states show of changelogs.

    `placed`: those with one possible subtopology. `options`: the possible subtopologies of those with several.
    `uncertain`: the same for those that may belong to another application or an earlier version. `left`: why some of
    these may be leftovers. `notes`: sentences on changelogs that belong nowhere or are uncertain.
    """

    placed: dict[str, int | None]
    options: dict[str, list[int]] = field(default_factory=dict)
    uncertain: dict[str, list[int]] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def open(self) -> dict[str, list[int]]:
        return self.options | self.uncertain

    def choices(self, reporting: Collection[int]) -> dict[str, Sequence[int | None]]:
        """Returns the changelogs that offsets may decide, with their possible subtopologies. Uncertain ones are
        included only if a store of one of their subtopologies reports an offset (`reporting`)."""
        uncertain = {t: (*numbers, None) for t, numbers in self.uncertain.items() if {*reporting} & {*numbers}}
        return {**self.options, **uncertain}


@dataclass(frozen=True, slots=True)
class ChangelogSearch:
    """Finds the subtopology of each changelog. `sources`: source topics by subtopology. `sizes`: numbers of tasks by
    subtopology. `stateful` and `stateless`: subtopologies known to be so. `applications`: ids of other applications.
    `written`: changelogs that have grown lately."""

    application_id: str
    sources: Mapping[int, Sequence[str]]
    sizes: Mapping[int, int]
    stateful: set[int]
    stateless: set[int]
    applications: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()

    def solve(
        self, changelogs: Mapping[str, int], sums: Sequence[OffsetSum], ends: Ends, fixed: Mapping[str, int] = NOTHING
    ) -> tuple[dict[str, int | None], list[str]]:
        """Returns (subtopology of each changelog, None if open; notes). Changelogs that fit nowhere are left out.
        `fixed` ones stay where they are."""
        candidates = self._candidates(changelogs, fixed)
        choices = candidates.choices({task.subtopology for task, value in sums if value > 0})
        decided = by_offsets(candidates.placed, choices, sums, ends) if choices else {}
        notes = list(candidates.notes)
        if decided:
            notes.append("changelogs were distinguished by their offsets: " + ", ".join(sorted(decided)))
        left = sorted(t for t, number in decided.items() if number is None)
        notes += [f"{topic} counts as a leftover, because copies have caught up without it" for topic in left]
        still = {topic: numbers for topic, numbers in candidates.open.items() if topic not in decided}
        for topic, numbers in sorted(still.items()):
            notes.append(candidates.left.get(topic, f"{topic} may belong to subtopology {_or(numbers)}"))
        return {t: n for t, n in (candidates.placed | decided).items() if t not in left} | dict.fromkeys(still), notes

    def possible(
        self, changelogs: Mapping[str, int], sums: Sequence[OffsetSum], ends: Ends, fixed: Mapping[str, int]
    ) -> list[dict[str, int]]:
        """Returns every way to place the changelogs, or to treat them as leftovers, in which no reported sum exceeds
        its end, the likeliest first; [] if there are too many. A stateful subtopology may get none: a source topic may
        serve as its changelog."""
        candidates = self._candidates(changelogs, fixed)
        choices = {topic: (*numbers, None) for topic, numbers in candidates.open.items()}
        if any(t not in ends for t in (*candidates.placed, *choices)):
            sums = ()
        ranked = ranked_by_offsets(
            candidates.placed, choices, [(task, value) for task, value in sums if value > 0], ends
        )
        whole = [{**candidates.placed, **dict(zip(choices, choice, strict=True))} for _, _, choice in ranked]
        return [{topic: n for topic, n in way.items() if n is not None} for way in whole]

    def _candidates(self, changelogs: Mapping[str, int], fixed: Mapping[str, int]) -> _Candidates:
        candidates = _Candidates({**fixed})
        stores = {self._store(topic) for topic in (*changelogs, *fixed)}
        for topic, count in changelogs.items():
            if topic in fixed:
                continue
            same_size = self.same_size(count)
            fitting = [n for n in same_size if n not in self.stateless]
            by_name = [n for n in fitting if self._named_alike(topic, n)]
            if len(by_name) == 1:
                candidates.placed[topic] = by_name[0]
            elif reason := self._why_foreign(topic, same_size):
                candidates.notes.append(reason)
            elif other_store := shorter_alike(self._store(topic), stores):
                candidates.uncertain[topic] = fitting or same_size
                candidates.notes.append(self._uncertainty(topic, other_store))
            elif len(fitting) == 1:
                candidates.placed[topic] = fitting[0]
            else:
                candidates.options[topic] = fitting or same_size
        self._mark_siblings(candidates, fixed)
        return candidates

    def _mark_siblings(self, candidates: _Candidates, fixed: Mapping[str, int]) -> None:
        """Makes changelogs uncertain that share a subtopology with others and are not proven: they may belong to stores
        of an earlier version."""
        together: dict[int, list[str]] = defaultdict(list)
        for topic, number in candidates.placed.items():
            if number is not None:
                together[number].append(self._store(topic))
        several = {n for n, stores in together.items() if len(stores) > 1 and not of_one_join(stores)}
        shared = [(t, n) for t, n in candidates.placed.items() if n in several and t not in fixed]
        for topic, number in [(t, n) for t, n in shared if not self.proven(t, n, candidates.placed)]:
            del candidates.placed[topic]
            candidates.uncertain[topic] = [number]
            candidates.left[topic] = (
                f"{topic} may belong to subtopology {number}, or be left over from an earlier version of the"
                " application: nothing shows yet that it is in use"
            )

    def proven(self, topic: str, number: int, placed: Places) -> bool:
        """Returns whether more than its size shows that a changelog is in use. The number in the name of a table's
        store changes with the application's code, so two stores of one topic prove nothing."""
        if topic in self.written:
            return True
        table = TABLE.fullmatch(self._store(topic))
        others = (TABLE.fullmatch(self._store(t)) for t in placed if t != topic) if table else ()
        alike = any(other is not None and other[1] == table[1] for other in others) if table else False
        return self._named_alike(topic, number) and not alike

    def _why_foreign(self, topic: str, same_size: Sequence[int]) -> str:
        """Returns why a changelog cannot belong to a store of this application; "" if it can."""
        if not same_size:
            return f"{topic} fits no subtopology, so it counts as a leftover"
        if other := owner_by_name(topic, self.application_id, self.applications):
            return f"{topic} is a changelog of the application {other}"
        if is_of_another_topic(self._store(topic), [t for topics in self.sources.values() for t in topics]):
            return f"{topic} is named after a topic that the application does not read, so it counts as a leftover"
        return ""

    def _uncertainty(self, topic: str, other_store: str) -> str:
        other = f"{self.application_id}-{self._store(topic).removesuffix(f'-{other_store}')}"
        return f"{topic} may be a changelog of another application, {other}, which has a store {other_store} too"

    def same_size(self, partitions: int) -> list[int]:
        """Returns the subtopologies with this number of tasks."""
        return [number for number, size in sorted(self.sizes.items()) if size == partitions]

    def _named_alike(self, changelog: str, number: int) -> bool:
        """Returns whether the changelog's name matches a source topic of the subtopology: the repartition topic of an
        aggregation has the name of its store, a table's store that of its topic, and a foreign-key join gives its name
        to both."""
        store, sources = self._store(changelog), {self._bare(t) for t in self.sources[number]}
        if store + REPARTITION in sources:
            return True
        if table := TABLE.fullmatch(store):
            numbered = _NUMBERED_STORE.fullmatch(store)
            return table[1] in self.sources[number] or (
                numbered is not None and self._registration(numbered[1]) in sources
            )
        subscriptions = _SUBSCRIPTIONS.fullmatch(store)
        return subscriptions is not None and subscriptions[1] + _REGISTRATION in sources

    def _registration(self, number: str) -> str:
        """Returns the registration topic of the foreign-key join whose store has this number: the last one before
        it."""
        topics = [self._bare(topic) for sources in self.sources.values() for topic in sources]
        topic_by_number = {match[1]: match[0] for match in map(_NUMBERED_TOPIC.fullmatch, topics) if match}
        return max(((n, topic) for n, topic in topic_by_number.items() if n < number), default=("", ""))[1]

    def _bare(self, topic: str) -> str:
        return topic.removeprefix(f"{self.application_id}-")

    def _store(self, changelog: str) -> str:
        return self._bare(changelog).removesuffix(CHANGELOG)

    def external(self, number: int) -> list[str]:
        """Returns the source topics of a subtopology that are not internal."""
        return [t for t in self.sources[number] if not internal(self.application_id, t)]

    def reused(
        self, placed: Places, counts: Mapping[str, int], serving: Mapping[int, str] = NONE_SERVES
    ) -> dict[int, str]:
        """Returns the source topic that serves as the changelog of each stateful subtopology without its own, `serving`
        if known. Raises TopologyError if it is not clear which."""
        if None in placed.values():
            return {}
        changelog_of: dict[int, str] = {}
        for number in sorted(self.stateful - set(placed.values())):
            own = [t for t in self.external(number) if counts[t] == self.sizes[number]]
            own = [t for t in own if t == serving.get(number)] or own
            if len(own) != 1:
                lines = f"; then write {_or([f'`- {t}`' for t in own])} under its StateChangelogTopics" if own else ""
                remedy = f"make the file from the text of Topology.describe() (bellwether topology parse){lines}"
                raise TopologyError(f"subtopology {number} keeps state, but no changelog of it is found: {remedy}")
            changelog_of[number] = own[0]
        return changelog_of


def grown(before: Ends, now: Ends) -> frozenset[str]:
    """Returns the changelogs whose end offsets have grown, that is, which the application writes to."""
    both = (t for t in now if t in before and len(before[t]) == len(now[t]))
    return frozenset(t for t in both if bool((now[t] > before[t]).any()))


def internal(application_id: str, topic: str) -> bool:
    """Returns whether this source topic is internal to the application, by its name."""
    return topic.startswith(f"{application_id}-") and named_internal(topic.removeprefix(f"{application_id}-"))


def _or(items: Iterable[object]) -> str:
    return " or ".join(map(str, items))
