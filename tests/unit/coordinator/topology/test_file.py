"""Topology files, learning from a group, creation plans and the commands."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from bellwether_kafka.assignors.streams.application import InternalTopic, Subtopology, Topology, TopologyError
from bellwether_kafka.coordinator.cli import app
from bellwether_kafka.coordinator.topology import load_topology, write_topology
from bellwether_kafka.coordinator.topology.internal_topics import (
    CHANGELOG_CONFIGS,
    REPARTITION_CONFIGS,
    TopicPlan,
    plan_internal_topics,
)
from tests.kit.streams import CHANGELOG, REPARTITION, SHOP, SHOP_COUNTS, SHOP_TEXT, exported, read_topology

WINDOWED = (("cleanup.policy", "compact,delete"), ("retention.ms", "90000000"))


KEY_VALUE_LINE = f"- {{Name: {CHANGELOG}, TopicConfigs: {{cleanup.policy: compact}}}}"


WINDOWED_LINE = (
    f'{{Name: {CHANGELOG}, TopicConfigs: {{cleanup.policy: "compact,delete",'
    " retention.ms: <milliseconds: retention of the store + 86400000>}}"
)


FULL = Topology(
    "shop",
    (
        SHOP.subtopologies[0],
        replace(SHOP.subtopologies[1], sources=("users", REPARTITION), copartition_groups=((REPARTITION, "users"),)),
        Subtopology(5, ()),
    ),
    "file",
    internal_topics=(
        InternalTopic(REPARTITION, 4, 3, (("retention.ms", "-1"),)),
        InternalTopic(CHANGELOG, None, -1, (("cleanup.policy", "compact,delete"), ("retention.ms", "90000000"))),
    ),
    patterns=((5, "in-.*"),),
    undecided=("shop-x-changelog",),
)


def test_a_file_reads_back() -> None:
    text = write_topology(FULL, ["learned from a group"])
    assert text.startswith("# learned from a group\nApplicationId: shop\n")
    assert read_topology(text) == FULL


@pytest.mark.parametrize("text", [exported(), exported().replace("\n", "\r\n"), f"# Ours.\n\n{exported()}"])
def test_an_exported_file_says_how_it_came_about(text: str) -> None:
    origin = read_topology(text).exported
    assert origin is not None
    assert (origin.streams_version, origin.in_memory_stores) == ("4.3.0", ("totals",))


def test_the_origin_of_an_exported_file_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(exported())
    shown = CliRunner().invoke(app, ["topology", "show", str(file)]).stdout
    assert "\nexported by Kafka Streams 4.3.0\nin memory   totals\nsubtopology 0" in shown


def test_an_exported_file_that_was_edited_or_cut_off_is_not_used() -> None:
    whole = exported()
    cut = whole[: whole.index('  - SubtopologyId: "1"')]
    for text in (cut, whole.replace("orders", "order")):
        with pytest.raises(TopologyError, match="edited or lacks some; export it again"):
            read_topology(text)
    without = "".join(line for line in cut.splitlines(keepends=True) if "Digest" not in line)
    assert read_topology(without).exported is None


def with_changelogs(items: str) -> str:
    part = f"{{SubtopologyId: 0, SourceTopics: [t], StateChangelogTopics: [{items}]}}"
    return f"ApplicationId: a\nSubtopologies: [{part}]"


def test_a_changelog_that_is_listed_twice_is_one() -> None:
    """Its records counted twice, so that no copy ever caught up."""
    topology = read_topology(with_changelogs("c, {Name: c, TopicConfigs: {a: 1}}"))
    assert topology.subtopologies[0].changelogs == ("c",)
    assert topology.internal("c") == InternalTopic("c", configs=(("a", "1"),))


def test_json_and_short_forms_are_read() -> None:
    text = """{"ApplicationId": "shop", "Subtopologies": [
        {"SubtopologyId": 0, "SourceTopics": ["orders"], "RepartitionSinkTopics": ["shop-by-user-repartition"]},
        {"SubtopologyId": "1", "RepartitionSourceTopics": ["shop-by-user-repartition"],
         "StateChangelogTopics": [{"Name": "shop-totals-changelog", "TopicConfigs": {"preallocate": true}}]}]}"""
    topology = read_topology(text)
    assert topology.digest == SHOP.digest
    assert topology.internal(CHANGELOG) == InternalTopic(CHANGELOG, None, -1, (("preallocate", "true"),))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a mapping"),
        ("[1", "no YAML in line 1"),
        ("a: !!python/object:os.system {}", "no YAML"),
        ("Subtopologies: []", "ApplicationId is missing"),
        ("ApplicationId: a\nTypo: 1", "unknown key Typo"),
        ("ApplicationId: a\nSubtopologies: 5", "not a list"),
        ("ApplicationId: a\nSubtopologies:\n", "Subtopologies is missing or empty"),
        ("ApplicationId: a\n", "Subtopologies is missing or empty"),
        (
            "ApplicationId: a\nSubtopologies:\n- SubtopologyId: 0\n  SourceTopics: [t]\n  SourceTopics: [u]\n",
            "the key SourceTopics twice in one mapping, again in line 5",
        ),
        ("ApplicationId: a\nSubtopologies: [{SubtopologyId: x}]", "no number"),
        ("ApplicationId: a\nSubtopologies: [{SubtopologyId: 0, SourceTopics: [5]}]", "not a list of names"),
        ("ApplicationId: a\nSubtopologies: [{SubtopologyId: 0}]", "subtopology 0 has no source topic"),
        (
            "ApplicationId: a\nSubtopologies: [{SubtopologyId: 0, SourceTopics: [t], StateChangelogTopics: [{}]}]",
            "has no Name",
        ),
        (
            "ApplicationId: a\nSubtopologies: [{SubtopologyId: 0, StateChangelogTopics: [{Name: c, Partitions: p}]}]",
            "Partitions of c",
        ),
        (
            "ApplicationId: a\nSubtopologies: [{SubtopologyId: 0, CopartitionGroups: [{SourceTopics: [0]}]}]",
            "index 0 of 0 topics",
        ),
        (with_changelogs("{Name: c, TopicConfigs: {cleanup.policy: [compact, delete]}}"), "is no value of a config"),
        (with_changelogs("{Name: c, TopicConfigs: {retention.ms: }}"), "retention.ms of c is None, which is no value"),
        (
            with_changelogs("{Name: c, TopicConfigs: {a: 1}}, {Name: c, TopicConfigs: {a: 2}}"),
            "topic c is described twice, and differently",
        ),
    ],
)
def test_a_wrong_file_is_one_sentence(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "topology.yaml"
    path.write_text(text)
    with pytest.raises(TopologyError, match=message) as caught:
        load_topology(path)
    assert str(path) in str(caught.value)


def test_a_file_with_a_byte_order_mark_is_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "plain.yaml").write_text(exported())
    (tmp_path / "marked.yaml").write_text(exported(), encoding="utf-8-sig", newline="\r\n")
    assert load_topology(tmp_path / "marked.yaml") == load_topology(tmp_path / "plain.yaml")


def test_a_file_in_another_encoding_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(exported(), encoding="utf-16")
    with pytest.raises(TopologyError, match=r"shop\.yaml is no text in UTF-8; save it as one"):
        load_topology(path)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(TopologyError, match="cannot be read"):
        load_topology(Path("missing.yaml"))


# ---- internal topics -----------------------------------------------------------------------------------------------


def test_missing_topics_are_planned_with_the_configs_of_streams() -> None:
    described = replace(SHOP, internal_topics=(InternalTopic(CHANGELOG, None, 2, WINDOWED),))
    plan = plan_internal_topics(described, {"orders": 4})
    assert plan.reasons == ()
    assert plan.topics == (
        TopicPlan(REPARTITION, 4, -1, dict(REPARTITION_CONFIGS)),
        TopicPlan(CHANGELOG, 4, 2, {**CHANGELOG_CONFIGS, **dict(WINDOWED)}),
    )
    assert REPARTITION_CONFIGS["segment.bytes"] == "52428800"


@pytest.mark.parametrize(
    ("topics", "message", "remedy"),
    [
        ((), "does not say how its store is kept", KEY_VALUE_LINE),
        ((InternalTopic(CHANGELOG),), "does not say how its store is kept", KEY_VALUE_LINE),
        ((InternalTopic(CHANGELOG, configs=WINDOWED[:1]),), "without retention.ms brokers would", WINDOWED_LINE),
    ],
    ids=["not named", "named only", "windowed without retention"],
)
def test_a_changelog_that_is_not_described_is_left_to_a_java_leader(
    topics: tuple[InternalTopic, ...], message: str, remedy: str
) -> None:
    """A windowed one was made with plain compact, and would have grown for ever."""
    plan = plan_internal_topics(replace(SHOP, internal_topics=topics), {"orders": 4})
    assert [t.name for t in plan.topics] == [REPARTITION]
    (reason,) = plan.reasons
    assert reason.startswith(f"changelog {CHANGELOG}: ")
    assert message in reason
    assert remedy in reason


def test_the_line_that_is_to_be_added_can_be_read() -> None:
    line = WINDOWED_LINE.replace("<milliseconds: retention of the store + 86400000>", "86400000")
    file = {"ApplicationId": "shop", "Subtopologies": [{"SubtopologyId": 0, "SourceTopics": ["orders"]}]}
    text = yaml.safe_dump(file) + f"    StateChangelogTopics: [{line}]".replace("    ", "  ")
    assert read_topology(text).internal(CHANGELOG) == InternalTopic(
        CHANGELOG, configs=(("cleanup.policy", "compact,delete"), ("retention.ms", "86400000"))
    )


def test_the_line_that_is_shown_makes_the_first_start_possible() -> None:
    """A new application was refused without a word on what to write (D23)."""
    (reason,) = plan_internal_topics(SHOP, {"orders": 4}).reasons
    line = reason.split("`")[1]
    text = write_topology(SHOP)
    assert text.count(f"- {CHANGELOG}\n") == 1
    described = read_topology(text.replace(f"- {CHANGELOG}\n", f"{line}\n"))
    plan = plan_internal_topics(described, {"orders": 4})
    assert (plan.reasons, {t.name for t in plan.topics}) == ((), {REPARTITION, CHANGELOG})


def test_nothing_is_planned_without_the_source_topics() -> None:
    plan = plan_internal_topics(SHOP, {})
    assert (plan.topics, plan.reasons) == ((), ("source topic orders does not exist",))


def test_a_repartition_topic_without_known_writer_is_not_planned() -> None:
    silent = replace(SHOP, subtopologies=(replace(SHOP.subtopologies[0], repartition_sinks=()), SHOP.subtopologies[1]))
    plan = plan_internal_topics(silent, {"orders": 4, CHANGELOG: 4})
    assert plan.topics == ()
    assert "who writes it" in plan.reasons[0]


def test_a_complete_application_needs_nothing() -> None:
    assert plan_internal_topics(SHOP, SHOP_COUNTS).topics == ()


# ---- the commands --------------------------------------------------------------------------------------------------


def test_parse_and_show(tmp_path: Path) -> None:
    text = tmp_path / "describe.txt"
    text.write_text(SHOP_TEXT)
    runner = CliRunner()
    parsed = runner.invoke(app, ["topology", "parse", str(text), "--application-id", "shop"])
    assert parsed.exit_code == 0
    file = tmp_path / "shop.yaml"
    file.write_text(parsed.stdout)
    shown = runner.invoke(app, ["topology", "show", str(file)])
    assert shown.exit_code == 0
    assert f"digest      {SHOP.digest}" in shown.stdout
    assert f"  keeps     {CHANGELOG}" in shown.stdout
    assert "undecided" not in shown.stdout


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_texts_with_a_byte_order_mark_are_read(encoding: str, tmp_path: Path) -> None:
    """PowerShell writes both."""
    text = tmp_path / "describe.txt"
    text.write_bytes(SHOP_TEXT.encode(encoding))
    arguments = ["topology", "parse", "--application-id", "shop"]
    for source in ([str(text)], ["-"]):
        result = CliRunner().invoke(app, [*arguments, *source], input=text.read_bytes())
        assert result.exit_code == 0, result.output
        assert read_topology(result.stdout).digest == SHOP.digest


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "missing.yaml"],
        ["parse", "missing.txt", "--application-id", "a"],
        ["learn", "shop", "--bootstrap", ""],
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, ["topology", *arguments])
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert len(result.output.strip().splitlines()) == 1
