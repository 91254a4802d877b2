"""Topology files that `topology parse` and `topology learn` write, held against what Kafka Streams itself creates: each
works unedited, or says what to write."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
import yaml

from bellwether_kafka.assignors.shared import AssignedMember
from bellwether_kafka.assignors.streams.application import (
    InternalTopic,
    Subtopology,
    Topology,
    TopologyError,
    parse_description,
)
from bellwether_kafka.coordinator.topology import (
    Learned,
    TopicDefaults,
    serving_candidates,
    with_existing,
    write_topology,
)
from bellwether_kafka.coordinator.topology.internal_topics import plan_internal_topics
from tests.kit.streams import Thread, group, led, read_topology
from tests.seeds import together
from tests.vectors.topologies import APPLICATION, Recorded, recorded

ALL = {case.name: case for case in recorded()}
COMPACTED = {"cleanup.policy": "compact"}
UNLEARNED = {"table with table, optimized", "processor with a read-only store"}
Made = dict[str, tuple[int, dict[str, str]]]


@dataclass(frozen=True)
class Written:
    """A file as it is on disk: what reads back, and the notes at its head."""

    topology: Topology
    notes: str

    @classmethod
    def of(cls, topology: Topology, notes: Sequence[str]) -> "Written":
        text = write_topology(topology, notes)
        head = "\n".join(line for line in text.splitlines() if line.startswith("#"))
        return cls(replace(read_topology(text), source="file"), head)


def once(make: Callable[[Recorded], Written]) -> Callable[[Recorded], Written]:
    """Each file is made and read once."""
    written: dict[str, Written] = {}

    def asked(case: Recorded) -> Written:
        if case.name not in written:
            written[case.name] = make(case)
        return written[case.name]

    return asked


@once
def parsed(case: Recorded) -> Written:
    """From the text alone."""
    described = parse_description(case.text, APPLICATION)
    return Written.of(described.topology, described.notes)


@once
def parsed_with_topics(case: Recorded) -> Written:
    """From the text and the topics of an application that has run."""
    counts = existing(case)
    described = parse_description(case.text, APPLICATION, counts)
    topology = with_existing(described.topology, counts, {t: configs for t, (_, configs) in case.created.items()})
    return Written.of(topology.topology, (*described.notes, *topology.notes))


@once
def learned(case: Recorded) -> Written:
    """From what a Java leader would have assigned, and the topics, all of which grow. Raises TopologyError."""
    return learned_from(case, busy=True)


@once
def learned_at_rest(case: Recorded) -> Written:
    """The same where nothing is written."""
    return learned_from(case, busy=False)


def learned_from(case: Recorded, *, busy: bool) -> Written:
    counts = existing(case)
    before, now = ({t: np.full(n, end, dtype=np.int64) for t, n in counts.items()} for end in (9, 10))
    topology = Learned.of(APPLICATION, running(case, counts), counts, now, earlier=before if busy else None)
    configs = {t: configs for t, (_, configs) in case.created.items()} | dict.fromkeys(case.serving, COMPACTED)
    with_topics = with_existing(topology.topology, counts, configs)
    return Written.of(
        with_topics.topology, (*topology.notes, *with_topics.notes, *serving_candidates(with_topics.topology, configs))
    )


def existing(case: Recorded) -> dict[str, int]:
    return case.counts | {topic: partitions for topic, (partitions, _) in case.created.items()}


def true_topology(case: Recorded) -> Topology:
    parts = [
        Subtopology(
            number,
            part.sources,
            tuple(t for t in part.sources if t in case.created),
            part.sinks,
            part.stores,
        )
        for number, part in case.parts.items()
    ]
    sizes = tuple(InternalTopic(topic, partitions) for topic, (partitions, _) in case.created.items())
    return Topology(APPLICATION, tuple(parts), "file", internal_topics=sizes)


def running(case: Recorded, counts: dict[str, int]) -> list[AssignedMember]:
    """Two members at rest, as a Java leader would have left them."""
    topology = true_topology(case)
    stateful = [s.id for s in topology.subtopologies if s.stateful]
    threads = tuple(Thread(m, p, topology.source_topics) for m, p in (("a", 1), ("b", 2)))
    first = led(group(*threads), topology=topology, counts=counts)
    threads = tuple(t.after(first, stateful) for t in threads)
    blobs = dict(led(group(*threads, generation=2), topology=topology, counts=counts).assignments)
    return [AssignedMember(t.member_id, None, t.raw.metadata, blobs[t.member_id]) for t in threads]


def made(topology: Topology, case: Recorded) -> Made:
    """What Bellwether would create for the application's very first start."""
    plan = plan_internal_topics(topology.resolved(case.counts), case.counts, TopicDefaults(configs=case.topic_configs))
    return {topic.name: (topic.partitions, dict(topic.configs)) for topic in plan.topics}


