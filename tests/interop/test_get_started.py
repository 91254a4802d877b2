"""The pages of docs/get-started, followed on real brokers with real groups: every command as the page has it.

Groups, clients and files have the names of the pages, so only addresses, a path and a login are replaced. A `systemctl`
that restarts processes of the test is on the PATH.
"""

import inspect
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import yaml

from bellwether_kafka.coordinator.settings import load
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment
from tests.get_started_pages import PAGES
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.groups import (
    PATIENT,
    PATIENT_WITH_APPLICATIONS,
    create_local_topic,
    until_unrivalled,
    without_members_in_the_way,
)
from tests.interop.support.jvm import java
from tests.interop.support.members import Flock, partitions_of, wait_until
from tests.interop.support.pages.reader import Reader, executable, following, with_examples_replaced
from tests.interop.support.pages.terminal import Terminal
from tests.interop.support.pages.units import SYSTEMCTL, running_units
from tests.interop.support.raw import GroupMember, RawError, describe
from tests.interop.support.rebalances import rebalances
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_application import OPTIONS, Application, write_properties
from tests.interop.support.streams_led import app_without_members_in_the_way, generation_of, led_by_java, strangers
from tests.interop.support.streams_load import Load

ORDERS, WORDCOUNT = "orders", "wordcount"
PATIENT_APPLICATION = {**PATIENT_WITH_APPLICATIONS, "roll_ms_max": 7_000}
PARTITIONS = 6
SESSION_MS, HEARTBEAT_MS = 45_000, 3_000  # the clients' defaults, which the pages name
FAR_BELOW_THE_SESSION_S = SESSION_MS / 1000 / 3
LED_WITHIN_S = 60.0
KNOWN_S = 12.0  # the page has ten seconds: the guard knows then which member is its child's
FOLLOWED = {
    "README": "test_a_configuration_is_made_for_a_cluster",
    "observe-my-cluster": "test_a_cluster_is_observed",
    "lead-a-consumer-group": "test_a_consumer_group_is_led_and_given_back",
    "lead-a-streams-application": "test_a_streams_application_is_led_and_given_back",
    "remove-ghosts-only": "test_a_ghost_is_removed_when_its_successor_has_joined",
    "restart-without-a-pause": "test_an_instance_is_guarded_and_restarted_when_it_is_empty",
}


INSTANCE = f"""#!{sys.executable}
import signal, sys
from confluent_kafka import Consumer
stopping = []
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
consumer = Consumer({{"bootstrap.servers": "BROKERS", "group.id": "{ORDERS}", "client.id": sys.argv[2], "log_level": 0,
    "partition.assignment.strategy": "range"}})
consumer.subscribe(["{ORDERS}"])
while not stopping:
    consumer.poll(0.1)
consumer.close()
"""


pytestmark = pytest.mark.timeout(700)


def topics(kafka: KafkaCluster) -> None:
    """Of the group and the application, unless another test has made them."""
    if ORDERS not in kafka.admin.list_topics(timeout=10).topics:
        create_local_topic(kafka, ORDERS, PARTITIONS)
        kafka.create_topic(f"{WORDCOUNT}-in", PARTITIONS)
        kafka.create_topic(f"{WORDCOUNT}-out", 1)


def at_rest(kafka: KafkaCluster, group: str, count: int) -> bool:
    try:
        description = describe(kafka.bootstrap, group)
    except (RawError, OSError):
        return count == 0
    return len(description.members) == count and (not count or description.state == "Stable")


def ids(kafka: KafkaCluster, group: str) -> set[str]:
    return {member.member_id for member in describe(kafka.bootstrap, group).members}


def shares(kafka: KafkaCluster, group: str) -> dict[str, int]:
    """How many partitions each client id has."""
    counts: dict[str, int] = {}
    for member in describe(kafka.bootstrap, group).members:
        given = ConsumerProtocolAssignment.decode(member.assignment).partitions if member.assignment else ()
        counts[member.client_id] = counts.get(member.client_id, 0) + len(given)
    return counts


