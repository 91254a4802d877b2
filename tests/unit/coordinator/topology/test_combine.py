"""A topology from the text of a description, the topics of the cluster and what members run, together."""

from dataclasses import replace

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import LongArray
from bellwether_kafka.assignors.streams.application import (
    DescribedSubtopology,
    Subtopology,
    Topology,
    TopologyError,
    parse_description,
)
from bellwether_kafka.coordinator.topology import Learned, combined, serving
from tests.unit.coordinator.topology.live_groups import live

TEXT = """Topologies:
   Sub-topology: 0
    Source: a (topics: [t])
      --> counts
    Processor: counts (stores: [s])
      --> none
      <-- a
  Sub-topology: 1
    Source: b (topics: [u])
      --> sums
    Processor: sums (stores: [r])
      --> none
      <-- b
"""
S, R, LEFT = "app-s-changelog", "app-r-changelog", "app-q-changelog"
TRUE = Topology("app", (Subtopology(0, ("t",), changelogs=(S,)), Subtopology(1, ("u",), changelogs=(R,))), "file")
COUNTS = {"t": 2, "u": 2, S: 2, R: 2, LEFT: 2}


def shown(
    true: Topology = TRUE, counts: dict[str, int] = COUNTS, stateful: tuple[int, ...] = (0, 1), **more: object
) -> Learned:
    return Learned.of("app", live(true, counts, stateful=stateful), counts, **more)  # type: ignore[arg-type]  # see below


def described(text: str = TEXT, counts: dict[str, int] = COUNTS) -> DescribedSubtopology:
    return parse_description(text, "app", counts)


def test_the_text_says_where_stores_belong_that_members_cannot() -> None:
    learned = shown()
    assert learned.topology.undecided == (LEFT, R, S)
    combination = combined(described(), learned)
    assert combination.topology.digest == TRUE.digest
    assert combination.topology.undecided == ()
    assert any(f"the text has no store or repartition topic of {LEFT}" in note for note in combination.notes)


def test_what_grows_and_is_in_no_text_is_undecided_and_named() -> None:
    topology = Topology("app", (Subtopology(0, ("t",), changelogs=(S, LEFT)),), "file")
    counts = {"t": 2, S: 2, LEFT: 2}
    text = TEXT[: TEXT.index("  Sub-topology: 1")]
    ends: dict[str, LongArray] = {t: np.array([9, 9]) for t in (S, LEFT)}
    earlier: dict[str, LongArray] = {t: np.array([5, 9]) for t in (S, LEFT)}
    combination = combined(described(text, counts), shown(topology, counts, (0,), ends=ends, earlier=earlier))
    assert (combination.topology.changelogs, combination.topology.undecided) == ((S,), (LEFT,))
    assert any(note.startswith(f"{LEFT} is of no store in the text, but it is in use") for note in combination.notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEXT[: TEXT.index("  Sub-topology: 1")], "members run tasks of subtopology 1, which the text does not have"),
        (TEXT.replace("[u]", "[w]"), "subtopology 1 of the members reads u, in the text it does not"),
        (TEXT.replace("[u]", "[u, w]"), "subtopology 1 of the text reads w, the members do not"),
        (TEXT.replace("[r]", "[]"), "subtopology 1 keeps state, but no store of it in the text has a changelog"),
    ],
)
def test_a_text_of_another_version_is_refused(text: str, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        combined(described(text, {**COUNTS, "w": 2}), shown())


def test_a_source_topic_of_several_that_serves_is_taken_from_the_text() -> None:
    """Members alone cannot say which of two it is."""
    true = Topology("app", (Subtopology(0, ("t", "u"), changelogs=("t",)),), "file")
    counts = {"t": 2, "u": 2}
    with pytest.raises(TopologyError, match="keeps state, but no changelog of it is found"):
        shown(true, counts, (0,))
    page = shown(true, counts, (0,), serving=serving(true))
    reported = DescribedSubtopology(replace(true, source="description"))
    assert combined(reported, page).topology.digest == true.digest