def check_shape(file: Written, case: Recorded, *, writers: bool) -> None:
    """The subtopologies, but for their stores, are what they are."""
    parts = {s.id: s for s in file.topology.resolved(case.counts).subtopologies}
    assert {n: {*s.sources} for n, s in parts.items()} == {n: {*p.sources} for n, p in case.parts.items()}
    internal = {t for t in case.created if any(t in p.sources for p in case.parts.values())}
    assert {*file.topology.repartition_topics} == internal
    if writers:
        assert {n: s.repartition_sinks for n, s in parts.items()} == {n: p.sinks for n, p in case.parts.items()}


class Editor:
    """Does to a file what its notes ask for, as far as the truth differs, and fails where they do not ask for it."""

    def __init__(self, file: Written, case: Recorded) -> None:
        self.file, self.case = file, case
        self.edits: list[str] = []

    def announced(self, text: str) -> None:
        assert text in self.file.notes, f"nothing says: {text}\n{self.file.notes}"
        self.edits.append(text)

    def topology(self) -> Topology:
        file_topology = self.file.topology
        parts = tuple(
            replace(s, changelogs=self.stores(s), copartition_groups=self.groups(s))
            for s in file_topology.subtopologies
        )
        kept = {topic.name: topic for topic in file_topology.internal_topics}
        whole = replace(file_topology, subtopologies=parts, undecided=())
        asked = re.search(r"write Partitions of (.*)", self.file.notes)
        for name in asked[1].split(", ") if asked is not None else ():
            partitions = self.case.created[name][0]
            if made(whole, self.case)[name][0] != partitions:
                self.edits.append(name)
                kept[name] = replace(kept.get(name, InternalTopic(name)), partitions=partitions)
                whole = replace(whole, internal_topics=tuple(kept.values()))
        own = made(whole, self.case)
        for name, truth in self.case.created.items():
            if own.get(name) != truth:
                self.described(name, truth[1])
                kept[name] = InternalTopic(name, configs=tuple(truth[1].items()))
        return replace(whole, internal_topics=tuple(kept.values()))

    def clean(self) -> bool:
        """Whether there is nothing to do."""
        self.topology()
        return not self.edits

    def stores(self, part: Subtopology) -> tuple[str, ...]:
        truth = self.case.parts[part.id].stores
        for store in sorted({*truth} - {*part.changelogs}):
            if store in self.file.topology.undecided:
                hit = re.search(rf"{re.escape(store)} may belong to subtopology ([\d or]+)", self.file.notes)
                assert hit is not None
                assert str(part.id) in hit[1].split(" or ")
                self.edits.append(store)
            else:
                self.announced(f"write `- {store}`")
        for store in sorted({*part.changelogs} - {*truth}):
            general = "all stores are taken to be logged: remove the changelogs of those that are not"
            self.announced(f"remove `- {store}`" if f"remove `- {store}`" in self.file.notes else general)
        return truth

    def groups(self, part: Subtopology) -> tuple[tuple[str, ...], ...]:
        """Those that Kafka has not, and that would change a size, are guesses."""
        for topics in part.copartition_groups:
            if topics not in self.case.groups and len({existing(self.case)[t] for t in topics}) > 1:
                self.announced("remove the entry of CopartitionGroups")
                return ()
        return part.copartition_groups

    def described(self, name: str, configs: Mapping[str, str]) -> None:
        """Some line of the notes fits; configs that the application gave its store by hand come on top."""
        assert name in self.file.notes
        lines = (yaml.safe_load(re.sub(r"<[^>]*>", "0", line)) for line in re.findall(r"`(- .*?)`", self.file.notes))
        reported = [
            line[0]["TopicConfigs"] for line in lines if isinstance(line[0], dict) and line[0]["Name"] in ("NAME", name)
        ]
        fitting = [
            t for t in reported if t.keys() <= configs.keys() and t["cleanup.policy"] == configs["cleanup.policy"]
        ]
        needed = {"retention.ms", "min.compaction.lag.ms"} & configs.keys()
        assert any(needed <= line.keys() for line in fitting), f"no line for {name}\n{self.file.notes}"
        self.edits.append(name)