@contextmanager
def running_orders(kafka: KafkaCluster) -> Iterator[None]:
    """Two Java consumers, each in a rack, at rest and without what an earlier test has left. Neither keeps the other's
    lead from being taken over, which the pages have as an exception."""
    topics(kafka)
    wait_until(lambda: at_rest(kafka, ORDERS, 0), 60, lambda: "members of another test have not left")
    with Flock(kafka.bootstrap) as flock:
        members = [flock.member("java", ORDERS, [ORDERS], ["range"], rack=rack) for rack in ("az1", "az2")]
        without_members_in_the_way(kafka, members, ORDERS, partitions_of({ORDERS: PARTITIONS}))
        yield


@contextmanager
def running_wordcount(kafka: KafkaCluster, *instances: str, leaves: bool) -> Iterator[StreamsApp]:
    """An application with the defaults that the pages name and one standby; default client ids. `leaves`: when an
    instance closes, which is no default, so that the next test need not wait for a session."""
    topics(kafka)
    wait_until(lambda: at_rest(kafka, WORDCOUNT, 0), 60, lambda: "members of another test have not left")
    common = Application(
        WORDCOUNT,
        (f"{WORDCOUNT}-in",),
        f"{WORDCOUNT}-out",
        PARTITIONS,
        standbys=1,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        settings={"client.id": "", "app.leave": str(leaves).lower()},
    )
    with StreamsApp(kafka, common) as app, Load(kafka, common.topics[0], keys=50) as load:
        load.produce(500)
        for name in instances:
            app.add(name, settings=dict(common.settings))
        app.wait_settled(spread=1)
        yield app


def test_every_page_is_followed_by_a_test() -> None:
    assert {"README", *PAGES} == set(FOLLOWED)
    for page, test in FOLLOWED.items():
        assert f'"{page}"' in inspect.getsource(globals()[test])


def test_a_page_that_does_not_work_or_is_not_followed_to_its_end_is_found(tmp_path: Path) -> None:
    page = "```sh\ntrue\nfalse\n```\n```sh\necho last\n```\n"
    with closing(Terminal(tmp_path, dict(os.environ))) as terminal:
        of_no_page = Reader(page, terminal, terminal, tmp_path, "")
        with pytest.raises(AssertionError, match="false has ended with 1"):
            of_no_page.paste("true")
        with pytest.raises(AssertionError, match="echo last"):
            of_no_page.finish()
        with pytest.raises(AssertionError, match="'echo first' is not in the next block"):
            of_no_page.paste("echo first")
    with pytest.raises(AssertionError, match="does not have the example 'broker-9:9092' any more"):
        with_examples_replaced("README", {"broker-9:9092": ""})


def test_a_configuration_is_made_for_a_cluster(kafka: KafkaCluster, tmp_path: Path) -> None:
    login = {"security.protocol=SSL": "security.protocol=PLAINTEXT"}
    with running_orders(kafka), following(kafka, "README", tmp_path, login) as reader:
        reader.paste("bellwether init")
        observed, led = load(tmp_path / "bellwether.toml", environ={}), load(tmp_path / "orders.toml", environ={})
        assert {group.mode for group in observed.groups} == {"observe"}
        assert [group.name for group in led.groups if group.mode == "lead"] == [ORDERS]


def test_a_cluster_is_observed(kafka: KafkaCluster, tmp_path: Path) -> None:
    shorter = {"--for 1m": "--for 10s"}
    with running_orders(kafka), following(kafka, "observe-my-cluster", tmp_path, shorter) as reader:
        before = rebalances(kafka, ORDERS)
        reader.paste("export")
        assert re.search(r"^orders +a member +consumer +Stable$", reader.paste("bellwether groups"), re.MULTILINE)
        described = reader.paste("bellwether describe")
        assert "orders: classic, Stable, range; can be led" in described
        assert re.search(r"^planned +0 ", described, re.MULTILINE)
        assert "Nothing was applied." in reader.paste("bellwether plan")
        assert "[[groups]]" in reader.paste("bellwether assess", limit_s=180), "the configuration to begin with"
        reader.start("bellwether run")
        reader.serves("/", "<html")
        reader.serves("/metrics", 'group="orders"')
        assert reader.first.interrupt() == 0
        assert rebalances(kafka, ORDERS) == before, "nothing has changed in the group"
        assert len(describe(kafka.bootstrap, ORDERS).members) == 2


