"""Compares two topologies of an application: which tasks are new, gone, or lose state, and what happens while members
of both versions are in the group (docs/reference/topology-file.md#another-version). Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from bellwether_kafka.assignors.streams.application import Subtopology, Topology
from bellwether_kafka.coordinator.names import listed

_LISTED = 5


class TopologyChange(StrEnum):
    """What happens to the tasks of a subtopology's number."""

    NEW = "new"
    GONE = "gone"
    CHANGED = "changed"


class Mixture(StrEnum):
    """What distinguishes the two versions while members of both are in the group."""

    NOTHING_DIFFERS = "nothing differs"
    STORES = "stores"
    SUBSCRIPTIONS = "subscriptions"
    NUMBERS = "numbers"


ROLLING = {
    Mixture.NOTHING_DIFFERS: "Both versions run the same tasks with the same state: Bellwether leads both together.",
    Mixture.STORES: (
        "Both versions subscribe to the same topics and number their tasks alike, so that Bellwether leads both"
        " together if topology_attested is set. Install the new file first: it is read without a restart, and new"
        " changelogs are made from it. By the old file nobody makes them, and tasks of new members wait until"
        " Bellwether has seen that and a member leads."
    ),
    Mixture.SUBSCRIPTIONS: (
        "The versions subscribe to different topics. While members of both are in the group Bellwether does not"
        " lead, and a Java member does, by its own topology. Bellwether leads again when all members run the"
        " version of its file, as adopt allows; install the new file at any time, it is read without a restart."
    ),
    Mixture.NUMBERS: (
        "Do not roll: stop all members of the old version, install the new file, and start the new version."
        " Nothing that members send shows which version they run, but tasks of the same number are not the same: a"
        " thread fails when it gets a task of the other version, under any leader. With the client tag"
        " bellwether.topology (the digest that topology show prints) Bellwether at least does not lead a mixture."
    ),
}


@dataclass(frozen=True, slots=True)
class SubtopologyChange:
    """What happens to the tasks of one subtopology number.

    `was`: the old number that had most of its sources, None if they are new. `begins_empty`: changelogs that the old
    version does not have. `restored`: changelogs that another subtopology had; the stores are restored from them.
    `loses`: changelogs of this number that the new version has nowhere.
    """

    id: int
    change: TopologyChange
    was: int | None = None
    reads: tuple[str, ...] = ()
    reads_no_longer: tuple[str, ...] = ()
    begins_empty: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    loses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Upgrade:
    """All differences between two topologies. Records in `repartition_gone` that have not been read yet are lost."""

    mixture: Mixture
    subtopologies: tuple[SubtopologyChange, ...] = ()
    repartition_new: tuple[str, ...] = ()
    repartition_gone: tuple[str, ...] = ()

    @property
    def rolling(self) -> str:
        """Sentences on what a rolling upgrade does."""
        return ROLLING[self.mixture]


def upgrade(old: Topology, new: Topology) -> Upgrade:
    """Compares `old` with `new`, both of one application."""
    ids = sorted({s.id for s in (*old.subtopologies, *new.subtopologies)})
    changes = (_change(old, new, number) for number in ids)
    before, after = {*old.repartition_topics}, {*new.repartition_topics}
    return Upgrade(
        _mixture(old, new),
        tuple(change for change in changes if change is not None),
        repartition_new=_sorted(after - before),
        repartition_gone=_sorted(before - after),
    )


def _mixture(old: Topology, new: Topology) -> Mixture:
    if old.digest == new.digest:
        return Mixture.NOTHING_DIFFERS
    if {*old.source_topics} != {*new.source_topics} or _patterns(old) != _patterns(new):
        return Mixture.SUBSCRIPTIONS
    same = dict(old.subtopology_of) == dict(new.subtopology_of) and {*old.patterns} == {*new.patterns}
    return Mixture.STORES if same else Mixture.NUMBERS


def _patterns(topology: Topology) -> set[str]:
    return {pattern for _, pattern in topology.patterns}


def _change(old: Topology, new: Topology, number: int) -> SubtopologyChange | None:
    """Returns the change of a subtopology number, None if nothing changes."""
    before, after = old.find(number), new.find(number)
    read, reads = _reads(old, before), _reads(new, after)
    had, has = {*(before.changelogs if before else ())}, {*(after.changelogs if after else ())}
    change = SubtopologyChange(
        number,
        TopologyChange.CHANGED if before and after else TopologyChange.NEW if after else TopologyChange.GONE,
        was=_was(old, reads, number) if after else None,
        reads=_sorted(reads - read),
        reads_no_longer=_sorted(read - reads),
        begins_empty=_sorted(has - {*old.changelogs}),
        restored=_sorted((has - had) & {*old.changelogs}),
        loses=_sorted(had - {*new.changelogs}),
    )
    return None if before and after and read == reads and had == has else change


def _reads(topology: Topology, part: Subtopology | None) -> set[str]:
    """Returns the source topics of a subtopology by name, and its patterns as `/pattern/`."""
    if part is None:
        return set()
    return {*part.sources, *(f"/{pattern}/" for number, pattern in topology.patterns if number == part.id)}


def _was(old: Topology, reads: set[str], number: int) -> int | None:
    shared = {part.id: len(reads & _reads(old, part)) for part in old.subtopologies}
    best = max(shared, key=lambda other: (shared[other], other == number), default=None)
    return best if best is not None and shared[best] else None


def _sorted(topics: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(topics))


def sentences(upgrade: Upgrade) -> list[str]:
    """Returns the differences as sentences, one for each line."""
    lines = [line for change in upgrade.subtopologies for line in _lines(change)]
    if upgrade.repartition_new:
        lines.append(f"new repartition topics: {listed(upgrade.repartition_new, _LISTED)}")
    if upgrade.repartition_gone:
        gone = listed(upgrade.repartition_gone, _LISTED)
        lines.append(f"repartition topics that nobody reads any more, what is unread in them is lost: {gone}")
    return lines or ["nothing that decides where tasks run or what they keep"]


def _lines(change: SubtopologyChange) -> Iterable[str]:
    here, tasks = f"subtopology {change.id}", f"tasks {change.id}_*"
    if change.change is TopologyChange.GONE:
        yield f"{here} is gone, and so are its {tasks}"
    elif change.change is TopologyChange.NEW:
        yield f"{here} is new, and so are its {tasks}"
    if change.was is not None and change.was != change.id:
        yield f"{here} was subtopology {change.was}: its tasks are not those that had the number before"
    changes = (
        ("reads", change.reads if change.change is not TopologyChange.GONE else ()),
        ("no longer reads", change.reads_no_longer if change.change is not TopologyChange.GONE else ()),
        ("begins with empty stores, without changelogs so far:", change.begins_empty),
        ("restores stores that another subtopology had:", change.restored),
        ("loses the state of", change.loses),
    )
    yield from (f"{here} {what} {listed(topics, _LISTED)}" for what, topics in changes if topics)
