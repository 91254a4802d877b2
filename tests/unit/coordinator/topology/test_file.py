"""Topology files, learning from a group, creation plans and the commands."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from bellwether_kafka.assignors.shared.group import AssignedMember
from bellwether_kafka.assignors.streams.application.task_views import AssignmentConfigs, Subtopology
from bellwether_kafka.assignors.streams.application.topology import InternalTopic, Topology, TopologyError
from bellwether_kafka.coordinator.cli.command_table import app
from bellwether_kafka.coordinator.topology.file import load_topology, read_topology, write_topology
from bellwether_kafka.coordinator.topology.internal_topics import (
    CHANGELOG_CONFIGS,
    REPARTITION_CONFIGS,
    TopicPlan,
    plan_internal_topics,
)
from bellwether_kafka.coordinator.topology.learn import learn
from bellwether_kafka.protocol.messages.streams_subscription import SubscriptionInfo
from bellwether_kafka.protocol.primitives.types import TaskId
from tests.unit.assignors.streams.application.test_topology import SHOP_TEXT
from tests.unit.assignors.streams.world import SHOP, SHOP_COUNTS, Thread, group, led

REPARTITION, CHANGELOG = "shop-by-user-repartition", "shop-totals-changelog"
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


EXPORTED = """# Written by TopologyExporter.
ApplicationId: shop
StreamsVersion: "4.3.0"
InMemoryStores: [totals]
Digest: "DIGEST"
Subtopologies:
  - SubtopologyId: "0"
    SourceTopics: [orders]
  - SubtopologyId: "1"
    SourceTopics: [users]