def lead_until_undone(kafka: KafkaCluster, reader: Reader, group: str) -> None:
    """The steps from `run` on, which are the same for groups and applications."""
    reader.start("bellwether run")
    reader.appears(rf"role .*group={group} leading=True", limit_s=LED_WITHIN_S)
    check = reader.paste("bellwether groups", into=reader.second)
    assert re.search(rf"^{group} +Bellwether ", check, re.MULTILINE)
    assert re.search(rf"^{group}: .*led by Bellwether", check, re.MULTILINE)
    reader.serves("/", "<html")
    reader.serves("/metrics", f'group="{group}"')
    generation = generation_of(kafka, group)
    message = reader.paste("bellwether leave", into=reader.second)
    assert " ".join(message.split()) == reader.shown("stays out")
    wait_until(lambda: led_by_java(kafka, group, generation), 60, lambda: str(strangers(kafka, group)))
    assert reader.first.interrupt() == 0


@pytest.mark.smoke
def test_a_consumer_group_is_led_and_given_back(kafka: KafkaCluster, tmp_path: Path) -> None:
    with running_orders(kafka), following(kafka, "lead-a-consumer-group", tmp_path) as reader:
        reader.paste_in_both("export")
        reader.write("bellwether.toml", 'mode = "lead"', PATIENT)
        checks = reader.paste("bellwether doctor")
        assert "pass group: A classic group, Stable, with 2 members." in checks
        assert not re.search(r"^fail ", checks, re.MULTILINE), checks
        assert "Nothing was applied." in reader.paste("bellwether plan")
        lead_until_undone(kafka, reader, ORDERS)
        wait_until(lambda: at_rest(kafka, ORDERS, 2), 60, lambda: "the members are not at rest without Bellwether")


def decide_changelogs(file: Path, application: Application) -> None:
    """What the page asks of the reader where two stores look alike from outside: each to its subtopology."""
    document = yaml.safe_load(file.read_text())
    for topic in document.pop("UndecidedChangelogTopics", []):
        name = topic if isinstance(topic, str) else topic["Name"]
        number = next(number for number, topics in application.changelogs.items() if name in topics)
        part = next(part for part in document["Subtopologies"] if part["SubtopologyId"] == str(number))
        part["StateChangelogTopics"] = [*part.get("StateChangelogTopics", []), topic]
    file.write_text(yaml.safe_dump(document))


def test_a_streams_application_is_led_and_given_back(kafka: KafkaCluster, tmp_path: Path) -> None:
    page = "lead-a-streams-application"
    classes = {
        "app.jar:lib/*:topology-exporter.jar": java().classpath,
        "com.example.WordCount": "bellwether.StreamsExport",
    }
    with (
        running_wordcount(kafka, "one", "two", leaves=True) as app,
        following(kafka, page, tmp_path, classes) as reader,
    ):
        app_without_members_in_the_way(kafka, app)
        write_properties(app.application, tmp_path / "app.properties")
        reader.paste_in_both("export")
        shown = reader.paste("TopologyExporter")
        assert f"application {WORDCOUNT}" in shown
        exported = (tmp_path / "topology.yaml").read_text()
        shown = reader.paste("topology learn")
        assert f"application {WORDCOUNT}" in shown
        if "undecided" in shown:
            decide_changelogs(tmp_path / "topology.yaml", app.application)
            shown = reader.first.run("bellwether topology show topology.yaml")[1]
            assert "undecided" not in shown
        (tmp_path / "topology.yaml").write_text(exported)
        reader.write("bellwether.toml", 'kind = "streams"', PATIENT_APPLICATION)
        checks = reader.paste("bellwether doctor")
        assert not re.search(r"^fail ", checks, re.MULTILINE), checks
        assert "Nothing was applied." in checks
        lead_until_undone(kafka, reader, WORDCOUNT)
        app.wait_settled()


