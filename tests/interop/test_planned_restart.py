"""Restarts and a scale-in that are planned, of real members: empty before they stop, without work while they are away,
and with their share when they are back."""

import json
import re
import time
import urllib.request
from pathlib import Path

import pytest

from bellwether_kafka.coordinator.planning import CauseKind
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment
from tests.interop.support.bellwether import Bellwether, Ended, ordered, run_to_end
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock, Member, partitions_of, wait_settled, wait_until
from tests.interop.support.ports import LOOPBACK, PortLease
from tests.interop.support.raw import GroupMember, describe
from tests.interop.support.streams_led import application, following

PARTITIONS = 6
SESSION_MS = 120_000  # for this long a static member that is away is counted


def paused(metrics: str, cause: CauseKind) -> dict[str, float]:
    """How many pauses of this cause there were, and how many seconds in all."""
    sample = re.compile(rf'bellwether_pause_seconds_(count|sum)\{{cause="{cause.value}",group="restarted"\}} (\S+)')
    return {name: float(value) for name, value in sample.findall(metrics)}


@pytest.mark.timeout(900)
def test_static_members_are_restarted_one_after_another_and_one_of_them_is_removed(kafka: KafkaCluster) -> None:
    """Static members do not leave when they stop: only the order keeps partitions off one that is away."""
    group, control = "restarted", "restarted-control"
    kafka.create_topic(group, PARTITIONS)
    expected = partitions_of({group: PARTITIONS})

    def reported(*arguments: str) -> Ended:
        return run_to_end([*arguments, "--bootstrap", kafka.bootstrap, "--topic", control])

    def fetched(path: str) -> str:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=30) as answer:
            text: str = answer.read().decode()
            return text

    def listed(instance: str) -> GroupMember | None:
        return next((m for m in describe(kafka.bootstrap, group).members if m.instance_id == instance), None)

    lease = PortLease()
    address = f"{LOOPBACK}:{lease.port}"
    with (
        Bellwether(kafka, [group], control_topic=control, http_address=address) as lead,
        Flock(kafka.bootstrap) as flock,
    ):

        def member(number: int) -> Member:
            protocols, name = ["cooperative-sticky"], f"app-{number}"
            return flock.member("confluent", group, [group], protocols, instance=name, session_ms=SESSION_MS)

        members = [member(number) for number in (1, 2, 3)]
        wait_settled(members, expected, spread=0, limit_s=120)
        leaving, others = members[0], members[1:]

        ended = reported("evacuate", group, "member:app-1", "--wait", "60")
        assert ended.code == 0, ended.text + lead.log_of(group)
        assert not leaving.owned(), "nothing runs on it when the command returns"
        leaving.stop()
        former = listed("app-1")
        assert former is not None, "a static member is counted while it is away"

        wait_settled(others, expected, spread=0, limit_s=60)
        away = listed("app-1")
        assert away is not None
        assert away.member_id == former.member_id
        assert not ConsumerProtocolAssignment.decode(away.assignment).partitions, (
            "nothing is given to it while it is away"
        )
        assert "it is empty now" in reported("orders").text
        (status,) = json.loads(fetched("/api/groups"))
        ((shown,), handed_over) = status["emptying"], paused(fetched("/metrics"), CauseKind.ORDERED)
        assert (shown["where"], shown["stage"]) == ("member:app-1", "empty"), "the page says what is being emptied"
        assert "has ordered evacuate of member:app-1" in shown["order"]
        assert handed_over, "what was handed over had no owner for a moment"
        print(f"pauses by the order: {handed_over}")

        began = time.monotonic()
        leaving.start()
        wait_settled(members, expected, spread=0, limit_s=60)
        print(f"its share was back {time.monotonic() - began:.1f} s after its start")
        assert "app-1" not in reported("orders").text
        assert any("member:app-1 in 'restarted': it is back" in entry["cause"] for entry in lead.log("decision"))

        refused = reported("evacuate", group, "member:app-2", "--remove")
        assert refused.code == 2
        assert "member:app-2 still has work" in refused.text
        assert reported("evacuate", group, "member:app-2", "--wait", "60").code == 0
        members[1].stop()
        began = time.monotonic()
        removed = reported("evacuate", group, "member:app-2", "--remove", "--wait", "60")
        assert removed.code == 0, removed.text + lead.log_of(group)
        took_s = time.monotonic() - began
        assert listed("app-2") is None
        print(f"removed {took_s:.1f} s after the order, with a session of {SESSION_MS // 1000} s")
        wait_settled([members[0], members[2]], expected, spread=0, limit_s=60)
        assert [m.errors for m in members] == [[], [], []]
    lease.release()


