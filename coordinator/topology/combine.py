"""Combines what is known of a running application into one topology. The text of Topology.describe() shows where each
store belongs, the cluster's topics show which stores have changelogs, and the members show what they run. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from bellwether_kafka.assignors.streams.application import DescribedSubtopology, Topology, TopologyError
from bellwether_kafka.coordinator.topology.learn import Learned

_VERSION = "the text is of another version or configuration than the members"
_USED = f", but it is in use: {_VERSION}, or it belongs to another application"


def serving(topology: Topology) -> Mapping[int, str]:
    """Returns the source topic that serves as the only changelog of a subtopology, by subtopology."""
    return {
        s.id: s.changelogs[0] for s in topology.subtopologies if len(s.changelogs) == 1 and s.changelogs[0] in s.sources
    }


def combined(described: DescribedSubtopology, learned: Learned) -> Learned:
    """Returns the topology of the text, if the members run it. A changelog that is written to but has no store in the
    text is undecided. Raises TopologyError if the members run something else."""
    topology = described.topology.resolved(learned.topology.source_topics)
    _compare(topology, learned.topology)
    expected = {*topology.changelogs, *topology.source_topics, *learned.by_size}
    written = [t for t in learned.topology.changelogs if t not in expected]
    notes = (*described.notes, *(f"{t} is of no store in the text{_USED}" for t in written))
    for number in sorted(learned.stateful):
        part = topology.find(number)
        if part is not None and not part.changelogs:
            raise TopologyError(
                f"subtopology {number} keeps state, but no store of it in the text has a changelog: {_VERSION}"
            )
    return replace(learned, topology=replace(described.topology, undecided=tuple(written)), notes=notes)


def _compare(text: Topology, members: Topology) -> None:
    for number in sorted({s.id for s in (*text.subtopologies, *members.subtopologies)}):
        described, run = text.find(number), members.find(number)
        if described is None:
            raise TopologyError(f"members run tasks of subtopology {number}, which the text does not have: {_VERSION}")
        if run is None:
            raise TopologyError(f"members run no task of subtopology {number}, which the text contains: {_VERSION}")
        if extra := sorted({*run.sources} - {*described.sources}):
            raise TopologyError(
                f"subtopology {number} of the members reads {extra[0]}, in the text it does not: {_VERSION}"
            )
        if lacking := sorted({*described.sources} - {*run.sources}):
            raise TopologyError(f"subtopology {number} of the text reads {lacking[0]}, the members do not: {_VERSION}")
