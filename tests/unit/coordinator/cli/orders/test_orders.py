"""The commands that order: what is written, what is refused and leaves no trace, and what is said."""

import json
import os
import pwd
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import typer

from bellwether_kafka.coordinator.cli import Exit, read_groups
from bellwether_kafka.coordinator.cli.options import settings_for
from bellwether_kafka.coordinator.cli.orders import service
from bellwether_kafka.coordinator.cli.orders.check import PlannedPlacement
from bellwether_kafka.coordinator.cli.output import Output
from bellwether_kafka.coordinator.control import (
    NO_END_MS,
    InstanceHeartbeat,
    NoControlTopicError,
    Order,
    OrderKind,
    Record,
    SilentTopicError,
    read_all,
    write_now,
)
from bellwether_kafka.coordinator.control import topic as control_topic
from bellwether_kafka.coordinator.properties import CONTROL_TOPIC
from tests.kit.brokers import EmbeddedCluster
from tests.kit.commands import bellwether
from tests.unit.coordinator.cli.orders.channel import LIMIT_S, Channel


@pytest.mark.embedded
def test_orders_are_written_listed_and_withdrawn(channel: Channel) -> None:
    channel.heartbeat()
    ended = channel.ordered("leave", "orders", "--for", "30m", "--reason", "reset")
    assert "stays out for 30m" in ended.stdout
    assert ended.stderr == ""
    record = channel.read()["leave/orders"]
    assert isinstance(record, Order)
    assert record.expires_ms - record.at_ms == 30 * 60_000
    assert record.reason == "reset"
    assert "ordered leave of 'orders' (reset), until " in channel.ordered("orders").stdout
    channel.ordered("resume", "orders")
    assert list(channel.read()) == ["beat/pod-1"]
    channel.ordered("leave", "orders")
    assert channel.read()["leave/orders"].expires_ms == NO_END_MS
    assert "ordered leave of 'orders', until resume" in channel.ordered("orders").stdout
    channel.ordered("resume", "orders")
    assert "no order to leave or pause" in channel.refused("resume", "orders")


@pytest.mark.embedded
def test_all_groups_are_left_by_one_command_and_come_back_by_one(channel: Channel) -> None:
    channel.heartbeat(leads=("orders", "bills"), claims=("clicks",), serves=("served",))
    channel.heartbeat(instance="pod-2", standby_for=("orders", "bills"), leads=())
    channel.heartbeat(instance="gone", leads=("long-ago",), at_ms=1)
    ended = channel.ordered("leave", "--all", "--reason", "3 a.m.")
    assert "leaves 3 groups (bills, clicks, orders) and stays out; 'bellwether resume --all' ends" in ended.stdout
    left = {key: record for key, record in channel.read().items() if isinstance(record, Order)}
    assert sorted(left) == ["leave/bills", "leave/clicks", "leave/orders"]
    assert {order.expires_ms for order in left.values()} == {NO_END_MS}
    channel.ordered("pause", "orders")
    document = json.loads(channel.ordered("leave", "--all", "--for", "1h", "-o", "json").stdout)
    assert [order["target"] for order in document["orders"]] == ["bills", "clicks", "orders"]
    assert "bills, clicks, orders" in channel.ordered("resume", "--all").stdout
    assert not [key for key in channel.read() if not key.startswith("beat/")]
    assert "no order to leave or pause a group" in channel.refused("resume", "--all")


@pytest.mark.embedded
@pytest.mark.parametrize("command", ["leave", "resume"])
def test_all_groups_or_one_are_named_never_none_or_both(channel: Channel, command: str) -> None:
    for arguments in ((), ("orders", "--all")):
        assert "Name one group, or give --all." in channel.refused(command, *arguments)


@pytest.mark.embedded
def test_all_groups_of_no_process_are_no_success(channel: Channel) -> None:
    assert "No Bellwether with a group has reported in the control topic" in channel.refused("leave", "--all")


