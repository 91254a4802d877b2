"""Orders on placement, given on the command line and carried out by a live leader: pins and bans of plain consumers,
and the evacuation of a rack of a Streams application."""

import itertools
import json
import os
import re
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.interop.support.bellwether import Bellwether, ordered, run_to_end, toml
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock, Member, TopicPartition, partitions_of, wait_settled, wait_until
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_application import Application
from tests.interop.support.streams_led import application, failures, following, strangers
from tests.interop.support.streams_load import Load
from tests.interop.support.streams_timeline import Happening, Span, Timeline
from tests.pipeline.topics import decoded, read_until

PARTITIONS = 6
SETTLE_S = 240
RECORDS = 3_000

Owners = Mapping[TopicPartition, Member]


def moves_planned(kafka: KafkaCluster, folder: Path, group: str, **settings: Any) -> int:
    """What `bellwether plan` would move now under these settings."""
    config = folder / "bellwether.toml"
    group_settings = {"name": group, "policy": "rack-first"}
    config.write_text(toml({"bootstrap.servers": kafka.bootstrap}, [group_settings], http_address="", **settings))
    ended = run_to_end(["plan", group, "--config", str(config), "--output", "json"])
    assert ended.code == 0, ended.text
    return int(json.loads(ended.stdout)["moved"])


@pytest.mark.timeout(300)
def test_a_process_creates_its_control_topic_follows_orders_there_and_leaves_at_a_signal(kafka: KafkaCluster) -> None:
    group = "ordered-by-default"
    kafka.create_topic(group, PARTITIONS)
    to = ("--bootstrap", kafka.bootstrap)
    with Bellwether(kafka, [group]) as lead:
        lead.logged("control_topic_read", topic="bellwether-control")
        left = run_to_end(["leave", group, "--reason", "reset", "--wait", "40", *to])
        assert left.code == 0, left.text
        assert not lead.is_member(group)
        assert run_to_end(["resume", group, *to]).code == 0
        wait_until(lambda: lead.is_member(group), 60, lead.tail)
        os.kill(lead.pid, signal.SIGUSR1)
        lead.logged("leaving_all_groups")
        wait_until(lambda: not lead.is_member(group), 60, lead.tail)
        assert lead.running
        assert lead.stop() == 0


