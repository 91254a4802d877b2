"""Learning a topology from a live group: what DescribeGroups says of a Stable group that a Java member leads.

The assignments prove which source topics belong to which subtopology, and that nothing is left out; the offset sums say
which subtopologies are stateful. Whose a changelog is, nobody says: it is concluded from names, partition counts and
end offsets, and where that is not enough, the topology is left `undecided` and a person has to say it
(docs/reference/streams.md#the-topology-is-not-on-the-wire). Pure.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from bellwether_kafka.assignors.shared import AssignedMember
from bellwether_kafka.assignors.streams.application import (
    LEARNED,
    Subtopology,
    Topology,
    TopologyError,
    named_internal,
)
from bellwether_kafka.assignors.streams.members import assignment_info
from bellwether_kafka.coordinator.topology.changelog_names import (
    CHANGELOG,
    REPARTITION,
    TABLE,
    is_of_another_topic,
    owner_by_name,
    shorter_alike,
)
from bellwether_kafka.coordinator.topology.offset_fit import Ends, OffsetSum, Places, by_offsets, ranked_by_offsets
from bellwether_kafka.protocol import messages
from bellwether_kafka.protocol.primitives import RemoteProtocolError, TopicPartition, java_sorted

_SUBSCRIPTIONS = re.compile(r"(.+)-subscription-store")
_REGISTRATION = "-subscription-registration-topic"
_NUMBERED_STORE = re.compile(r"KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-(\d{10})")
_NUMBERED_TOPIC = re.compile(r"KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-(\d{10})-topic")
NOTHING: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Learned:
    """A topology, and how it was concluded or what is still open, as sentences for people."""

    topology: Topology
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Thread:
    """`partitions` are in the order of the `given` active tasks."""

    member_id: str
    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...]
    info: messages.SubscriptionInfo
    partitions: tuple[TopicPartition, ...]
    given: messages.AssignmentInfo


def learn(
    application_id: str,
    described: Sequence[AssignedMember],
    counts: Mapping[str, int],
    ends: Ends | None = None,
    applications: Collection[str] = (),
) -> Learned:
    """The topology of a Stable group. `counts` are the partitions of its source topics and of every topic that is named
    like a changelog of the application; `ends` the end offsets of the latter, None: not known. `applications` are the
    ids of other applications of Streams.

    Raises TopologyError with the member, topic or subtopology that stands in the way.
    """
    threads = [_thread(member) for member in described]
    if not threads:
        raise TopologyError("the group has no members: start the application, with a Java leader")
    subscribed = _one_subscription(threads)
    owner = _subtopology_of(threads)
    _prove_complete(threads, subscribed, counts)
    sources: dict[int, list[str]] = defaultdict(list)
    for topic in subscribed:
        sources[owner[topic]].append(topic)
    sizes = {number: max(counts[t] for t in topics) for number, topics in sources.items()}
    stateful = {number for t in threads for number in _with_state(t, owner)} & sources.keys()
    stateless = _without_state(threads, owner) - stateful
    names = [t for t in counts if t.startswith(f"{application_id}-") and t.endswith(CHANGELOG) and t not in owner]
    puzzle = Puzzle(application_id, sources, sizes, stateful, stateless, frozenset(applications))
    sums = [pair for t in threads for pair in t.info.task_offset_sums]
    placed, notes = puzzle.solve({t: counts[t] for t in sorted(names)}, sums, ends or {})
    reused = puzzle.reused(placed, counts)
    return assembled(application_id, sources, placed, reused, [*notes, *_notes(stateful, stateless, sources)])


def _thread(member: AssignedMember) -> _Thread:
    """One member, decoded. What cannot be read cannot be learned from."""
    try:
        subscription = messages.ConsumerProtocolSubscription.decode(member.metadata)
        info = messages.SubscriptionInfo.decode(subscription.user_data or b"")
        partitions = messages.ConsumerProtocolAssignment.decode(member.assignment).partitions
    except RemoteProtocolError as error:
        raise TopologyError(f"member {member.member_id} cannot be read: {error}") from error
    given = assignment_info(member.assignment)
    if given is None or info.future:
        raise TopologyError(f"member {member.member_id} is no Streams thread of a version that is known")
    tasks = (*given.active_tasks, *(task for task, _ in (*given.standby_tasks, *info.task_offset_sums)))
    if any(task.topology is not None for task in tasks):
        raise TopologyError(f"member {member.member_id} uses named topologies, which are not led")
    if len(partitions) != len(given.active_tasks):
        raise TopologyError(f"member {member.member_id} has not one active task for each of its partitions")
    rank = {topic: i for i, topic in enumerate(java_sorted({tp.topic for tp in partitions}))}
    ordered = tuple(sorted(partitions, key=lambda tp: (rank[tp.topic], tp.partition)))
    topics = tuple(sorted(subscription.topics))
    return _Thread(member.member_id, topics, subscription.owned_partitions, info, ordered, given)


def _one_subscription(threads: Sequence[_Thread]) -> tuple[str, ...]:
    for thread in threads:
        if thread.topics != threads[0].topics:
            odd = sorted(set(thread.topics) ^ set(threads[0].topics))
            raise TopologyError(
                f"members {threads[0].member_id} and {thread.member_id} do not subscribe to the same topics"
                f" ({', '.join(odd[:3])}): wait until all run one version"
            )
    return threads[0].topics


def _subtopology_of(threads: Sequence[_Thread]) -> dict[str, int]:
    """Topic -> subtopology, from every active and standby task."""
    owner: dict[str, int] = {}
    pairs = [pair for t in threads for pair in zip(t.given.active_tasks, t.partitions, strict=True)]
    pairs += [(task, tp) for t in threads for task, held in t.given.standby_tasks for tp in held]
    for task, tp in pairs:
        if task.partition != tp.partition or owner.setdefault(tp.topic, task.subtopology) != task.subtopology:
            raise TopologyError(f"task {task} reads {tp.topic}-{tp.partition}, which contradicts other tasks")
    return owner


def _prove_complete(threads: Sequence[_Thread], subscribed: Sequence[str], counts: Mapping[str, int]) -> None:
    """Every partition of every subscribed topic has an owner: nothing that exists has not been seen."""
    held = {tp for t in threads for tp in t.partitions}
    for topic in subscribed:
        if topic not in counts:
            raise TopologyError(f"topic {topic} is subscribed but does not exist or cannot be read")
        missing = [p for p in range(counts[topic]) if TopicPartition(topic, p) not in held]
        if missing:
            raise TopologyError(f"{topic}-{missing[0]} is with no member now: try again when the group has settled")


def _with_state(thread: _Thread, owner: Mapping[str, int]) -> Iterable[int]:
    """Subtopologies that surely keep state. The sum of a task that the thread neither runs nor was given may come from
    a directory of an older version of the application."""
    held = {(owner[tp.topic], tp.partition) for tp in (*thread.owned, *thread.partitions) if tp.topic in owner}
    for task, value in thread.info.task_offset_sums:
        if value == messages.LATEST_OFFSET or task[:2] in held:
            yield task.subtopology
    yield from (task.subtopology for task, _ in thread.given.standby_tasks)


def _without_state(threads: Sequence[_Thread], owner: Mapping[str, int]) -> set[int]:
    """Subtopologies of which a task was running when its thread joined, and reported nothing."""
    reports: dict[object, set[tuple[int, int]]] = defaultdict(set)
    for thread in threads:
        reports[thread.info.process_id] |= {task[:2] for task, _ in thread.info.task_offset_sums}
    return {
        owner[tp.topic]
        for t in threads
        for tp in t.owned
        if tp.topic in owner and (owner[tp.topic], tp.partition) not in reports[t.info.process_id]
    }


@dataclass(frozen=True, slots=True)
class _Asked:
    """What names, sizes and states say of changelogs: `placed` have one place, `options` are the places of those that
    have several, `doubted` of those that may belong to nobody here. `notes` explain what is in none of them."""

    placed: dict[str, int | None]
    options: dict[str, list[int]] = field(default_factory=dict)
    doubted: dict[str, list[int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def open(self) -> dict[str, list[int]]:
        return self.options | self.doubted

    def choices(self, informed: Collection[int]) -> dict[str, Sequence[int | None]]:
        """What offsets may decide: doubts only where copies of these subtopologies report some."""
        doubts = {t: (*numbers, None) for t, numbers in self.doubted.items() if {*informed} & {*numbers}}
        return {**self.options, **doubts}


@dataclass(frozen=True, slots=True)
class Puzzle:
    """Which changelog belongs to which subtopology. `sizes` are numbers of tasks, `applications` the ids of others."""

    application_id: str
    sources: Mapping[int, Sequence[str]]
    sizes: Mapping[int, int]
    stateful: set[int]
    stateless: set[int]
    applications: frozenset[str] = frozenset()

    def solve(
        self, changelogs: Mapping[str, int], sums: Sequence[OffsetSum], ends: Ends, known: Mapping[str, int] = NOTHING
    ) -> tuple[dict[str, int | None], list[str]]:
        """(subtopology of each changelog, None where it is open; notes). Changelogs that fit nowhere are left out;
        `known` ones are not asked for again."""
        asked = self._asked(changelogs, known)
        choices = asked.choices({task.subtopology for task, value in sums if value > 0})
        guess = by_offsets(asked.placed, choices, sums, ends) if choices else {}
        notes = list(asked.notes)
        if guess:
            notes.append("changelogs were distinguished by their offsets: " + ", ".join(sorted(guess)))
        left = sorted(t for t, number in guess.items() if number is None)
        notes += [f"{topic} is taken for a leftover: copies have caught up without it" for topic in left]
        still = {topic: numbers for topic, numbers in asked.open.items() if topic not in guess}
        notes += [f"{topic} may belong to subtopology {_or(numbers)}" for topic, numbers in sorted(still.items())]
        return {t: n for t, n in (asked.placed | guess).items() if t not in left} | dict.fromkeys(still), notes

    def possible(
        self, changelogs: Mapping[str, int], sums: Sequence[OffsetSum], ends: Ends, known: Mapping[str, int]
    ) -> list[dict[str, int]]:
        """Every way to place the changelogs, or to take them for leftovers, in which nobody has read beyond an end, the
        likeliest first; [] where there are too many. Where state gets none, a source topic may serve as one."""
        asked = self._asked(changelogs, known)
        choices = {topic: (*numbers, None) for topic, numbers in asked.open.items()}
        if any(t not in ends for t in (*asked.placed, *choices)):
            sums = ()
        ranked = ranked_by_offsets(asked.placed, choices, [(task, value) for task, value in sums if value > 0], ends)
        whole = [{**asked.placed, **dict(zip(choices, choice, strict=True))} for _, _, choice in ranked]
        return [{topic: n for topic, n in way.items() if n is not None} for way in whole]

    def _asked(self, changelogs: Mapping[str, int], known: Mapping[str, int]) -> _Asked:
        asked = _Asked({**known})
        stores = {self._store(topic) for topic in (*changelogs, *known)}
        for topic, count in changelogs.items():
            if topic in known:
                continue
            same_size = self.same_size(count)
            fitting = [n for n in same_size if n not in self.stateless]
            by_name = [n for n in fitting if self._named_alike(topic, n)]
            if len(by_name) == 1:
                asked.placed[topic] = by_name[0]
            elif nobody := self._stranger(topic, same_size):
                asked.notes.append(nobody)
            elif twin := shorter_alike(self._store(topic), stores):
                asked.doubted[topic] = fitting or same_size
                asked.notes.append(self._doubt(topic, twin))
            elif len(fitting) == 1:
                asked.placed[topic] = fitting[0]
            else:
                asked.options[topic] = fitting or same_size
        return asked

    def _stranger(self, topic: str, same_size: Sequence[int]) -> str:
        """Why a changelog can be of no store of this application, "" where it can."""
        if not same_size:
            return f"{topic} fits no subtopology and is taken for a leftover"
        if other := owner_by_name(topic, self.application_id, self.applications):
            return f"{topic} is a changelog of the application {other}"
        if is_of_another_topic(self._store(topic), [t for topics in self.sources.values() for t in topics]):
            return f"{topic} is named after a topic that the application does not read, and is taken for a leftover"
        return ""

    def _doubt(self, topic: str, twin: str) -> str:
        other = f"{self.application_id}-{self._store(topic).removesuffix(f'-{twin}')}"
        return f"{topic} may be a changelog of another application, {other}, which has a store {twin} too"

    def same_size(self, partitions: int) -> list[int]:
        """The subtopologies with so many tasks."""
        return [number for number, size in sorted(self.sizes.items()) if size == partitions]

    def _named_alike(self, changelog: str, number: int) -> bool:
        """The store behind an aggregation gives its name to the repartition topic before it, a topic to the store of
        its table, and a foreign key's join its own to both."""
        store, mine = self._store(changelog), {self._bare(t) for t in self.sources[number]}
        if store + REPARTITION in mine:
            return True
        if table := TABLE.fullmatch(store):
            asked = _NUMBERED_STORE.fullmatch(store)
            return table[1] in self.sources[number] or (asked is not None and self._registration(asked[1]) in mine)
        subscriptions = _SUBSCRIPTIONS.fullmatch(store)
        return subscriptions is not None and subscriptions[1] + _REGISTRATION in mine

    def _registration(self, number: str) -> str:
        """The numbered topic of the join by foreign key whose store has this number: the last one before it."""
        topics = [self._bare(topic) for mine in self.sources.values() for topic in mine]
        found = {match[1]: match[0] for match in map(_NUMBERED_TOPIC.fullmatch, topics) if match}
        return max(((n, topic) for n, topic in found.items() if n < number), default=("", ""))[1]

    def _bare(self, topic: str) -> str:
        return topic.removeprefix(f"{self.application_id}-")

    def _store(self, changelog: str) -> str:
        return self._bare(changelog).removesuffix(CHANGELOG)

    def external(self, number: int) -> list[str]:
        """The source topics of a subtopology that are the users'."""
        return [t for t in self.sources[number] if not internal(self.application_id, t)]

    def reused(self, placed: Places, counts: Mapping[str, int]) -> dict[int, str]:
        """Stateful subtopologies without a changelog of their own: a source topic serves as one."""
        if None in placed.values():
            return {}
        found: dict[int, str] = {}
        for number in sorted(self.stateful - set(placed.values())):
            own = [t for t in self.external(number) if counts[t] == self.sizes[number]]
            if len(own) != 1:
                lines = f"; then write {_or([f'`- {t}`' for t in own])} under its StateChangelogTopics" if own else ""
                remedy = f"make the file from the text of Topology.describe() (bellwether topology parse){lines}"
                raise TopologyError(f"subtopology {number} keeps state, but no changelog of it is found: {remedy}")
            found[number] = own[0]
        return found


