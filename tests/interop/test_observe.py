"""Groups are looked at and not touched: led by Java, by a broker, plain consumers and Streams applications."""

import json
import signal
import subprocess
import urllib.request
from collections import defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.interop.support.bellwether import COMMAND, Bellwether, Ended, clean_environment, run_to_end, toml
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.jvm import java
from tests.interop.support.members import Flock, partitions_of, wait_settled, wait_until
from tests.interop.support.ports import LOOPBACK, PortLease
from tests.interop.support.raw import describe
from tests.interop.support.rebalances import rebalances
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_application import Application
from tests.interop.support.streams_load import Load
from tests.interop.support.streams_stage import bellwether_options, create_topics, write_topology
from tests.paths import ROOT
from tests.pipeline.topics import decoded, read_until

pytestmark = pytest.mark.broker


def seen(kafka: KafkaCluster, group: str, *more: str) -> dict[str, Any]:
    ended = run_to_end(["describe", group, "--bootstrap", kafka.bootstrap, "--output", "json", *more])
    assert ended.code == 0, ended.text
    document: dict[str, Any] = json.loads(ended.stdout)
    return document


def owned(document: dict[str, Any]) -> list[tuple[str, int]]:
    return sorted((topic, partition) for m in document["members"] for topic, partition in m["owned"])


@pytest.mark.smoke
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_consumers_are_seen_with_a_shadow_plan(kafka: KafkaCluster, protocol: str) -> None:
    group = f"observed-{protocol}"
    kafka.create_topic(group, 6, rf=3)
    expected = partitions_of({group: 6})
    with Flock(kafka.bootstrap) as flock:
        more = {"protocol": "consumer"} if protocol == "consumer" else {}
        members = [flock.member("java", group, [group], ["range"], rack="az1", **more) for _ in range(2)]
        wait_settled(members, expected, spread=0)
        before = rebalances(kafka, group)
        observed = seen(kafka, group)
        assert owned(observed) == sorted(expected)
        assert observed["type"] == protocol
        assert observed["shadow"]["current"]["unowned"] == 0
        assert observed["shadow"]["planned"]["unowned"] == 0
        assert {m["rack"] for m in observed["members"]} == {"az1"}
        assert set(observed["lags"]) == {group}
        assert observed["can_be_led"] == (protocol == "classic")
        assert ("no client can lead it" in observed["obstacle"]) == (protocol == "consumer")
        assert rebalances(kafka, group) == before
        assert protocol == "consumer" or len(describe(kafka.bootstrap, group).members) == 2


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_are_assessed_under_every_policy(kafka: KafkaCluster, protocol: str) -> None:
    """A group that its broker has settled is what Bellwether's reading of the broker's assignor would leave alone."""
    group = f"assessed-{protocol}"
    kafka.create_topic(group, 6, rf=1)
    with Flock(kafka.bootstrap) as flock:
        more = {"protocol": "consumer"} if protocol == "consumer" else {}
        members = [flock.member("java", group, [group], ["range"], rack=rack, **more) for rack in ("az1", "az2")]
        wait_settled(members, partitions_of({group: 6}), spread=1)
        before = rebalances(kafka, group)
        ended = run_to_end(
            ["assess", group, "--bootstrap", kafka.bootstrap, "--for", "3s", "--interval", "1", "-o", "json"]
        )
        assert ended.code == 0, ended.text
        (reported,) = json.loads(ended.stdout)
        rows = {row["policy"]: row for row in reported["rows"]}
        as_led = "broker-uniform" if protocol == "consumer" else "kafka"
        assert rows[as_led]["moves"] == 0
        assert rows["rack-first"]["measures"]["cross_rack"] <= rows["now"]["measures"]["cross_rack"]
        assert rows["rack-first"]["measures"]["cross_rack"] <= rows["broker-range"]["measures"]["cross_rack"]
        assert reported["periods"][0]["rebalances"] == 0
        assert ('mode = "observe"' in reported["configuration"]) or protocol == "classic"
        assert rebalances(kafka, group) == before


APPLICATIONS: dict[str, dict[str, str]] = {"classic": {}, "streams": {"group.protocol": "streams"}}


