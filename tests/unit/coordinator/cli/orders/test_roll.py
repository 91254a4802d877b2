"""A rolling restart: who is restarted and by which name, what is refused, and where it stops."""

import json
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from bellwether_kafka.coordinator.cli import Exit
from bellwether_kafka.coordinator.cli.orders import restart, service
from bellwether_kafka.coordinator.cli.orders.check import PlannedPlacement
from bellwether_kafka.coordinator.cli.orders.service import OrderService
from bellwether_kafka.coordinator.cli.output import Output
from bellwether_kafka.coordinator.control import (
    InstanceHeartbeat,
    OrderKind,
    PlacementOrder,
    Record,
    SilentTopicError,
    TopicChannel,
    Until,
    encode,
)
from bellwether_kafka.coordinator.observation import Observation, ObservedMember, Shadow
from bellwether_kafka.coordinator.settings import Settings
from tests.kit.commands import undocumented
from tests.kit.plans import decided, member
from tests.kit.streams import Thread, group, led

OK, FAILS = (f"{sys.executable} -c 'import sys; sys.exit({code})' {{member}}" for code in (0, 3))


MOVING = Observation("g", "classic", "PreparingRebalance", "range", 0, trouble="it is rebalancing")


def consumers(*members: tuple[str, str | None, str]) -> Observation:
    """Members by member id, instance id and client id."""
    decision = decided(*(member(name, None) for name, _, _ in members))
    listed = tuple(ObservedMember(name, instance, client, "/h") for name, instance, client in members)
    return Observation("g", "classic", "Stable", "range", 0, listed, shadow=Shadow.of(decision, decision.plan.owner))


def test_members_are_known_by_what_outlives_a_restart() -> None:
    named = consumers(("a-1", "one", "app"), ("b-1", None, "two"), ("c-1", "three", "app"))
    assert restart.names_of(named, None) == ["one", "three", "two"]
    assert restart.names_of(named, ["two"]) == ["two"]
    application = led(group(Thread("a", 1), Thread("b", 1), Thread("c", 2)))
    plan = application.plan
    streams = replace(named, shadow=Shadow.of(application, plan.owner))
    assert restart.names_of(streams, None) == sorted(owner.name for owner in plan.owners)


