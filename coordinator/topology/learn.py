"""Learns a topology from a live group: from the DescribeGroups answer for a Stable group that a Java member leads.

The assignments prove which source topics belong to which subtopology, and that none is missing. The offset sums show
which subtopologies are stateful. No message says which subtopology owns a changelog: that is concluded from names,
partition counts and end offsets. If these are not enough, the changelog is left `undecided`, and an operator has to
place it (docs/internals/streams.md#the-topology-is-not-on-the-wire). Pure.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bellwether_kafka.assignors.shared import AssignedMember
from bellwether_kafka.assignors.streams.application import (
    CHANGELOG,
    LEARNED,
    Subtopology,
    Topology,
    TopologyError,
)
from bellwether_kafka.assignors.streams.members import assignment_info
from bellwether_kafka.coordinator.topology.changelog_search import NONE_SERVES, ChangelogSearch, grown, internal
from bellwether_kafka.coordinator.topology.offset_fit import Ends, OffsetSum, Places
from bellwether_kafka.protocol import messages
from bellwether_kafka.protocol.primitives import RemoteProtocolError, TaskId, TopicPartition, java_sorted

RUNNING_SINCE = 7  # from this version on a task that runs is reported as such


@dataclass(frozen=True, slots=True)
class Learned:
    """A topology. `notes` are sentences on how it was concluded and what is open.

    `by_size`: changelogs that were placed by their size alone, which may be leftovers. `stateful`: subtopologies for
    which members report state. `ends`: the end offsets used, None if unknown. `not_run`: tasks with state that members
    had when they joined and did not run, by member id.
    """

    topology: Topology
    notes: tuple[str, ...] = ()
    by_size: frozenset[str] = frozenset()
    stateful: frozenset[int] = frozenset()
    ends: Ends | None = None
    not_run: tuple[tuple[str, TaskId], ...] = ()

    @classmethod
    def of(
        cls,
        application_id: str,
        described: Sequence[AssignedMember],
        counts: Mapping[str, int],
        ends: Ends | None = None,
        applications: Collection[str] = (),
        earlier: Ends | None = None,
        serving: Mapping[int, str] = NONE_SERVES,
    ) -> "Learned":
        """Returns the topology of a Stable group.

        `counts`: the partitions of its source topics and of every topic that is named like a changelog of the
        application. `ends`: the end offsets of the latter, None if unknown. `applications`: ids of other Streams
        applications. `earlier`: end offsets of some time before. `serving`: the source topics known to serve as
        changelogs, by subtopology. Raises TopologyError, which names the member, topic or subtopology at fault.
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
        written = grown(earlier or {}, ends or {})
        search = ChangelogSearch(application_id, sources, sizes, stateful, stateless, frozenset(applications), written)
        placed, notes = search.solve(
            {t: counts[t] for t in sorted(names)}, _sums_of_own_tasks(threads, owner), ends or {}
        )
        reused = search.reused(placed, counts, serving)
        notes = [*notes, *_notes(stateful, stateless, sources)]
        learned = assembled(application_id, sources, placed, reused, notes)
        by_size = frozenset(t for t, n in placed.items() if n is not None and not search.proven(t, n, placed))
        not_run = tuple(pair for thread in threads for pair in _not_run(thread, owner))
        return replace(learned, by_size=by_size, stateful=frozenset(stateful), ends=ends, not_run=not_run)


@dataclass(frozen=True, slots=True)
class _Thread:
    """A member, decoded. `partitions` are in the order of the active tasks in `given`."""

    member_id: str
    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...]
    info: messages.SubscriptionInfo
    partitions: tuple[TopicPartition, ...]
    given: messages.AssignmentInfo