@pytest.mark.timeout(600)
def test_an_evacuated_cooperative_consumer_that_does_not_leave_is_not_waited_for_when_it_is_back(
    kafka: KafkaCluster,
) -> None:
    """A consumer of librdkafka that has nothing does not leave when it closes: its session would hold the rebalance."""
    group, control = "emptied", "emptied-control"
    kafka.create_topic(group, PARTITIONS)
    expected = partitions_of({group: PARTITIONS})

    def reported(*arguments: str) -> Ended:
        return run_to_end([*arguments, "--bootstrap", kafka.bootstrap, "--topic", control])

    with Bellwether(kafka, [group], control_topic=control) as lead, Flock(kafka.bootstrap) as flock:
        members = [
            flock.member(
                *("confluent", group, [group], ["cooperative-sticky"]),
                session_ms=SESSION_MS,
                more={"property.client.id": f"emptied-{number}"},
            )
            for number in (1, 2, 3)
        ]
        wait_settled(members, expected, spread=0, limit_s=120)
        ended = reported("evacuate", group, "member:emptied-1", "--wait", "60")
        assert ended.code == 0, ended.text + lead.log_of(group)
        members[0].stop()
        former = {m.member_id for m in describe(kafka.bootstrap, group).members if m.client_id == "emptied-1"}
        assert len(former) == 1, "it has closed, and is a member still"

        began = time.monotonic()
        members[0].start()
        wait_settled(members, expected, spread=0)
        took_s = time.monotonic() - began
        print(f"its share was back {took_s:.1f} s after its start")
        assert took_s < SESSION_MS / 1000 / 2
        after = {m.member_id for m in describe(kafka.bootstrap, group).members}
        assert not after & former
        assert [m.errors for m in members] == [[], [], []]


@pytest.mark.timeout(600)
def test_threads_of_an_evacuated_application_with_a_client_id_are_not_waited_for_when_it_is_back(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """As with a preStop hook: nobody removes the members of the stopped process, and with client.id set no ghost is
    proven. Under exactly-once a rebalance that waits for a session has the transactions of all instances aborted."""
    control, session_ms = "restarted-app-control", 45_000
    settings = {"threads": 2, "standbys": 1, "guarantee": "exactly_once_v2", "session_timeout_ms": session_ms}
    common = application(kafka, "restarted-app", **settings)
    with following(kafka, common, tmp_path, control) as (_, app, load):
        load.produce(1_000)
        first, second = app.add("one"), app.add("two")
        app.wait_settled(spread=1, limit_s=240)
        load.start(100)
        ordered(kafka, control, "evacuate", common.application_id, "member:one", "--wait", "60")
        wait_until(lambda: second.running == common.tasks, 30, app.send)
        assert first.stop() == 0, app.send()
        former = {m.member_id for m in describe(kafka.bootstrap, common.application_id).members}
        app.start("one")
        app.wait_started("one")
        began = time.monotonic()
        wait_until(lambda: bool(first.running) and app.complete(), 240, app.send)
        took_s = time.monotonic() - began
        print(f"its tasks were back {took_s:.1f} s after its start, with a session of {session_ms / 1000:.0f} s")
        assert took_s < session_ms / 1000 / 2
        after = {m.member_id for m in describe(kafka.bootstrap, common.application_id).members}
        assert len(former - after) == common.threads, "the threads that it left behind are removed"
        load.stop()
        app.wait_counted(load.expected, limit_s=240)