def instance_under_guard(reader: Reader) -> int:
    """The process id of the instance that runs in the first terminal: the guard puts it in the foreground."""
    instance = reader.first.job
    assert instance is not None, reader.first.text()
    return instance


@pytest.mark.timeout(900)
def test_an_instance_is_guarded_and_restarted_when_it_is_empty(kafka: KafkaCluster, tmp_path: Path) -> None:
    topics(kafka)
    wait_until(lambda: at_rest(kafka, ORDERS, 0), 60, lambda: "members of another test have not left")
    executable(tmp_path / "orders", INSTANCE.replace("BROKERS", kafka.bootstrap))
    with (
        following(kafka, "restart-without-a-pause", tmp_path) as reader,
        running_units(tmp_path, "orders-8", "orders-9"),
    ):
        executable(tmp_path / "bin" / "systemctl", SYSTEMCTL)
        killed_under_guard(kafka, reader)
        with running_units(tmp_path, "orders-7"):
            restarted_when_empty(kafka, reader)


def killed_under_guard(kafka: KafkaCluster, reader: Reader) -> None:
    reader.paste_in_both("START=")
    reader.start('--client-id "$MEMBER"')
    reader.leave_out("--state-dir", "a Streams application has a test of its own below")
    wait_until(lambda: at_rest(kafka, ORDERS, 3), 60, reader.first.text)
    assert "orders-7" in reader.paste("bellwether describe", into=reader.second)
    time.sleep(KNOWN_S)
    os.kill(instance_under_guard(reader), signal.SIGKILL)
    began = time.monotonic()
    assert reader.first.wait() == 128 + signal.SIGKILL
    reader.appears("Removed 1 of its 1 members")
    wait_until(lambda: shares(kafka, ORDERS) == {"orders-8": 3, "orders-9": 3}, 60, reader.first.text)
    took_s = time.monotonic() - began
    print(f"the others had its partitions after {took_s:.1f} s")
    assert took_s < FAR_BELOW_THE_SESSION_S


def unit_restarted(kafka: KafkaCluster, folder: Path, member: GroupMember) -> None:
    """A unit comes back by itself, under the same client id."""
    os.kill(int((folder / f"{member.client_id}.pid").read_text()), signal.SIGTERM)
    wait_until(lambda: member.member_id not in ids(kafka, ORDERS), 60, lambda: f"{member.client_id} has not left")


def restarted_when_empty(kafka: KafkaCluster, reader: Reader) -> None:
    def settle() -> None:
        wait_until(lambda: at_rest(kafka, ORDERS, 3), 60, lambda: str(shares(kafka, ORDERS)))

    until_unrivalled(kafka, ORDERS, settle, lambda member: unit_restarted(kafka, reader.folder, member))
    reader.write("bellwether.toml", 'mode = "lead"', PATIENT)
    reader.start_inline("bellwether run --config bellwether.toml")
    reader.appears(rf"role .*group={ORDERS} leading=True", limit_s=LED_WITHIN_S)
    reader.paste("RESTART=", into=reader.second)
    assert "orders-7" in reader.paste("bellwether simulate", into=reader.second)
    evacuated = reader.paste("bellwether evacuate", into=reader.second, limit_s=330)
    assert reader.shown("is to be empty until it is back") in " ".join(evacuated.split())
    assert "It is in effect." in evacuated
    assert shares(kafka, ORDERS)["orders-7"] == 0
    back = reader.paste("bellwether debug ready", into=reader.second, limit_s=330)
    assert reader.shown("has its share of orders") in back
    assert shares(kafka, ORDERS)["orders-7"] == 2
    rolled = reader.paste("bellwether roll", into=reader.second, limit_s=330)
    assert len(re.findall(r"^orders-[789]: empty after .* its share back", rolled, re.MULTILINE)) == 3
    reader.paste_again("bellwether evacuate", into=reader.second, limit_s=330)
    assert "Withdrawn: " in reader.paste("bellwether unpin", into=reader.second)
    wait_until(lambda: shares(kafka, ORDERS)["orders-7"] == 2, 60, lambda: str(shares(kafka, ORDERS)))
    assert reader.first.interrupt() == 0