def _thread(member: AssignedMember) -> _Thread:
    """Decodes one member. Raises TopologyError if nothing can be learned from it."""
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
        raise TopologyError(f"member {member.member_id} uses named topologies, which Bellwether does not lead")
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
    """Returns the subtopology of each topic, from all active and standby tasks."""
    owner: dict[str, int] = {}
    pairs = [pair for t in threads for pair in zip(t.given.active_tasks, t.partitions, strict=True)]
    pairs += [(task, tp) for t in threads for task, partitions in t.given.standby_tasks for tp in partitions]
    for task, tp in pairs:
        if task.partition != tp.partition or owner.setdefault(tp.topic, task.subtopology) != task.subtopology:
            raise TopologyError(f"task {task} reads {tp.topic}-{tp.partition}, which contradicts other tasks")
    return owner


def _prove_complete(threads: Sequence[_Thread], subscribed: Sequence[str], counts: Mapping[str, int]) -> None:
    """Raises TopologyError unless every partition of every subscribed topic has an owner: no task is missing."""
    owned = {tp for t in threads for tp in t.partitions}
    for topic in subscribed:
        if topic not in counts:
            raise TopologyError(f"topic {topic} is subscribed but does not exist or cannot be read")
        missing = [p for p in range(counts[topic]) if TopicPartition(topic, p) not in owned]
        if missing:
            raise TopologyError(f"{topic}-{missing[0]} is with no member now: try again when the group has settled")


def _with_state(thread: _Thread, owner: Mapping[str, int]) -> Iterable[int]:
    """Yields the subtopologies that certainly keep state. The sum of a task that the thread neither runs nor was
    assigned does not count: it may come from a directory of an older version of the application."""
    tasks = _tasks_of(thread, owner)
    for task, value in thread.info.task_offset_sums:
        if value == messages.LATEST_OFFSET or task[:2] in tasks:
            yield task.subtopology
    yield from (task.subtopology for task, _ in thread.given.standby_tasks)


def _not_run(thread: _Thread, owner: Mapping[str, int]) -> Iterable[tuple[str, TaskId]]:
    """Yields the tasks that the thread owned when it joined and did not run, by the offsets that it reported."""
    owned = {(owner[tp.topic], tp.partition) for tp in thread.owned if tp.topic in owner}
    if thread.info.version >= RUNNING_SINCE:
        yield from (
            (thread.member_id, task)
            for task, value in thread.info.task_offset_sums
            if task[:2] in owned and value != messages.LATEST_OFFSET
        )


def _tasks_of(thread: _Thread, owner: Mapping[str, int]) -> set[tuple[int, int]]:
    """Returns the tasks that a thread has run or was assigned, as (subtopology, partition)."""
    return {(owner[tp.topic], tp.partition) for tp in (*thread.owned, *thread.partitions) if tp.topic in owner}


def _sums_of_own_tasks(threads: Sequence[_Thread], owner: Mapping[str, int]) -> list[OffsetSum]:
    """Returns the offset sums that processes report of the tasks and standbys they have. Other sums may belong to
    stores that the application no longer has."""
    tasks_by_process: dict[object, set[tuple[int, int]]] = defaultdict(set)
    for thread in threads:
        copies = {task[:2] for task, _ in thread.given.standby_tasks}
        tasks_by_process[thread.info.process_id] |= _tasks_of(thread, owner) | copies
    sums = [(t.info.process_id, pair) for t in threads for pair in t.info.task_offset_sums]
    return [pair for process, pair in sums if pair[0][:2] in tasks_by_process[process]]


def _without_state(threads: Sequence[_Thread], owner: Mapping[str, int]) -> set[int]:
    """Returns subtopologies with a task that ran when its thread joined but whose process reported no state of it."""
    reports: dict[object, set[tuple[int, int]]] = defaultdict(set)
    for thread in threads:
        reports[thread.info.process_id] |= {task[:2] for task, _ in thread.info.task_offset_sums}
    return {
        owner[tp.topic]
        for t in threads
        for tp in t.owned
        if tp.topic in owner and (owner[tp.topic], tp.partition) not in reports[t.info.process_id]
    }


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
