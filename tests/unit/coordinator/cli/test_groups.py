"""What `groups`, `describe` and `plan` say of groups in every condition, for people."""

import asyncio
import json
import re
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from bellwether_kafka.coordinator.cli import Exit
from bellwether_kafka.coordinator.cli.groups import draw_groups, listed_groups
from bellwether_kafka.coordinator.cli.read_groups import answer_time_ms
from bellwether_kafka.coordinator.kafka import wire
from bellwether_kafka.coordinator.kafka.wire import GroupList, ListedGroup, TransportError
from bellwether_kafka.coordinator.membership import (
    Answer,
    CoordinatorAnswer,
    DescribeAnswer,
    DescribedMember,
    Failure,
    FindCoordinator,
    MembershipConfig,
    Node,
    Request,
    RequestFailed,
)
from bellwether_kafka.coordinator.observation import LagRefreshes, Shadow, Sources
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from tests.kit.brokers import EmbeddedCluster
from tests.kit.commands import FIRST_ID, GROUPS, OTHERS, SECOND_ID, AllKinds, Uneven, bellwether

pytestmark = pytest.mark.embedded


@pytest.fixture(scope="module")
def brokers() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1) as cluster:
        cluster.create_topic("orders", 3)
        yield cluster


@pytest.fixture
def bootstrap(brokers: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(wire, "Transport", AllKinds)
    return brokers.bootstrap


def message(*arguments: str, bootstrap: str) -> str:
    ended = bellwether(*arguments, "--bootstrap", bootstrap, COLUMNS="250")
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_groups_names_who_assigns_in_each(bootstrap: str) -> None:
    listed = json.loads(message("groups", "-o", "json", bootstrap=bootstrap))
    assert {group["group"]: group["assigned_by"] for group in listed} == {
        "connect": "a member",
        "converted": "its broker",
        "empty": "nobody",
        "led": "Bellwether",
        "rebalancing": "a member",
        "stable": "a member",
    }
    table = message("groups", bootstrap=bootstrap)
    (row,) = [line for line in table.splitlines() if line.startswith("led ")]
    assert "Bellwether" in row
    assert "its broker (consumer)" in table


def test_a_group_is_shown_as_rebalancing_while_it_is(bootstrap: str) -> None:
    assert "rebalancing" in row_of("app", message("describe", "rebalancing", bootstrap=bootstrap))
    assert "it is PreparingRebalance" in message("describe", "rebalancing", bootstrap=bootstrap)
    at_rest = row_of("app", message("describe", "stable", bootstrap=bootstrap))
    assert "orders: 0-2" in at_rest
    assert "rebalancing" not in at_rest


def row_of(member: str, shown: str) -> str:
    (row,) = [line for line in shown.splitlines() if line.startswith(f"{member} ")]
    return row


@pytest.mark.parametrize("command", [("plan",), ("explain",), ("simulate", "--add", "1")], ids=lambda c: c[0])
def test_a_plan_that_nobody_could_carry_out_is_called_hypothetical(command: tuple[str, ...], bootstrap: str) -> None:
    name, *options = command
    shown = message(name, "converted", *options, bootstrap=bootstrap)
    assert shown.startswith("Hypothetical: ")
    assert "This is what Bellwether would do if it could." in shown
    assert "Hypothetical" not in message(name, "stable", *options, bootstrap=bootstrap)


def test_json_of_a_plan_says_whether_it_is_hypothetical(bootstrap: str) -> None:
    for group, expected in (("converted", True), ("stable", False)):
        assert json.loads(message("plan", group, "-o", "json", bootstrap=bootstrap))["hypothetical"] is expected


def test_lags_are_shown_by_partition_and_what_is_unknown_is_no_number(bootstrap: str) -> None:
    """The group has read 3 of 5 records of orders-0 and is beyond the end of orders-1."""
    quiet = {"bootstrap.servers": bootstrap, "log_level": 0}
    producer = Producer(quiet)
    for _ in range(5):
        producer.produce("orders", b"x", partition=0)
    assert producer.flush(60) == 0
    consumer = Consumer({**quiet, "group.id": "stable"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 3), TopicPartition("orders", 1, 9)], asynchronous=False)
    consumer.close()
    shown = message("describe", "stable", bootstrap=bootstrap)
    assert "2 and 2 unknown" in row_of("app", shown)
    assert "lag unknown of 2 of 3 partitions" in shown
    assert row_of("orders-0", shown).split() == ["orders-0", "3", "5", "2", *"----", "unknown"]
    assert "orders-1: the committed offset 9 is beyond the end 0" in shown
    document = json.loads(message("describe", "stable", "-o", "json", bootstrap=bootstrap))
    assert [(p["committed"], p["lag"]) for p in document["lag_report"]["partitions"]] == [
        (3, 2),
        (9, None),
        (None, None),
    ]
    assert (document["lag"], document["unknown_lags"]) == (2, 2)