def test_the_corpus_is_worth_its_name() -> None:
    assert len(ALL) >= 100
    assert len(ALL) == len([*recorded()])


@together("case", ALL, parts=20, quick=2)
def test_a_text_alone_gives_the_file_or_the_lines_to_write(case: Recorded) -> None:
    file = parsed(case)
    check_shape(file, case, writers=True)
    assert made(Editor(file, case).topology(), case) == case.created


@together("case", ALL, parts=20, quick=2)
def test_a_text_shows_which_topics_are_joined(case: Recorded) -> None:
    """Those of the user's included: with equally many partitions each, or Kafka Streams fails the application."""
    groups = [*case.groups]
    for part in parsed(case).topology.subtopologies:
        for topics in part.copartition_groups:
            guessed = "remove the entry of CopartitionGroups" in parsed(case).notes
            assert guessed or any({*topics} <= {*group} for group in groups), topics


@together("case", ALL, parts=20, quick=2)
def test_a_text_and_topics_that_exist_give_a_file_that_works(case: Recorded) -> None:
    """Unedited, but where no internal topic exists: then stores may be logged anywhere, or not at all."""
    file = parsed_with_topics(case)
    check_shape(file, case, writers=True)
    editor = Editor(file, case)
    assert made(editor.topology(), case) == case.created
    assert not editor.edits or not case.created


@together("case", {name: case for name, case in ALL.items() if name not in UNLEARNED}, parts=20, quick=2)
def test_a_running_application_gives_a_file_that_works(case: Recorded) -> None:
    """Unedited, but for changelogs that may be of several subtopologies, and source topics that serve beside others."""
    file = learned(case)
    check_shape(file, case, writers=False)
    editor = Editor(file, case)
    assert made(editor.topology(), case) == case.created
    assert {*editor.edits} <= {*file.topology.undecided} | {f"write `- {topic}`" for topic in case.serving}


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in recorded() if case.name in UNLEARNED])
def test_where_several_source_topics_may_serve_nothing_is_learned(case: Recorded) -> None:
    with pytest.raises(TopologyError, match=r"bellwether topology parse\); then write `- t` or `- u` under"):
        learned(case)


@pytest.mark.slow
def test_how_many_files_work_unedited() -> None:
    """Of a hundred. A text alone shows neither windows nor logging, so that few are complete."""

    def unedited(case: Recorded, file: Written) -> bool:
        return Editor(file, case).clean()

    cases = [case for case in recorded() if case.name not in UNLEARNED]
    assert sum(unedited(case, parsed(case)) for case in cases) >= 16
    assert sum(unedited(case, parsed_with_topics(case)) for case in cases) >= 93
    assert sum(unedited(case, learned(case)) for case in cases) >= 87
    assert sum(not learned(case).topology.undecided for case in cases) >= 90
    assert sum(not learned_at_rest(case).topology.undecided for case in cases) >= 78