def internal(application_id: str, topic: str) -> bool:
    """Whether this source topic is the application's own, by its name."""
    return topic.startswith(f"{application_id}-") and named_internal(topic.removeprefix(f"{application_id}-"))


def _or(items: Iterable[object]) -> str:
    return " or ".join(map(str, items))


def assembled(
    application_id: str,
    sources: Mapping[int, Sequence[str]],
    placed: Places,
    reused: Mapping[int, str],
    notes: Sequence[str],
) -> Learned:
    subtopologies = []
    for number, topics in sorted(sources.items()):
        changelogs = sorted(t for t, n in placed.items() if n == number)
        changelogs += [reused[number]] if number in reused else []
        repartition = tuple(sorted(t for t in topics if internal(application_id, t)))
        named = tuple(sorted(topics))
        subtopologies.append(Subtopology(number, named, repartition_sources=repartition, changelogs=tuple(changelogs)))
    undecided = tuple(sorted(t for t, number in placed.items() if number is None))
    more = [f"source topic {t} serves as changelog of subtopology {n}" for n, t in reused.items()]
    if undecided:
        more.append(
            "move each changelog under UndecidedChangelogTopics to its subtopology, or remove it if"
            " the application has no such store, before leading with this"
        )
    return Learned(Topology(application_id, tuple(subtopologies), LEARNED, undecided=undecided), (*notes, *more))


def _notes(stateful: set[int], stateless: set[int], sources: Mapping[int, Sequence[str]]) -> list[str]:
    unknown = sorted(sources.keys() - stateful - stateless)
    if not unknown:
        return []
    listed = ", ".join(map(str, unknown))
    return [f"no member has reported yet whether subtopology {listed} keeps state: it does if it has a changelog here"]