@pytest.mark.proof
@pytest.mark.timeout(300)
def test_pins_and_bans_are_carried_out_and_end(kafka: KafkaCluster, tmp_path: Path) -> None:
    group, control = "pinned-orders", "pinned-control"
    kafka.create_topic(group, PARTITIONS)
    expected = partitions_of({group: PARTITIONS})
    with (
        Bellwether(kafka, [group], options={"policy": "rack-first"}, control_topic=control) as lead,
        Flock(kafka.bootstrap) as flock,
    ):
        members = [flock.member("confluent", group, [group], ["cooperative-sticky"], rack=f"az{n}") for n in (1, 2, 3)]

        def wait_for(what: str, holds: Any) -> None:
            def settled() -> bool:
                owned = {tp: m for m in members for tp in m.owned()}
                return owned.keys() == expected and holds(owned)

            wait_until(settled, 90, lambda: f"{what}\n{lead.log_of(group)}")

        wait_settled(members, expected, spread=0, limit_s=120)
        ordered(kafka, control, "pin", group, f"{group}-0", "rack:az3")
        wait_for("0 is pinned to az3", lambda owned: owned[group, 0] is members[2])
        ordered(kafka, control, "pin", group, f"{group}-0", "rack:az1")
        wait_for("0 is pinned to az1", lambda owned: owned[group, 0] is members[0])
        ordered(kafka, control, "ban", group, group, "rack:az2")
        wait_for("az2 may have nothing", lambda owned: members[1] not in owned.values())
        assert moves_planned(kafka, tmp_path, group, control_topic=control) == 0, (
            "a plan follows what stands, as leaders do"
        )
        assert moves_planned(kafka, tmp_path, group) > 0
        ordered(kafka, control, "unpin", group, group)
        wait_for("az2 may have some again", lambda owned: members[1] in owned.values())
        assert [m.errors for m in members] == [[], [], []]


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_a_pin_stands_over_a_restart_and_all_groups_are_left_by_one_command(kafka: KafkaCluster) -> None:
    """The restart compared before it had read the pin, and a partition was without an owner for 3 s."""
    group, control = "night-orders", "night-control"
    kafka.create_topic(group, PARTITIONS)
    expected = partitions_of({group: PARTITIONS})
    options = {"policy": "rack-first", "session_timeout_ms": 60_000}
    with (
        Bellwether(kafka, [group], options=options, control_topic=control) as lead,
        Flock(kafka.bootstrap) as flock,
    ):
        members = [flock.member("confluent", group, [group], ["cooperative-sticky"], rack=f"az{n}") for n in (1, 2, 3)]

        def owners() -> dict[TopicPartition, Member]:
            return {tp: m for m in members for tp in m.owned()}

        def refused(*arguments: str) -> str:
            ended = run_to_end([*arguments, "--bootstrap", kafka.bootstrap, "--topic", control])
            assert ended.code == 2, ended.text
            return ended.text

        wait_settled(members, expected, spread=0, limit_s=240)
        target = next(n for n, m in enumerate(members, 1) if owners()[group, 0] is not m)
        ordered(kafka, control, "pin", group, f"{group}-0", f"rack:az{target}")
        wait_until(lambda: owners().keys() == expected and owners()[group, 0] is members[target - 1], 120, lead.tail)
        for order in (["evacuate", group], ["ban", group, f"{group}-0"]):
            why = refused(*order, f"rack:az{target}")
            assert f"has ordered pin of {group}-0, rack:az{target}" in why
            assert f"Withdraw that first: 'bellwether unpin {group} {group}-0'" in why
        again = ordered(kafka, control, "pin", group, f"{group}-0", f"rack:az{target}", "--reason", "again")
        assert "It replaces an order: " in again.text

        pinned, before = owners(), len(lead.log("decision", group=group))
        lead.stop()
        lead.start()
        began, without = time.monotonic(), 0
        while time.monotonic() - began < 20:
            without += owners() != pinned
            time.sleep(0.1)
        assert without == 0, lead.log_of(group)
        assert len(lead.log("decision", group=group)) == before, lead.log_of(group)

        began = time.monotonic()
        assert "leaves 1 group (night-orders)" in ordered(kafka, control, "leave", "--all", "--wait", "60").text
        left_s = time.monotonic() - began
        assert not lead.is_member(group)
        assert "ordered leave of 'night-orders', until resume" in ordered(kafka, control, "orders").text
        ordered(kafka, control, "resume", "--all")
        began = time.monotonic()
        wait_until(lambda: lead.is_member(group), 240, lead.tail)
        print(f"left within {left_s:.1f} s of the command, back {time.monotonic() - began:.1f} s after resume")
        assert [m.errors for m in members] == [[], [], []]