@pytest.mark.parametrize(
    ("members", "named", "message"),
    [
        ((("a-1", None, "app"), ("b-1", None, "app")), None, "a-1 cannot be recognised"),
        ((("a-1", "one", "app"),), ["two"], "There is no member two in g; members are one."),
    ],
)
def test_members_that_cannot_be_restarted_are_refused(
    members: tuple[tuple[str, str | None, str], ...],
    named: list[str] | None,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(typer.Exit) as ended:
        restart.names_of(consumers(*members), named)
    assert ended.value.exit_code == Exit.INPUT
    assert message in capsys.readouterr().err


class Channel:
    """The control topic and the group as the command meets them. `back`: members have their share after a restart."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, back: bool = True, empties: bool = True) -> None:
        self.records: dict[str, Record] = {}
        self.given: list[PlacementOrder] = []
        self._back, self._empties = back, empties
        self._patch = monkeypatch
        self.rebalancing = 0  # how often the group is seen to
        self.on_given: Callable[[], object] = lambda: None
        monkeypatch.setattr(OrderService, "read", lambda _: self.records)
        monkeypatch.setattr(OrderService, "withdraw", lambda _, key: self.records.pop(key))
        monkeypatch.setattr(OrderService, "give", lambda _, order, *__, **___: self._give(order))
        monkeypatch.setattr(OrderService, "placed", lambda *_: self)
        monkeypatch.setattr(OrderService, "in_full", lambda _self, _group, where: where)
        monkeypatch.setattr(restart, "REFRESH_S", 0.01)
        monkeypatch.setattr(service, "REFRESH_S", 0.01)

    def seen(self) -> Observation:
        self.rebalancing -= 1
        return MOVING if self.rebalancing >= 0 else consumers(("a-1", "one", "app"), ("b-1", "two", "app"))

    def unready(self, where: str) -> str:
        if not self._back:
            return f"{where} is not in the group."
        self.records.clear()  # as the leader ends the order
        return ""

    def _give(self, order: PlacementOrder) -> None:
        self.given.append(order)
        self.records[order.key] = order
        self.on_given()
        if not self._empties:
            raise typer.Exit(Exit.NOT_SO)

    def roll(self, command: str, output: Output = Output.TABLE, **asked: Any) -> None:
        to = OrderService(TopicChannel({}, "control"), output)
        self._patch.setattr(restart, "order_service", lambda *_, **__: to)
        given: Mapping[str, Any] = {"member": None, "wait": 0.05, "reason": "", "force": False, **asked}
        restart.roll(group="g", exec_=command, output=output, **given)


def test_each_member_is_evacuated_restarted_and_back_before_the_next_one(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    channel = Channel(monkeypatch)
    channel.roll(f"{sys.executable} -c 'print(\"restarts {{member}}\")' {{member}}", Output.JSON)
    assert [(order.where, order.until, order.reason) for order in channel.given] == [
        ("member:one", Until.BACK, "a rolling restart"),
        ("member:two", Until.BACK, "a rolling restart"),
    ]
    assert all(order.expires_ms > time.time() * 1000 for order in channel.given)
    printed = capfd.readouterr()
    document = json.loads(printed.out)
    assert [entry["member"] for entry in document["members"]] == ["one", "two"]
    assert not undocumented("command-roll", document)
    assert "[2/2] two" in printed.err
    assert encode(channel.given[0])


def test_a_member_that_does_not_come_back_ends_it_and_its_order_is_in_force(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    channel = Channel(monkeypatch, back=False)
    with pytest.raises(typer.Exit) as ended:
        channel.roll(OK)
    assert ended.value.exit_code == Exit.NOT_SO
    assert [order.where for order in channel.given] == ["member:one"]
    assert channel.records, "nothing goes to it while it is away"
    assert "It is not back within 0.05 s: member:one is not in the group. The others" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "message"),
    [(FAILS, "has ended with 3"), ("/no/such/command {member}", "cannot be run: No such file or directory")],
)
def test_a_command_that_fails_ends_it_and_withdraws_the_order(
    command: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    channel = Channel(monkeypatch)
    with pytest.raises(typer.Exit):
        channel.roll(command)
    assert message in capsys.readouterr().err
    assert not channel.records
    assert len(channel.given) == 1


@pytest.mark.usefixtures("_in_the_foreground")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_roll_that_is_interrupted_leaves_no_member_without_work(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order lasts for three times --wait: nobody would restart the member, and nothing would come back to it."""
    channel = Channel(monkeypatch)
    channel.on_given = lambda: signal.raise_signal(number)
    with pytest.raises(KeyboardInterrupt):
        channel.roll(OK)
    assert not channel.records
    channel = Channel(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        channel.roll(f"{sys.executable} -c 'import os; os.kill(os.getppid(), {number.value})' {{member}}")
    assert not channel.records
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.slow
def test_a_roll_that_is_interrupted_lets_its_command_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It was killed a quarter of a second later, perhaps between the stop and the start of the member."""
    ends = tmp_path / "ended"
    script = "import os, pathlib, time; os.kill(os.getppid(), 15); time.sleep(1); pathlib.Path('{}').touch()"
    channel = Channel(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        channel.roll(f'{sys.executable} -c "{script.format(ends)}" {{member}}')
    assert ends.exists()
    assert not channel.records


def test_a_roll_that_cannot_follow_its_order_withdraws_it(monkeypatch: pytest.MonkeyPatch) -> None:
    channel = Channel(monkeypatch)

    def silent() -> None:
        raise SilentTopicError("The control topic 'control' did not answer within 10 s.")

    channel.on_given = silent
    with pytest.raises(SilentTopicError):
        channel.roll(OK)
    assert not channel.records


def test_a_member_that_cannot_be_evacuated_is_not_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    channel = Channel(monkeypatch, empties=False)
    with pytest.raises(typer.Exit):
        channel.roll(OK)
    assert not channel.records


@pytest.mark.parametrize(
    ("command", "message"), [("restart-all", "write {member}"), ("restart '{member}", "no closing quotation")]
)
def test_a_command_that_does_not_say_whom_it_restarts_is_refused(
    command: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit):
        Channel(monkeypatch).roll(command)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["one; rm -rf /", "$(id)", "`id`", "a b", "-H evil", "x\ny"])
def test_a_name_that_a_shell_would_act_on_is_handed_to_no_command(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands such as `ssh HOST 'restart {member}'` lead to a shell, and clients choose their ids."""
    channel = Channel(monkeypatch)
    monkeypatch.setattr(channel, "seen", lambda: consumers(("a-1", name, "app")))
    with pytest.raises(typer.Exit) as ended:
        channel.roll(OK)
    assert ended.value.exit_code == Exit.INPUT
    assert not channel.given
    assert "--force" in capsys.readouterr().err
    channel.roll(OK, force=True)
    assert [order.where for order in channel.given] == [f"member:{name}"]


def test_what_is_done_is_reported_before_the_next_one_begins(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    channel = Channel(monkeypatch)
    only_one = f"{sys.executable} -c 'import sys; sys.exit(sys.argv[1] != \"one\")' {{member}}"
    with pytest.raises(typer.Exit):
        channel.roll(only_one)
    assert capfd.readouterr().out.startswith("one: empty after ")


def test_it_waits_for_a_group_that_rebalances(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    channel = Channel(monkeypatch)
    channel.rebalancing = 3
    channel.roll(OK, wait=60.0)
    assert [order.where for order in channel.given] == ["member:one", "member:two"]
    channel = Channel(monkeypatch)
    channel.rebalancing = 1_000_000
    with pytest.raises(typer.Exit):
        channel.roll(OK)
    assert "Nothing can be restarted in g: it is rebalancing." in capfd.readouterr().err


def test_an_order_that_may_wait_is_not_refused_because_the_group_rebalances(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Observation] = []
    at_ms = int(time.time() * 1000)
    leads: dict[str, Record] = {"beat/pod-1": InstanceHeartbeat("pod-1", leads=("g",), at_ms=at_ms)}
    monkeypatch.setattr(OrderService, "read", lambda _: leads)
    monkeypatch.setattr(PlannedPlacement, "_refresh", lambda *_: seen.pop(0) if len(seen) > 1 else seen[0])
    monkeypatch.setattr(service, "REFRESH_S", 0.01)
    to = OrderService(TopicChannel({}, "control"), Output.TABLE, "brokers:9092")
    kind, until = OrderKind.EVACUATE, Until.BACK
    order = PlacementOrder(kind, "g", "*", "member:a-1", "sre", at_ms, at_ms + 60_000, until=until)
    seen[:] = [MOVING, MOVING, consumers(("a-1", "one", "app"), ("b-1", "two", "app"))]
    to.give(order, "", wait_s=60.0, force=False, dry_run=True)
    assert "Nothing was applied" in capsys.readouterr().out
    seen[:] = [MOVING]
    with pytest.raises(typer.Exit):
        to.give(order, "", wait_s=0.0, force=False)
    assert "Nothing can be placed in g now: it is rebalancing." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("shown", "sentence"),
    [
        (MOVING, "the group is rebalancing."),
        (Observation("g", "unknown", "", "", 0, trouble="its node loads"), "it is not known: its node loads."),
        (Observation("g", "classic", "Empty", "", 0), "it is not known: it has no members."),
    ],
)
def test_what_is_missing_where_nothing_is_known_is_no_rebalance(
    shown: Observation, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PlannedPlacement, "_refresh", lambda *_: shown)
    placed = PlannedPlacement(Settings.model_construct(), "g", (), (), None, configured=False, retry_s=0.0)
    assert placed.missing(1.0) == sentence