@pytest.mark.parametrize("protocol", APPLICATIONS)
def test_applications_are_seen_with_their_tasks(kafka: KafkaCluster, tmp_path: Path, protocol: str) -> None:
    """A broker knows the topology of its application; that of a classic one comes from a file."""
    name = f"observed-app-{protocol}"
    application = Application(name, (f"{name}-in",), f"{name}-out", 3, settings=APPLICATIONS[protocol])
    create_topics(kafka, application)
    with StreamsApp(kafka, application) as app, Load(kafka, application.topics[0], keys=50) as load:
        load.produce(500)
        app.add("one", "az1")
        app.wait_settled()
        app.wait_counted(load.expected)
        before = rebalances(kafka, name)
        config = tmp_path / "bellwether.toml"
        topology = write_topology(application, tmp_path)
        options = bellwether_options(application, topology, leads=False) if protocol == "classic" else {}
        config.write_text(toml({"bootstrap.servers": kafka.bootstrap}, [{"name": name, **options}]))
        observed = seen(kafka, name, "--config", str(config))
        tasks = [task for m in observed["members"] for task in m["active"]]
        assert sorted(tasks) == sorted(application.tasks)
        assert observed["type"] == protocol
        assert observed["shadow"] is not None, observed["trouble"]
        assert observed["shadow"]["current"]["unowned"] == observed["shadow"]["planned"]["unowned"] == 0
        assert observed["shadow"]["moves"]["moved"] == 0
        assert observed["can_be_led"] == (protocol == "classic")
        assert rebalances(kafka, name) == before


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_changes_of_an_application_are_simulated(kafka: KafkaCluster, tmp_path: Path) -> None:
    """`simulate`: one more process, and the loss of the only rack."""
    name = "imagined-app"
    application = Application(name, (f"{name}-in",), f"{name}-out", 3)
    create_topics(kafka, application)
    with StreamsApp(kafka, application) as app, Load(kafka, application.topics[0], keys=50) as load:
        load.produce(500)
        app.add("one", "az1")
        app.wait_settled()
        app.wait_counted(load.expected)
        config = tmp_path / "bellwether.toml"
        options = bellwether_options(application, write_topology(application, tmp_path), leads=False)
        config.write_text(toml({"bootstrap.servers": kafka.bootstrap}, [{"name": name, **options}]))
        simulated(name, config)


def simulated(name: str, config: Path) -> None:
    added = run_to_end(["simulate", name, "--config", str(config), "--add", "1", "--add-rack", "az2", "-o", "json"])
    assert added.code == 0, added.text
    reported = json.loads(added.stdout)
    assert [len(answer["holders"]) for answer in reported] == [2] * len(reported)
    assert reported[-1]["unowned"] == 0
    assert not reported[-1]["waits_for_probing"]
    assert sum(answer["moved"] for answer in reported) > 0
    assert all(answer["restored_bytes"] >= answer["restored"] for answer in reported), "a record is a byte and more"
    assert sum(answer["restored_bytes"] for answer in reported) > 0
    lost = run_to_end(["simulate", name, "--config", str(config), "--without", "rack:az1"])
    assert (lost.code, "Nobody would be left" in lost.stderr) == (2, True), lost.text


def test_a_group_that_does_not_exist_is_reported_so(kafka: KafkaCluster) -> None:
    for command in ("describe", "plan", "explain", "simulate"):
        ended = run_to_end([command, "observed-nobody", "--bootstrap", kafka.bootstrap])
        assert (ended.code, ended.stdout) == (2, ""), ended.text
        assert "observed-nobody cannot be described: there is no such group yet." in ended.stderr