@pytest.mark.timeout(600)
def test_orders_do_what_they_say_or_nothing(kafka: KafkaCluster, tmp_path: Path) -> None:
    """In an eager group, where a rebalance stops everybody: what nobody can carry out is refused and leaves no trace,
    what would move nothing begins no rebalance, what moves something is the recorded cause, and a replay knows the
    orders."""
    group, control, events = "honest-orders", "honest-control", "honest-events"
    kafka.create_topic(group, PARTITIONS)

    def reported(code: int, *arguments: str) -> str:
        ended = run_to_end([*arguments, "--bootstrap", kafka.bootstrap, "--topic", control])
        assert ended.code == code, ended.text
        return ended.text

    assert "There is no control topic 'honest-control'" in reported(2, "leave", group)
    assert control not in kafka.admin.list_topics(timeout=10).topics
    running = Bellwether(kafka, [group], control_topic=control, events={"topic": events})
    with running as lead, Flock(kafka.bootstrap) as flock:
        members = [flock.member("confluent", group, [group], ["range"], rack=f"az{n}") for n in (1, 2, 3)]
        wait_settled(members, partitions_of({group: PARTITIONS}), spread=0, limit_s=120)

        def decisions() -> list[dict[str, Any]]:
            return lead.log("decision", group=group)

        before = len(decisions())
        assert "No standby has reported" in reported(2, "drain")
        assert "No Bellwether with the group 'honest-ordres' has reported" in reported(2, "leave", "honest-ordres")
        assert "No member is rack:az9; racks are az1, az2, az3." in reported(2, "evacuate", group, "rack:az9")
        assert "is neither a topic nor a partition" in reported(2, "pin", group, f"{group}-99", "rack:az1")
        simulated = reported(0, "evacuate", group, "rack:az1", "--dry-run")
        assert re.search(r"^Plan: [1-9]\d* partitions? moves?, ", simulated, re.MULTILINE), simulated
        assert "ordered" not in reported(0, "orders")
        reported(0, "evacuate", group, "rack:az9", "--force")
        lead.logged("order_changes_nothing", group=group)
        assert len(decisions()) == before, "a round that moves nothing has stopped everybody"
        message = reported(0, "evacuate", group, "rack:az1", "--reason", "new disks", "--wait", "60")
        assert "It is in effect." in message
        assert "bellwether unpin honest-orders rack:az1" in message
        assert "evacuate of rack:az1 in 'honest-orders' (new disks)" in decisions()[-1]["cause"]
        assert decisions()[-1]["moved"] > 0
        reported(0, "unpin", group, "rack:az1")
        wait_until(
            lambda: "rack:az1 in 'honest-orders' (new disks): withdrawn" in decisions()[-1]["cause"], 60, lead.tail
        )
    history = tmp_path / "history"
    copied = run_to_end(
        ["debug", "history", "--bootstrap", kafka.bootstrap, "--events-topic", events, "--file", str(history)]
    )
    assert copied.code == 0, copied.text
    replayed = run_to_end(["debug", "replay", str(history)])
    assert replayed.code == 0, replayed.text
    message = [record["cause_kind"] for event, record in published(kafka, events) if event == "decision"]
    assert message.count("ordered") == 2, message


def published(kafka: KafkaCluster, topic: str) -> list[tuple[str, dict[str, Any]]]:
    def begun_and_ended(line: Any) -> bool:
        return sum(record.get("cause_kind") == "ordered" for _, record in decoded(line)) == 2

    return decoded(read_until(kafka, topic, begun_and_ended, 60))


@contextmanager
def counting(
    kafka: KafkaCluster, folder: Path, name: str, control: str
) -> Iterator[tuple[Application, Bellwether, StreamsApp, Load]]:
    """An application whose policy carries out orders, without instances yet; its next tick is ten minutes away."""
    common = application(kafka, name, probing_interval_ms=600_000, session_timeout_ms=30_000)
    with following(kafka, common, folder, control, keys=300) as (lead, app, load):
        yield common, lead, app, load