@pytest.mark.parametrize("command", [("leave", "orders"), ("resume", "--all"), ("orders",)], ids=lambda c: c[0])
def test_an_order_where_the_settings_have_no_topic_says_what_there_is_instead(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    file = tmp_path / "bellwether.toml"
    file.write_text('control_topic = ""\n[kafka]\n"bootstrap.servers" = "127.0.0.1:1"\n[[groups]]\nname = "orders"\n')
    ended = bellwether(*command, "--config", str(file))
    assert ended.returncode == Exit.INPUT
    assert "name the topic that the process reads" in ended.stderr
    assert "leaves all its groups at SIGUSR1" in ended.stderr


@pytest.mark.embedded
def test_orders_go_to_the_topic_of_the_default_name(brokers: EmbeddedCluster) -> None:
    brokers.create_topic(CONTROL_TOPIC, 1)
    channel = Channel(brokers, CONTROL_TOPIC)
    channel.heartbeat()
    ended = bellwether("leave", "orders", "--bootstrap", brokers.bootstrap)
    assert (ended.returncode, ended.stderr) == (Exit.DONE, "")
    assert "leave/orders" in channel.read()


@pytest.mark.embedded
def test_no_command_makes_the_control_topic(brokers: EmbeddedCluster) -> None:
    ended = Channel(brokers, "control-typo").run("leave", "orders")
    assert ended.returncode == Exit.INPUT
    assert "There is no control topic 'control-typo' on this cluster" in ended.stderr
    assert "check --topic" in ended.stderr
    assert "CREATE on Topic 'control-typo'" in ended.stderr
    again = Channel(brokers, "control-typo").run("leave", "orders", "--force")
    assert "There is no control topic" in again.stderr, "and force does not make it either"


@pytest.mark.embedded
@pytest.mark.parametrize(
    "arguments",
    [
        ("leave", "orders"),
        ("pause", "orders"),
        ("rebalance", "orders"),
        ("evacuate", "orders", "rack:az1"),
        ("pin", "orders", "orders-1", "rack:az1"),
    ],
    ids=lambda a: a[0],
)
def test_an_order_that_nobody_hears_is_refused_and_not_written(channel: Channel, arguments: tuple[str, ...]) -> None:
    assert "No Bellwether with the group 'orders' has reported" in channel.refused(*arguments)
    channel.heartbeat(at_ms=1)
    assert "Nothing was ordered; --force orders it all the same." in channel.refused(*arguments)


@pytest.mark.embedded
def test_what_is_forced_is_written_and_the_objection_is_reported_behind_it(channel: Channel) -> None:
    ended = channel.ordered("leave", "orders", "--force")
    assert "leave/orders" in channel.read()
    assert "stays out" in ended.stdout
    assert ended.stderr.startswith("But: No Bellwether with the group 'orders'")
    document = json.loads(channel.ordered("leave", "orders", "--force", "-o", "json").stdout)
    assert document["warning"].startswith("No Bellwether")
    assert document["order"]["kind"] == "leave"


@pytest.mark.embedded
def test_a_drain_without_a_standby_is_refused(channel: Channel) -> None:
    channel.heartbeat()
    assert "No standby has reported" in channel.refused("drain")


@pytest.mark.embedded
def test_an_order_that_is_not_carried_out_in_time_is_reported_to_be_so(channel: Channel) -> None:
    channel.heartbeat()
    ended = channel.run("rebalance", "orders", "--wait", "0.1")
    assert ended.returncode == Exit.NOT_SO
    assert "It is not in effect within 0.1 s: no instance of Bellwether has taken the order" in ended.stderr


@dataclass
class SilentChannel:
    """Brokers that answer nothing so often."""

    left: int
    written: list[bytes] = field(default_factory=list)

    def read(self) -> dict[str, Record]:
        self.left -= 1
        if self.left >= 0:
            raise SilentTopicError("The control topic 'orders' cannot be reached.")
        return {}

    def write(self, *records: tuple[bytes, bytes | None]) -> None:
        self.read()
        self.written += [key for key, _ in records]


def test_a_command_that_waits_reads_and_writes_again_where_no_broker_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a preStop hook: one that gave up at once left its instance with its tasks."""
    monkeypatch.setattr(service.time, "sleep", lambda _: None)
    channel: Any = SilentChannel(2)
    to = service.OrderService(channel, Output.TABLE)
    with pytest.raises(typer.Exit):
        to.read()
    assert capsys.readouterr().err == "The control topic 'orders' cannot be reached.\n"
    waiting = replace(to, retry_s=30)
    assert waiting.read() == {}
    assert capsys.readouterr().err == "The control topic 'orders' cannot be reached. Trying again for 30 s.\n"
    channel.left = 2
    with pytest.raises(typer.Exit):
        to.withdraw("pin")
    waiting.withdraw("pin")
    assert channel.written == [b"pin"]
    channel.left = 1_000_000
    with pytest.raises(typer.Exit):
        replace(to, retry_s=0.05).read()


@dataclass
class ReportingChannel:
    """A process that reports a served group so many reads after it was started, if at all."""

    after: float
    reads: int = 0

    def read(self) -> dict[str, Record]:
        self.reads += 1
        serves = ("served",) if self.reads > self.after else ()
        heartbeat = InstanceHeartbeat("pod-1", leads=(), at_ms=service.now_ms(), serves=serves)
        return {heartbeat.key: heartbeat}

    def write(self, *_records: tuple[bytes, bytes | None]) -> None:
        raise AssertionError("nothing is written")


@pytest.mark.slow
def test_a_group_that_has_just_come_is_waited_for_until_it_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An order right after the members had settled was refused: Bellwether learns whose plan it was by a refresh."""
    monkeypatch.setattr(service, "unfollowed_by_broker", lambda _, __, is_served: "" if is_served() else "Not asked.")
    monkeypatch.setattr(service, "POLL_S", 0.0)
    monkeypatch.setattr(service, "REPORTED_WITHIN_S", 0.2)
    order = Order(OrderKind.REBALANCE, "served", "eve", service.now_ms(), service.now_ms() + 60_000)

    def given(after: float) -> str:
        channel: Any = ReportingChannel(after)
        to = service.OrderService(channel, Output.TABLE, "broker:9092")
        try:
            to.give(order, "", wait_s=0, force=False)
        except AssertionError as written:
            return str(written)
        except typer.Exit:
            return capsys.readouterr().err
        return ""

    assert given(after=3) == "nothing is written"
    assert capsys.readouterr().err == "Waiting for the Bellwether beside the broker to report 'served'.\n"
    assert "Not asked. Nothing was ordered" in given(after=float("inf"))


@pytest.mark.slow
def test_a_command_that_waits_refreshes_again_where_no_broker_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a rolling restart: one that ended for a moment's silence left the others as they were."""
    waited: list[float] = []
    monkeypatch.setattr(read_groups.time, "sleep", waited.append)
    settings, _ = settings_for("127.0.0.1:1", None, "orders")
    for retry_s, tried_again in ((0.0, False), (0.2, True)):
        placed = PlannedPlacement(settings, "orders", (), (), None, configured=False, retry_s=retry_s)
        with pytest.raises(typer.Exit) as ended:
            placed.seen()
        message = capsys.readouterr().err
        assert ended.value.exit_code == Exit.INPUT
        assert (bool(waited), "Trying again for 0.2 s." in message) == (tried_again, tried_again)
        assert "127.0.0.1:1" in message


def test_an_answer_without_a_plan_is_asked_for_again_where_that_is_for_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_groups.time, "sleep", lambda _: None)
    answers = ["no answer", "no answer", ""]
    assert read_groups.retried(lambda: answers.pop(0), 30.0, lacking=str) == ""
    answers = ["no answer", ""]
    assert read_groups.retried(lambda: answers.pop(0), 0.0, lacking=str) == "no answer"