@pytest.mark.timeout(300)
def test_the_page_and_the_events_have_what_an_observed_group_shows_and_its_rebalances(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    group, events = "observed-page", "observed-page-events"
    kafka.create_topic(group, 4, rf=3)
    lease = PortLease()
    address = f"{LOOPBACK}:{lease.port}"
    process = Bellwether(kafka, [group], options={"mode": "observe"}, http_address=address, events={"topic": events})

    def shown() -> dict[str, Any]:
        try:
            with urllib.request.urlopen(f"http://{address}/api/groups/{group}", timeout=30) as answer:
                page: dict[str, Any] = json.load(answer)
                return page
        except OSError:
            return {"holders": (), "observed": {"rebalances": ()}}

    with Flock(kafka.bootstrap) as flock, ExitStack() as stack:
        stack.push(process)
        members = [flock.member("confluent", group, [group], ["range"], rack="az1")]
        wait_settled(members, partitions_of({group: 4}))
        process.start(wait=False)
        wait_until(lambda: sum(len(holder["items"]) for holder in shown()["holders"]) == 4, 60, process.tail)
        members.append(flock.member("confluent", group, [group], ["range"], rack="az2"))
        wait_settled(members, partitions_of({group: 4}))
        wait_until(lambda: any(line["moves"] for line in shown()["observed"]["rebalances"]), 60, process.tail)
        page = shown()
        published = decoded(read_until(kafka, events, lambda read: "snapshot" in dict(decoded(read)), 60))
        assessed = assessed_from(kafka, events, group, tmp_path / "history")
    lease.release()
    by_rack = {holder["rack"]: sorted(item["name"] for item in holder["items"]) for holder in page["holders"]}
    assert {rack: len(items) for rack, items in by_rack.items()} == {"az1": 2, "az2": 2}
    names = sorted(name for items in by_rack.values() for name in items)
    assert names == [f"{group}-{partition}" for partition in range(4)]
    (line,) = page["observed"]["rebalances"]
    assert line["cause"].endswith("joined")
    assert line["moves"] == {"kept": 2, "moved": 2, "new": 0, "lost": 0}
    assert 0 <= line["lasted_ms_min"] <= line["lasted_ms_max"]
    assert page["observed"]["shadow"]["current"]["unowned"] == 0
    assert {member["client_host"] for member in page["observed"]["members"]} == {"/127.0.0.1"}
    is_published(published, line, by_rack)
    assert (assessed["source"], assessed["rebalances"], assessed["moved"]) == ("records", 1, 2)
    assert (assessed["member_s_min"], assessed["member_s_max"]) == (
        2 * line["lasted_ms_min"] / 1000, 2 * line["lasted_ms_max"] / 1000,
    )  # fmt: skip
    crossing = {row["policy"]: row["cross_rack"] for row in assessed["policies"]}
    assert {"as recorded", "kafka", "rack-first", "broker-range"} <= crossing.keys()


def is_published(events: list[tuple[str, dict[str, Any]]], line: Mapping[str, Any], items: Mapping[str, Any]) -> None:
    """The rebalance that the page shows, with who has what."""
    (decision,), (assignment,), (snapshot,) = (
        [record for event, record in events if event == wanted] for wanted in ("decision", "assignment", "snapshot")
    )
    assert (decision["source"], decision["generation"], decision["protocol"]) == ("observed", -1, "range")
    assert (decision["cause"], decision["cause_kind"]) == (line["cause"], "members joined")
    assert {name: decision[name] for name in line["moves"]} == line["moves"]
    assert [decision[name] for name in ("lasted_ms_min", "lasted_ms_max", "members_before", "members")] == [
        line["lasted_ms_min"], line["lasted_ms_max"], 1, 2,
    ]  # fmt: skip
    by_rack: dict[str, list[str]] = defaultdict(list)
    for entry in assignment["entries"]:
        by_rack[entry["rack"]].append(f"{entry['topic']}-{entry['partition']}")
    assert {rack: sorted(names) for rack, names in by_rack.items()} == items
    assert sum(entry["previous"] != entry["member"] for entry in assignment["entries"]) == line["moves"]["moved"]
    assert {member["member_id"] for member in snapshot["members"]} == {
        entry["member"] for entry in assignment["entries"]
    }


def assessed_from(kafka: KafkaCluster, events: str, group: str, file: Path) -> dict[str, Any]:
    """The period of the records that `bellwether debug history` copies."""
    copied = run_to_end(
        ["debug", "history", "--bootstrap", kafka.bootstrap, "--events-topic", events, "--file", str(file)]
    )
    assert copied.code == 0, copied.text
    ended = run_to_end(["assess", group, "--bootstrap", kafka.bootstrap, "--history", str(file), "-o", "json"])
    assert ended.code == 0, ended.text
    period: dict[str, Any] = json.loads(ended.stdout)[0]["periods"][1]
    return period


def test_groups_are_listed(kafka: KafkaCluster) -> None:
    ended: Ended = run_to_end(["groups", "--bootstrap", kafka.bootstrap], environment={"COLUMNS": "200"})
    assert ended.code == 0, ended.text
    assert "assigned by" in ended.stdout


@pytest.mark.proof
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("_in_the_foreground")
def test_top_shows_who_leads_and_why_the_last_rebalance_was(kafka: KafkaCluster, tmp_path: Path) -> None:
    led, other = "topped-led", "topped-other"
    for name in (led, other):
        kafka.create_topic(name, 4, rf=3)
    lease = PortLease()
    address = f"{LOOPBACK}:{lease.port}"
    with Flock(kafka.bootstrap) as flock, Bellwether(kafka, [led], http_address=address) as instance:
        members = [flock.member("confluent", name, [name], ["range"], rack="az1") for name in (led, other)]
        wait_settled(members[:1], partitions_of({led: 4}))
        wait_settled(members[1:], partitions_of({other: 4}))
        wait_until(lambda: bool(instance.log("decision", group=led, members=1)), 60, instance.tail)
        refreshed = run_to_end(
            [
                "top",
                led,
                other,
                "--bootstrap",
                kafka.bootstrap,
                "--url",
                f"http://{address}",
                "--once",
                "-o",
                "json",
            ]
        )
        assert refreshed.code == 0, refreshed.text
        rows = {row["group"]: row for row in json.loads(refreshed.stdout)}
        watched = refreshes_of_top(kafka, led, 2)
        drawn = run_to_end(["top", "--bootstrap", kafka.bootstrap, "--once"], environment={"COLUMNS": "300"})
    lease.release()
    assert (rows[led]["assigned_by"], rows[led]["members"]) == ("Bellwether", 1)
    assert rows[led]["generation"] in {entry["generation"] for entry in instance.log("decision", group=led)}
    assert rows[led]["cause"]
    assert (rows[other]["assigned_by"], rows[other]["generation"]) == ("a member", None)
    assert (rows[other]["unowned"], rows[other]["cross_rack"]) == (0, 0)
    assert (drawn.code, led in drawn.stdout, other in drawn.stdout) == (0, True, True), drawn.text
    assert [row["group"] for refresh in watched for row in refresh] == [led, led]


def refreshes_of_top(kafka: KafkaCluster, group: str, count: int) -> list[Any]:
    """So many looks of a `top` that goes on until it is interrupted, which is no failure."""
    command = [*COMMAND, "top", group, "--bootstrap", kafka.bootstrap, "--interval", "0.5", "--output", "json"]
    process = subprocess.Popen(
        command, cwd=ROOT, env=clean_environment({"PYTHONUNBUFFERED": "1"}), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        refreshes = [json.loads(process.stdout.readline()) for _ in range(count)]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()
    return refreshes


def test_the_output_of_kafkas_own_tool_is_printed_column_for_column(kafka: KafkaCluster) -> None:
    """With a partition that nobody owns, one behind its end, and others without a committed offset."""
    group = "as-kafka-prints"
    for topic in (group, f"{group}-left"):
        kafka.create_topic(topic, 3, rf=1)
    committed = [TopicPartition(group, 0, 3), TopicPartition(f"{group}-left", 2, 1)]
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for at in committed:
        for _ in range(7):
            producer.produce(at.topic, b"x", partition=at.partition)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group})
    consumer.commit(offsets=committed, asynchronous=False)
    consumer.close()
    # Its own limit is five seconds, in which its JVM may still be warming up.
    asked = ["--bootstrap-server", kafka.bootstrap, "--describe", "--group", group, "--timeout", "60000"]
    tool = java().command("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", *asked)
    with Flock(kafka.bootstrap) as flock:
        members = [flock.member("java", group, [group], ["range"]) for _ in range(2)]
        wait_settled(members, partitions_of({group: 3}), spread=1)
        kafkas = subprocess.run(tool, capture_output=True, text=True, timeout=240, check=True).stdout
        printed = run_to_end(["describe", group, "--bootstrap", kafka.bootstrap, "--output", "kafka"])
    assert printed.code == 0, printed.text
    assert lines_of(printed.stdout) == lines_of(kafkas)


def lines_of(printed: str) -> tuple[str, list[str]]:
    """The heading, and the lines in any order, without blanks at the end."""
    heading, *rows = (line.rstrip() for line in printed.splitlines() if line.strip())
    return heading, sorted(rows)