@pytest.mark.timeout(900)
def test_an_evacuation_waits_for_warm_ups_and_for_no_tick(kafka: KafkaCluster, tmp_path: Path) -> None:
    """Tasks of which nobody has a copy are elsewhere as soon as they can be."""
    control = "hurried-control"
    with counting(kafka, tmp_path, "hurried-counts", control) as (common, lead, app, load):
        load.produce(20 * RECORDS)
        for name, rack in (("one", "az1"), ("two", "az2")):
            app.add(name, rack)
        app.wait_settled(limit_s=SETTLE_S)
        app.wait_counted(load.expected)
        leaving, began = app.instances["one"], time.monotonic()
        assert leaving.running
        evacuated = ordered(kafka, control, "evacuate", common.application_id, "rack:az1", "--wait", "150")
        wait_until(lambda: not leaving.running and app.complete(), SETTLE_S, app.send)
        took_s = time.monotonic() - began
        print(f"empty after {took_s:.1f} s, where the tick would have come after 600 s\n{evacuated.text}")
        assert took_s < 300
        causes = [entry["cause"] for entry in lead.log("streams_decision")]
        assert any("has ordered evacuate of rack:az1" in cause for cause in causes), causes


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_a_rack_of_an_application_is_evacuated_and_no_task_waits_for_more_than_one_rebalance(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """Nobody has a copy of what the rack holds: everything is warmed up elsewhere first, and then handed over."""
    control = "evacuated-control"
    with counting(kafka, tmp_path, "evacuated-counts", control) as (common, lead, app, load):
        load.produce(RECORDS)
        for name, rack in (("one", "az1"), ("two", "az2"), ("three", "az3")):
            app.add(name, rack)
        app.wait_settled(spread=1, limit_s=SETTLE_S)
        app.wait_counted(load.expected)
        load.start(100)
        leaving, began_ms = app.instances["one"], app.timeline().ordered[-1].t_ms
        tasks = leaving.running
        assert tasks
        ordered(kafka, control, "evacuate", common.application_id, "rack:az1", "--reason", "new disks")
        wait_until(lambda: not leaving.running and app.complete(), SETTLE_S, app.send)
        app.wait_settled(limit_s=SETTLE_S)
        load.stop()
        app.wait_counted(load.expected)
        line = app.timeline()
        assert line.overlaps() == []
        waited = {task: rebalances_without(common, line, task, began_ms) for task in tasks}
        assert waited
        print(
            f"handed over in {max(waited.values())} round, {longest_gap_ms(line, tasks, began_ms)} ms at most: {waited}"
        )
        assert max(waited.values()) == 1, waited
        warmed = [entry["warmups"] for entry in lead.log("streams_decision") if entry["warmups"]]
        assert warmed, "tasks with state have moved without a warm-up"
        assert strangers(kafka, common.application_id) == []
        assert failures(app) == []
        ordered(kafka, control, "unpin", common.application_id, "*")
        wait_until(lambda: bool(leaving.running), SETTLE_S, app.send)


def rebalances_without(app: Application, line: Timeline, task: str, since_ms: int) -> int:
    """How many generations lie between the one in which its owner gave a task up and the one that gave it to the next:
    1 is the follow-up rebalance. The largest of all its moves since then."""
    spans = [span for span in line.spans[task] if span.end_ms >= since_ms]
    assert len(spans) > 1, f"{task} has not moved"
    return max(
        _generation(app, line, task, after, "assigned") - _generation(app, line, task, before, "revoked")
        for before, after in itertools.pairwise(spans)
        if before.instance != after.instance
    )


def longest_gap_ms(line: Timeline, tasks: Iterable[str], since_ms: int) -> int:
    """The longest time without an owner of any of these tasks, by the members' own words."""
    return max(
        after.start_ms - before.end_ms
        for task in tasks
        for before, after in itertools.pairwise([span for span in line.spans[task] if span.end_ms >= since_ms])
    )


def _generation(app: Application, line: Timeline, task: str, span: Span, event: str) -> int:
    """Of the last time that the owner of this span was assigned the task before it ran, or of the first time that it
    gave it up after it had ended."""

    def names_it(h: Happening) -> bool:
        subtopology, partition = map(int, task.split("_"))
        return any(t in app.sources[subtopology] and p == partition for t, p in h.message["partitions"])

    message = [h for h in line.ordered if h.instance == span.instance and h.event == event and names_it(h)]
    near = (
        [h for h in message if h.t_ms <= span.start_ms][-1:]
        if event == "assigned"
        else [h for h in message if h.t_ms >= span.end_ms][:1]
    )
    assert near, f"{span.instance} does not say when {task} was {event}: {json.dumps([h.message for h in message])}"
    return int(near[0].message["generation"])