@pytest.mark.embedded
def test_brokers_that_are_not_there_are_silent_and_a_missing_topic_is_not(brokers: EmbeddedCluster) -> None:
    nowhere = {"bootstrap.servers": "127.0.0.1:1"}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(control_topic, "METADATA_TIMEOUT_S", 0.5)
        patched.setattr(control_topic, "WRITE_S", 0.5)
        with pytest.raises(SilentTopicError):
            read_all(nowhere, "orders", LIMIT_S)
        with pytest.raises(SilentTopicError):
            write_now(nowhere, "orders", (b"pin", None))
    with pytest.raises(NoControlTopicError):
        read_all({"bootstrap.servers": brokers.bootstrap}, "nobody-made-it", LIMIT_S)


@pytest.mark.embedded
def test_a_record_that_cannot_be_read_is_named_and_the_others_are_shown(channel: Channel) -> None:
    channel.heartbeat()
    channel.ordered("pause", "orders")
    fields = {"v": 1, "kind": "leave", "target": "orders", "owner": "x", "at_ms": 0, "expires_ms": 10**400}
    for value in (json.dumps(fields).encode(), b"[" * 100_000, b"\xff", b"1"):
        write_now(channel.kafka, channel.topic, (b"leave/orders", value))
    shown = channel.ordered("orders")
    assert "ordered pause of 'orders'" in shown.stdout
    assert shown.stderr.count("The record 'leave/orders' of the control topic is ignored: ") == 4
    assert '"expires_ms" is not a whole number of milliseconds' in " ".join(shown.stderr.split())


@pytest.mark.embedded
def test_waiting_ends_when_the_group_is_not_led_any_more(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    channel.heartbeat()
    monkeypatch.setattr(service.time, "sleep", lambda _: channel.heartbeat(leads=(), claims=("orders",)))
    ended = channel.ordered("leave", "orders", "--wait", "30")
    assert "It is in effect." in ended.stderr


@pytest.mark.embedded
@pytest.mark.parametrize("text", ["soon", "0m", "10", "-1h"])
def test_a_duration_that_is_none_is_a_sentence(channel: Channel, text: str) -> None:
    assert f"--for is '{text}'" in channel.refused("pause", "orders", f"--for={text}")


def test_a_user_without_a_name_orders_under_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs under a number."""

    def nameless(*_: object) -> str:
        raise KeyError("getpwuid(): uid not found: 1000")

    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nameless)
    assert service.owner().startswith(f"{os.getuid()}@")


@pytest.mark.embedded
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("evacuate", "served", "member:m0", "--remove"),
            "Bellwether removes nobody from it; stop the member instead.",
        ),
        (("leave", "served"), "whose broker assigns, so there is nothing to leave."),
    ],
)
def test_what_needs_a_member_of_bellwethers_is_refused_where_the_broker_assigns(
    channel: Channel, arguments: tuple[str, ...], message: str
) -> None:
    channel.heartbeat(leads=(), serves=("served",), orders_for=("served",), policies={"served": "kafka"})
    assert message in " ".join(channel.refused(*arguments).split())
