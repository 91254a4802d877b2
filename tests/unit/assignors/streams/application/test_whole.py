"""Texts of Topology.describe() of which a part is missing."""

import re

import pytest

from bellwether_kafka.assignors.streams.application import DescribedSubtopology, TopologyError, parse_description
from tests.seeds import together
from tests.vectors.topologies import Recorded, recorded

ALL = {case.name: case for case in recorded()}
TWO = next(case.text for case in recorded() if case.name == "count by another key")


def parsed(text: str) -> DescribedSubtopology | None:
    """None where the text is refused as one that is not whole, or has a line cut."""
    try:
        return parse_description(text, "app")
    except TopologyError:
        return None


def shape(described: DescribedSubtopology) -> object:
    topology = described.topology
    return topology.digest, topology.changelogs, [s.copartition_groups for s in topology.subtopologies]


@together("case", ALL, parts=20, quick=5)
def test_a_text_without_its_end_is_refused(case: Recorded) -> None:
    """But for one that ends with a whole subtopology that exchanges no topic with others: then a note says so."""
    whole, lines = parse_description(case.text, "app"), case.text.rstrip("\n").split("\n")
    for n in range(1, len(lines)):
        cut = parsed("\n".join(lines[:n]) + "\n")
        if cut is not None and shape(cut) != shape(whole):
            assert not lines[n - 1] or not lines[n], lines[n - 1]
            assert any("because the rest may be cut off" in note for note in cut.notes)


@together("case", ALL, parts=20, quick=5)
def test_a_text_without_one_of_its_lines_is_refused(case: Recorded) -> None:
    whole, lines = parse_description(case.text, "app"), case.text.split("\n")
    for n, line in enumerate(lines):
        cut = parsed("\n".join([*lines[:n], *lines[n + 1 :]]))
        assert cut is None or shape(cut) == shape(whole), line


@together("case", ALL, parts=20, quick=5)
def test_a_text_without_its_beginning_is_refused(case: Recorded) -> None:
    lines = case.text.rstrip("\n").split("\n")
    for n in range(2, len(lines)):
        assert parsed("\n".join(lines[n:]) + "\n") is None


@together("case", ALL, parts=20, quick=5)
def test_a_text_that_ends_within_a_line_is_refused(case: Recorded) -> None:
    last = case.text.rstrip("\n")
    for cut in (1, 5, 9):
        assert parsed(last[:-cut]) is None or last.endswith("--> none"), last[-40:]


@together("case", ALL, parts=20, quick=5)
def test_a_text_that_ends_with_an_arrow_is_refused(case: Recorded) -> None:
    """Kafka Streams writes "none" where nothing follows."""
    for arrow in re.finditer("-->|<--|,", case.text):
        for cut in (case.text[: arrow.end()], case.text[: arrow.end()] + " "):
            assert parsed(cut) is None, cut[-60:]


def test_a_named_topology_is_not_led() -> None:
    with pytest.raises(TopologyError, match="line 1 is of the named topology 'orders', and these are not led"):
        parse_description(TWO.replace("Topologies:", "Topology: orders:"), "app")


@together("case", ALL, parts=20, quick=5)
def test_an_indented_text_with_a_byte_order_mark_is_the_same(case: Recorded) -> None:
    indented = "\ufeff" + re.sub("^", "  \t", case.text, flags=re.MULTILINE).replace("\n", "\r\n")
    assert parse_description(indented, "app") == parse_description(case.text, "app")


@pytest.mark.parametrize(
    ("pattern", "missing"),
    [
        (r" *(-->|<--).*\n", r"has no line -->"),
        (r" *<--.*\n", r"KSTREAM-KEY-SELECT-\d+ of subtopology 0 does not name KSTREAM-SOURCE-\d+ behind <--"),
        (r" *Processor: KSTREAM-AGGREGATE.*\n.*\n.*\n", r"subtopology 1 has no KSTREAM-AGGREGATE-\d+, which"),
        (r"  Sub-topology: 1(.*\n)+", r"no subtopology reads KSTREAM-AGGREGATE-STATE-STORE-\d+-repartition"),
        (r"   Sub-topology: 0\n(.+\n)+", r"subtopology 0 is missing"),
        (r"  Sub-topology: 1\n", r"is not connected with the rest of subtopology 0"),
    ],
    ids=["no arrows", "half of the arrows", "no processor", "no end", "no beginning", "no header"],
)
def test_the_sentence_says_what_is_missing(pattern: str, missing: str) -> None:
    with pytest.raises(TopologyError, match=f"the description is not whole, .*{missing}"):
        parse_description(re.sub(pattern, "", TWO), "app")


def test_a_node_that_is_there_twice_is_refused() -> None:
    node = "    Source: s (topics: [t])\n      --> none\n"
    with pytest.raises(TopologyError, match="node s of subtopology 0 is there twice"):
        parse_description(f"Topologies:\n   Sub-topology: 0\n{node}{node}", "app")


def test_a_topic_of_the_users_may_be_named_as_a_repartition_topic_and_have_no_reader() -> None:
    text = """Topologies:
   Sub-topology: 0
    Source: s (topics: [t])
      --> KSTREAM-SINK-0000000001
    Sink: KSTREAM-SINK-0000000001 (topic: by-user-repartition)
      <-- s
"""
    with pytest.raises(TopologyError, match="no subtopology reads by-user-repartition, which KSTREAM-SINK-0000000001"):
        parse_description(text, "app")
    assert parse_description(text, "app", {"t", "by-user-repartition"}).topology.repartition_topics == ()


def test_a_name_with_a_comma_is_the_reason_and_not_a_text_that_is_cut_off() -> None:
    """Of a whole text it was said to copy the whole text."""
    text = (
        "Topologies:\n   Sub-topology: 0\n    Source: src (topics: [orders])\n      --> enrich, v2\n"
        "    Processor: enrich, v2 (stores: [])\n      --> out\n      <-- src\n"
        "    Sink: out (topic: enriched)\n      <-- enrich, v2\n"
    )
    with pytest.raises(TopologyError) as raised:
        parse_description(text, "app")
    assert "'enrich, v2' (subtopology 0)" in str(raised.value)
    assert "copy the whole text" not in str(raised.value)