def test_an_application_is_guarded_by_its_state_directory(kafka: KafkaCluster, tmp_path: Path) -> None:
    state = tmp_path / "state"
    here = {
        "GROUP=orders": f"GROUP={WORDCOUNT}",
        "'./orders --client-id orders-7'": "./wordcount",
        "/var/lib/wordcount": str(state),
    }
    with (
        running_wordcount(kafka, "two", leaves=True) as app,
        following(kafka, "restart-without-a-pause", tmp_path, here) as reader,
    ):
        pairs = [f"{key}={value}" for key, value in app.application.arguments(kafka.bootstrap, state).items()]
        command = shlex.join(java().command("bellwether.StreamsMain", *pairs, options=OPTIONS))
        os.mkfifo(tmp_path / "input")  # the end of its input would end the instance
        executable(tmp_path / "wordcount", f"#!/bin/sh\nexec {command} <> input > output.log 2>&1\n")
        reader.paste_in_both("START=")
        reader.leave_out('--client-id "$MEMBER"', "plain consumers have a test of their own above")
        reader.start("--state-dir")
        wait_until(lambda: at_rest(kafka, WORDCOUNT, 2), 60, reader.first.text)
        assert WORDCOUNT in reader.paste("bellwether describe", into=reader.second)
        wait_until(lambda: not app.complete(), 60, lambda: "the guarded instance runs no task")
        os.kill(instance_under_guard(reader), signal.SIGKILL)
        began = time.monotonic()
        assert reader.first.wait() == 128 + signal.SIGKILL
        reader.appears("Removed 1 of its 1 members")
        wait_until(app.complete, 60, app.send)
        took_s = time.monotonic() - began
        print(f"the other instance ran its tasks after {took_s:.1f} s")
        assert took_s < FAR_BELOW_THE_SESSION_S
        reader.leave_out_rest("as another test runs them")


def test_a_ghost_is_removed_when_its_successor_has_joined(kafka: KafkaCluster, tmp_path: Path) -> None:
    page = "remove-ghosts-only"
    with running_wordcount(kafka, "one", "two", leaves=False) as app, following(kafka, page, tmp_path) as reader:
        reader.paste_in_both("export")
        reader.start("--mode assist")
        reader.appears(rf"online_conversion.*group={WORDCOUNT}\b")
        before = ids(kafka, WORDCOUNT)

        def renewed() -> bool:
            return at_rest(kafka, WORDCOUNT, 2) and len(ids(kafka, WORDCOUNT) & before) == 1

        assert app.instances["one"].stop() == 0
        app.start("one", settings=dict(app.application.settings))
        app.wait_started("one")
        began = time.monotonic()
        wait_until(renewed, SESSION_MS / 1000, app.send)
        took_s = time.monotonic() - began
        print(f"the restarted instance was in the group at rest after {took_s:.1f} s")
        assert took_s < FAR_BELOW_THE_SESSION_S
        removed = reader.paste("bellwether_ghosts_removed_total", into=reader.second)
        assert re.search(rf'group="{WORDCOUNT}",proof="\w+"\}} 1\.0', removed), removed
        reader.appears(r"ghosts .*what=GHOST")
        assert reader.first.interrupt() == 0
        for words in ('mode = "assist"', "client_ids_unique = true"):
            reader.write("bellwether.toml", words)
            seen = reader.first.text().count("online_conversion")
            reader.start_inline("bellwether run --config bellwether.toml")
            reader.appears(rf"(?s)(online_conversion.*){{{seen + 1}}}")
            assert reader.first.interrupt() == 0
        assert at_rest(kafka, WORDCOUNT, 2), "no rebalance follows when Bellwether ends"