"""


def exported() -> str:
    kept = [line for line in EXPORTED.splitlines() if not line.startswith(("#", "Digest:"))]
    return EXPORTED.replace("DIGEST", hashlib.sha256("\n".join(kept).encode()).hexdigest()[:32])


@pytest.mark.parametrize("text", [exported(), exported().replace("\n", "\r\n"), f"# Ours.\n\n{exported()}"])
def test_an_exported_file_says_how_it_came_about(text: str) -> None:
    found = read_topology(text).exported
    assert found is not None
    assert (found.streams_version, found.in_memory_stores) == ("4.3.0", ("totals",))


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


# ---- learning ------------------------------------------------------------------------------------------------------


def live(
    topology: Topology = SHOP,
    counts: dict[str, int] = SHOP_COUNTS,
    standbys: int = 0,
    *,
    joined: bool = True,
    stateful: tuple[int, ...] = (1,),
) -> list[AssignedMember]:
    """Two members of a Stable group, as a Java leader would have left them."""
    threads = tuple(Thread(m, p, topology.source_topics) for m, p in (("a", 1), ("b", 2)))
    configs = AssignmentConfigs(num_standby_replicas=standbys)
    first = led(group(*threads), topology=topology, counts=counts, configs=configs)
    if joined:
        threads = tuple(t.after(first, stateful) for t in threads)
    second = led(group(*threads, generation=2), topology=topology, counts=counts, configs=configs)
    blobs = dict(second.assignments)
    return [AssignedMember(t.member_id, None, t.raw.metadata, blobs[t.member_id]) for t in threads]


def test_a_live_group_gives_its_topology() -> None:
    learned = learn("shop", live(), {**SHOP_COUNTS, "other": 9})
    assert learned.topology.digest == SHOP.digest
    assert learned.topology.source == "learned"
    assert learned.topology.repartition_topics == (REPARTITION,)


def test_members_that_have_not_joined_again_since_their_start_cannot_say_which_of_two_has_state() -> None:
    learned = learn("shop", live(joined=False), SHOP_COUNTS)
    assert learned.topology.undecided == (CHANGELOG,)
    assert f"{CHANGELOG} may belong to subtopology 0 or 1" in learned.notes
    assert any("has reported yet whether subtopology 0, 1 keeps state" in note for note in learned.notes)


def test_what_is_learned_leads_the_same_group() -> None:
    learned = learn("shop", live(), SHOP_COUNTS).topology
    threads = (Thread("a", 1), Thread("b", 2))
    assert led(group(*threads), topology=learned).assignments == led(group(*threads)).assignments


TWO_STORES = Topology(
    "app",
    (Subtopology(0, ("t",), changelogs=("app-s-changelog",)), Subtopology(1, ("u",), changelogs=("app-r-changelog",))),
    "file",
)


def test_changelogs_are_distinguished_by_size() -> None:
    counts = {"t": 2, "u": 3, "app-s-changelog": 2, "app-r-changelog": 3}
    learned = learn("app", live(TWO_STORES, counts, stateful=(0, 1)), counts)
    assert learned.topology.digest == TWO_STORES.digest


EQUAL = {"t": 2, "u": 2, "app-s-changelog": 2, "app-r-changelog": 2}


def test_changelogs_are_distinguished_by_offsets_or_not_at_all() -> None:
    members = live(TWO_STORES, EQUAL, standbys=1, stateful=(0, 1))
    open_one = learn("app", members, EQUAL)
    assert open_one.topology.undecided == ("app-r-changelog", "app-s-changelog")
    assert "move each changelog" in open_one.notes[-1]
    # The standbys of these tests report 1,000 records of each task; here only one store has so many.
    reported = {"app-s-changelog": np.array([1000, 1000]), "app-r-changelog": np.array([1000, 1000])}
    assert learn("app", members, EQUAL, reported).topology.undecided == ("app-r-changelog", "app-s-changelog")


def test_offsets_that_fit_only_one_way_decide() -> None:
    members = live(TWO_STORES, EQUAL, standbys=1, stateful=(0, 1))
    a = Thread("a", 1, ("t", "u"), {(0, 0): 5000, (1, 0): 90, (0, 1): -2, (1, 1): -2})
    given = a.raw
    members[0] = replace(members[0], metadata=given.metadata)
    b = Thread("b", 2, ("t", "u"), {(0, 0): -2, (1, 0): -2, (0, 1): 4900, (1, 1): 100})
    members[1] = replace(members[1], metadata=b.raw.metadata)
    ends = {"app-s-changelog": np.array([5001, 4900]), "app-r-changelog": np.array([92, 100])}
    learned = learn("app", members, EQUAL, ends)
    assert learned.topology.digest == TWO_STORES.digest
    assert "distinguished by their offsets" in learned.notes[0]


def test_changelogs_are_distinguished_by_the_name_of_their_repartition_topic() -> None:
    store = "KSTREAM-AGGREGATE-STATE-STORE-0000000003"
    topology = Topology(
        "app",
        (
            Subtopology(0, ("t",), changelogs=("app-x-changelog",)),
            Subtopology(
                1,
                (f"app-{store}-repartition",),
                repartition_sources=(f"app-{store}-repartition",),
                changelogs=(f"app-{store}-changelog",),
            ),
        ),
        "file",
    )
    counts = {"t": 2, f"app-{store}-repartition": 2, f"app-{store}-changelog": 2, "app-x-changelog": 2}
    learned = learn("app", live(topology, counts, stateful=(0, 1)), counts).topology
    assert learned.find(1) is not None
    assert f"app-{store}-changelog" not in learned.undecided


def test_a_source_topic_that_serves_as_changelog_is_found() -> None:
    topology = Topology("app", (Subtopology(0, ("t",), changelogs=("t",)),), "file")
    learned = learn("app", live(topology, {"t": 2}, stateful=(0,)), {"t": 2})
    assert learned.topology.digest == topology.digest
    assert "source topic t serves as changelog" in learned.notes[-1]


def test_a_leftover_changelog_is_left_out() -> None:
    learned = learn("shop", live(), {**SHOP_COUNTS, "shop-old-changelog": 9})
    assert learned.topology.digest == SHOP.digest
    assert "shop-old-changelog fits no subtopology" in learned.notes[0]


def test_an_incomplete_assignment_proves_nothing() -> None:
    with pytest.raises(TopologyError, match=r"orders-4 is with no member now"):
        learn("shop", live(), {**SHOP_COUNTS, "orders": 5})


def test_members_of_two_versions_are_not_learned_from() -> None:
    members = live()
    members[1] = replace(members[1], metadata=Thread("b", 2, ("orders",)).raw.metadata)
    with pytest.raises(TopologyError, match="do not subscribe to the same topics"):
        learn("shop", members, SHOP_COUNTS)


@pytest.mark.parametrize("part", ["metadata", "assignment"])
def test_members_that_cannot_be_read_are_not_learned_from(part: str) -> None:
    members = live()
    members[0] = replace(members[0], **{part: b"\x00"})
    with pytest.raises(TopologyError, match="member a"):
        learn("shop", members, SHOP_COUNTS)


def test_named_topologies_are_not_learned() -> None:
    members = live()
    info = SubscriptionInfo(task_offset_sums=((TaskId(0, 0, "top"), 1),))
    members[0] = replace(members[0], metadata=Thread("a").with_user_data(info.encode()).metadata)
    with pytest.raises(TopologyError, match="named topologies"):
        learn("shop", members, SHOP_COUNTS)


def test_an_empty_group_teaches_nothing() -> None:
    with pytest.raises(TopologyError, match="no members"):
        learn("shop", [], SHOP_COUNTS)


def test_old_directories_do_not_make_a_subtopology_stateful() -> None:
    members = live()
    a = Thread("a", 1, sums={(0, 3): 77, (1, 0): -2, (9, 0): 5})
    members[0] = replace(members[0], metadata=a.raw.metadata)
    assert learn("shop", members, SHOP_COUNTS).topology.digest == SHOP.digest


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