@pytest.fixture
def uneven(brokers: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(wire, "Transport", Uneven)
    return brokers.bootstrap


def test_a_plan_has_a_line_for_each_move_and_a_summary(uneven: str) -> None:
    lines = message("plan", "stable", bootstrap=uneven).splitlines()
    (move,) = [line for line in lines if line.startswith("  ~ ")]
    assert re.fullmatch(r"  ~ orders-2: app-0af1 -> app-0bc2  by \S.*; 3 and 0 become 2 and 1", move), move
    assert lines[-1] == "Plan: 1 partition moves, 2 stay. Nothing was applied."
    wide = message("plan", "stable", "-o", "wide", bootstrap=uneven)
    assert f"orders-2: {FIRST_ID} -> {SECOND_ID}" in wide


def test_what_nobody_has_is_one_line_for_each_that_gets_it(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = replace(GROUPS["stable"], members=tuple(replace(m, assignment=b"") for m in GROUPS["stable"].members))
    monkeypatch.setitem(GROUPS, "stable", empty)
    lines = message("plan", "stable", bootstrap=bootstrap).splitlines()
    assert "  + app: orders: 0-2" in lines
    assert lines[-1] == "Plan: 0 partitions move, 3 that nobody has are given, 0 stay. Nothing was applied."


def test_the_exit_code_of_a_plan_says_whether_it_changes_anything(uneven: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("plan", "stable", "--detailed-exitcode", "--bootstrap", uneven)
    assert bellwether(*asked).returncode == Exit.NOT_SO
    monkeypatch.setattr(wire, "Transport", AllKinds)
    assert bellwether(*asked).returncode == Exit.DONE


@pytest.mark.parametrize("given", ["app-0bc2", "app-0b", SECOND_ID, f"member:{SECOND_ID}", "member:app-0bc2"])
def test_explain_takes_ids_in_short(given: str, uneven: str) -> None:
    (document,) = json.loads(message("explain", "stable", given, "-o", "json", bootstrap=uneven))
    assert (document["item"], document["after"]) == ("orders-2", SECOND_ID)
    assert message("explain", "stable", given, bootstrap=uneven).startswith("orders-2 goes from app-0af1 to app-0bc2")


def test_an_id_that_may_be_several_is_refused_with_all_of_them(uneven: str) -> None:
    for given in ("app", "app-0"):
        refused = bellwether("explain", "stable", given, "--bootstrap", uneven)
        assert (refused.returncode, refused.stdout) == (Exit.INPUT, "")
        assert FIRST_ID in refused.stderr
        assert SECOND_ID in refused.stderr
    assert "nor a partition" in bellwether("explain", "stable", "nobody", "--bootstrap", uneven).stderr


def test_simulate_takes_ids_in_short(uneven: str) -> None:
    short, whole = (
        message("simulate", "stable", "--without", f"member:{given}", bootstrap=uneven)
        for given in ("app-0af1", FIRST_ID)
    )
    assert short == whole != ""


def test_the_members_of_a_group_have_short_ids_unless_it_is_wide(uneven: str) -> None:
    assert "app-0bc2 " in message("describe", "stable", bootstrap=uneven)
    wide = message("describe", "stable", "-o", "wide", bootstrap=uneven)
    assert f"\n{FIRST_ID}  app " in wide
    assert " /h " in wide


def interrupted_after(refreshes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends a watch after this many refreshes, between which no time passes; other waits are real."""
    waits, sleep = iter([None] * (refreshes - 1)), asyncio.sleep

    async def at_once(seconds: float, *_: Any) -> None:
        if seconds < 1:
            await sleep(seconds)
        elif next(waits, 0) == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(asyncio, "sleep", at_once)


class Silent(AllKinds):
    """The coordinator node of `stable` does not answer at some requests, which count from 0."""

    asked = 0
    unanswered: Collection[int] = ()

    async def describe_group(self, group_id: str) -> DescribeAnswer:
        number, Silent.asked = Silent.asked, Silent.asked + 1
        if group_id == "stable" and number in self.unanswered:
            raise TransportError(Failure.TIMED_OUT, "no answer")
        return await super().describe_group(group_id)


def silent_at(monkeypatch: pytest.MonkeyPatch, *unanswered: int) -> None:
    monkeypatch.setattr(Silent, "asked", 0)
    monkeypatch.setattr(Silent, "unanswered", unanswered)
    monkeypatch.setattr(wire, "Transport", Silent)


def test_a_watched_group_is_shown_until_ctrl_c(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_after(3, monkeypatch)
    shown = message("describe", "stable", "--watch", bootstrap=bootstrap)
    assert shown.count("stable: classic, Stable") == 3


def test_a_refresh_without_an_answer_ends_no_watch_and_keeps_what_was_read(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted_after(3, monkeypatch)
    silent_at(monkeypatch, 1)
    shown = message("describe", "stable", "--watch", bootstrap=bootstrap)
    assert shown.count("stable: classic, Stable") == 3
    assert shown.count("stable cannot be read now: the group's coordinator node does not answer") == 1
    assert "what follows is of " in shown


def test_a_watch_begins_also_while_the_coordinator_node_is_silent(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted_after(2, monkeypatch)
    silent_at(monkeypatch, 0)
    shown = message("describe", "stable", "--watch", bootstrap=bootstrap)
    assert shown.index("stable cannot be read now") < shown.index("stable: classic, Stable")


@pytest.mark.parametrize("command", ["describe {} --watch", "describe {} --watch -o kafka"])
def test_a_watch_keeps_what_it_has_read_and_shows_rates(
    command: str, brokers: EmbeddedCluster, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second refresh has a rate only if it belongs to the first one's history."""
    read = LagRefreshes.refresh
    histories: list[int] = []

    async def counted(self: LagRefreshes, *arguments: Any, **options: Any) -> Any:
        histories.append(id(self))
        return await read(self, *arguments, **options)

    monkeypatch.setattr(LagRefreshes, "refresh", counted)
    interrupted_after(3, monkeypatch)
    message(*command.format("stable").split(), bootstrap=bootstrap)
    assert len(histories) == 3
    assert len(set(histories)) == 1


class Several(AllKinds):
    """Describes several groups in one answer, as brokers do."""

    async def ask(self, request: Any) -> Any:
        if isinstance(request, wire.DescribeMany):
            return {group: await self.describe_group(group) for group in request.group_ids}
        return await super().ask(request)


def test_top_plans_a_group_again_only_when_it_has_changed(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[Any] = []

    made = Shadow.of

    def counted(*arguments: Any) -> Any:
        plans.append(arguments)
        return made(*arguments)

    monkeypatch.setattr(Shadow, "of", counted)
    monkeypatch.setattr(wire, "Transport", Several)
    interrupted_after(4, monkeypatch)
    shown = message("top", "stable", "-o", "json", bootstrap=bootstrap)
    rows = [json.loads(line)[0] for line in shown.splitlines()]
    assert [row["unowned"] for row in rows] == [0] * 4
    assert len(plans) == 1


def test_documents_that_follow_each_other_are_distinguished(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_after(1, monkeypatch)
    (line,) = message("describe", "stable", "-w", "-o", "json", bootstrap=bootstrap).splitlines()
    assert json.loads(line)["group"] == "stable"


def test_doctor_ends_with_what_to_do_next(bootstrap: str) -> None:
    shown = bellwether("doctor", "stable", "--bootstrap", bootstrap).stdout
    steps = shown[shown.index("\nNext:\n") :].splitlines()[2:]
    assert [step[:5] for step in steps] == ["  1. ", "  2. ", "  3. "]


def test_doctor_shows_the_topology_of_a_file_before_a_first_start(bootstrap: str, tmp_path: Path) -> None:
    topology = "ApplicationId: empty\nSubtopologies: [{SubtopologyId: 0, SourceTopics: [orders, returns]}]\n"
    (tmp_path / "empty.yaml").write_text(topology)
    (tmp_path / "bellwether.toml").write_text(
        f'[kafka]\n"bootstrap.servers" = "{bootstrap}"\n[[groups]]\nname = "empty"\nmode = "lead"\nkind = "streams"\n'
        'topology = "empty.yaml"\ntopology_attested = true\n'
    )
    shown = bellwether("doctor", "empty", "--config", str(tmp_path / "bellwether.toml"), COLUMNS="250").stdout
    assert re.search(r"^pass +topology: 1 subtopology, digest \w+, from a file, and attested\.$", shown, re.MULTILINE)
    assert "source topics: Topics that the topology names as sources and Bellwether does not see: returns." in shown
    assert "agree on" not in shown


class ManyGroups:
    """A thousand groups on three brokers, every tenth of them empty; counts what it is asked."""

    def __init__(self) -> None:
        self.requests = 0

    async def list_groups(self, node: Node) -> GroupList:
        self.requests += 1
        mine = range(node.node_id, 1_000, 3)
        states = ((f"g-{i:03}", "Stable" if i % 10 else "Empty") for i in mine)
        return GroupList(0, tuple(ListedGroup(name, "consumer", state, "classic") for name, state in states))

    async def describe_groups(self, _node: Node, group_ids: Sequence[str]) -> dict[str, DescribeAnswer]:
        self.requests += 1
        return {name: OTHERS["led"] if name.endswith("01") else GROUPS["stable"] for name in group_ids}


class ThreeNodes:
    async def nodes(self) -> tuple[Node, ...]:
        return tuple(Node(i, f"b{i}", 9092) for i in range(3))

    async def read(self, topics: Collection[str]) -> SimpleNamespace:
        return SimpleNamespace(count_of=dict.fromkeys(topics, 3))


async def test_a_thousand_groups_take_few_requests_and_less_than_a_second(capsys: pytest.CaptureFixture[str]) -> None:
    many = ManyGroups()
    began = time.process_time()
    sources = Sources(many, ThreeNodes(), None)  # type: ignore[arg-type]  # what `groups` reads of them
    listing = await listed_groups(sources, MembershipConfig("any", instance_id="bellwether"))
    draw_groups(listing, wide=True)
    took_s = time.process_time() - began
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 1_000
    assert [line.split()[:2] for line in lines[1:3]] == [["g-000", "nobody"], ["g-001", "Bellwether"]]
    assert many.requests == 3 + 3 * 6, "a list of each broker, and one for every fifty groups that are not empty"
    assert took_s < 1.0


async def test_groups_of_a_broker_that_does_not_answer_are_listed_all_the_same() -> None:
    class Silent(ManyGroups):
        async def describe_groups(self, node: Node, group_ids: Sequence[str]) -> dict[str, DescribeAnswer]:
            if node.node_id == 1:
                raise TransportError(Failure.TIMED_OUT, "silent")
            return await super().describe_groups(node, group_ids)

    sources = Sources(Silent(), ThreeNodes(), None)  # type: ignore[arg-type]  # as above
    listing = await listed_groups(sources, MembershipConfig("any", instance_id="bellwether"))
    assert len(listing) == 1_000
    assigned_by = {row.group: row.assigned_by for row in listing}
    assert (assigned_by["g-001"], assigned_by["g-201"], assigned_by["g-301"]) == ("unknown", "Bellwether", "unknown")


class TimedBroker:
    """The transport to a coordinator node that takes so long for each description. It does not answer where that is
    None."""

    def __init__(self, *answer_times_s: float | None) -> None:
        self._times_s, self.now_s = [*answer_times_s], 0.0

    async def request(self, command: Request) -> Answer | RequestFailed:
        if isinstance(command, FindCoordinator):
            return CoordinatorAnswer(0, 0, Node(1, "127.0.0.1", 1))
        time_s = self._times_s.pop(0)
        if time_s is None:
            return RequestFailed(0, Failure.TIMED_OUT)
        self.now_s += time_s
        return DescribeAnswer(0, 0)


@pytest.mark.parametrize(
    ("times_s", "expected_ms"),
    [((0.9, 0.5, 0.02, 0.01, 0.02, 0.4), 20.0), ((0.02, None), None)],
    ids=["connecting", "silent"],
)
async def test_commands_time_the_descriptions_of_a_broker_as_a_running_bellwether_does(
    times_s: tuple[float | None, ...], expected_ms: float | None
) -> None:
    broker = TimedBroker(*times_s)
    took_ms = await answer_time_ms(cast("Any", broker), "g", lambda: broker.now_s)
    assert took_ms == (None if expected_ms is None else pytest.approx(expected_ms))


@pytest.mark.parametrize("command", ["describe", "doctor", "plan", "top", "assess", "convert", "explain"])
def test_a_group_without_a_name_that_listing_shows_is_read_like_any_other(
    command: str, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was refused with "The setting groups[0] cannot be used", which nobody had written."""
    monkeypatch.setitem(OTHERS, "", DescribeAnswer(0, 0, "Empty", ""))
    monkeypatch.setattr(wire, "Transport", Several)
    once = ["--once"] * (command == "top")
    ended = bellwether(command, "", *once, "--bootstrap", bootstrap, COLUMNS="250")
    assert "setting" not in ended.stderr
    assert ended.returncode in (Exit.DONE, Exit.NOT_SO, Exit.INPUT)
    assert ended.stdout or "''" in ended.stderr, ended
    listed = message("groups", bootstrap=bootstrap)
    assert any(line.startswith("'' ") for line in listed.splitlines()), listed


def test_blanks_and_fillers_of_racks_are_seen(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    racks = ("az1 ", "az1\u3164")
    members = tuple(
        DescribedMember(
            f"m{n}", None, ConsumerProtocolSubscription(3, ("orders",), rack_id=rack).encode(), b"", "app", "/h"
        )
        for n, rack in enumerate(racks)
    )
    monkeypatch.setitem(OTHERS, "racked", DescribeAnswer(0, 0, "Stable", "consumer", "range", members))
    shown = message("describe", "racked", bootstrap=bootstrap)
    assert "'az1 '" in shown
    assert "az1\\u3164" in shown
