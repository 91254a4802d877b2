"""Dry runs on real groups: what `plan` shows is what the leader then does, and `doctor` names what is broken."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourceType

from bellwether_kafka.coordinator.events import SchemaSet
from tests.interop.support.bellwether import Bellwether, run_to_end
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.groups import without_members_in_the_way
from tests.interop.support.members import Flock, Member, partitions_of, wait_settled
from tests.interop.support.raw import describe
from tests.interop.support.rebalances import rebalances
from tests.interop.support.reported import configured, reported
from tests.interop.support.security.rights import grant
from tests.patience import PATIENCE

pytestmark = pytest.mark.broker

PARTITIONS = 12


def placed(picture: Mapping[str, Any]) -> dict[tuple[str, int], str]:
    """Partition -> member id, as a picture has it."""
    return {
        (item["name"].rsplit("-", 1)[0], int(item["name"].rsplit("-", 1)[1])): holder["name"]
        for holder in picture["holders"]
        for item in holder["items"]
    }


@pytest.mark.smoke
@pytest.mark.timeout(180)
def test_the_plan_is_what_the_leader_then_does(kafka: KafkaCluster, tmp_path: Path) -> None:
    """Three members in three racks, led by one of them, round robin; the plan is for racks first and moves some."""
    group = "planned-orders"
    kafka.create_topic(group, assignment=[(n // 4 % 3 + 1,) for n in range(PARTITIONS)])
    options = {"name": group, "mode": "lead", "adopt": "take-over", "policy": "rack-first"}
    path = configured(tmp_path, {"bootstrap.servers": kafka.bootstrap}, options)
    expected = partitions_of({group: PARTITIONS})
    with Flock(kafka.bootstrap) as flock:
        members = [flock.member("confluent", group, [group], ["roundrobin"], rack=f"az{n}") for n in (1, 2, 3)]
        without_members_in_the_way(kafka, members, group, expected)
        quiet = rebalances(kafka, group)
        plan = reported("plan", group, path)
        assert plan["moved"] == len(plan["moves"]) > 0
        assert plan["cost"]["before"]["cross_rack"] > plan["cost"]["after"]["cross_rack"] == plan["cross_rack"] == 0
        explained = reported("explain", group, path)
        assert {e["item"] for e in explained} == {move["item"] for move in plan["moves"]}
        assert {e["stage"] for e in explained} == {"rack locality"}
        (explanation,) = reported("explain", group, path, plan["moves"][0]["item"])
        assert [a["owner"] for a in explanation["alternatives"] if a["chosen"]] == [plan["moves"][0]["target"]]
        drawn = run_to_end(
            ["plan", group, "--config", str(path), "--detailed-exitcode"], environment={"COLUMNS": "200"}
        )
        assert (drawn.code, f"cross rack {plan['cost']['before']['cross_rack']} -> 0" in drawn.stdout) == (1, True)
        assert rebalances(kafka, group) == quiet, "looking has disturbed nobody"
        ids = {m.client_id: m.member_id for m in describe(kafka.bootstrap, group).members}
        wanted = {tp: by_id(ids, member_id) for tp, member_id in placed(plan).items()}
        with Bellwether(kafka, [group], options={"adopt": "take-over", "policy": "rack-first"}):
            owners = wait_moved(members, expected, wanted)
            assert {tp: owner.name for tp, owner in owners.items()} == wanted


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_a_plan_by_load_is_what_the_leader_then_does(kafka: KafkaCluster, tmp_path: Path) -> None:
    """Two members with three partitions each, by range; those of one of them are five times as heavy as the others."""
    group, topic = "weighed-orders", "weighed-weights"
    kafka.create_topic(group, 6)
    kafka.create_topic(topic)
    weigh(kafka, group, topic, [5e6] * 3 + [1e6] * 3)
    options = {"adopt": "take-over", "policy": "load-aware"}
    weights = {"topic": topic}
    path = configured(
        tmp_path, {"bootstrap.servers": kafka.bootstrap}, {"name": group, "mode": "lead", **options}, weights=weights
    )
    expected = partitions_of({group: 6})
    with Flock(kafka.bootstrap) as flock:
        members = [flock.member("confluent", group, [group], ["range"]) for _ in range(2)]
        without_members_in_the_way(kafka, members, group, expected)
        plan = reported("plan", group, path)
        assert plan["moved"] > 0
        ids = {m.client_id: m.member_id for m in describe(kafka.bootstrap, group).members}
        wanted = {tp: by_id(ids, member_id) for tp, member_id in placed(plan).items()}
        with Bellwether(kafka, [group], options=options, weights=weights):
            owners = wait_moved(members, expected, wanted)
            assert {tp: owner.name for tp, owner in owners.items()} == wanted


def weigh(kafka: KafkaCluster, group: str, topic: str, sizes: list[float]) -> None:
    """Writes weights of a topic that is called as the group: bytes per second of each partition."""
    producer = Producer(kafka.client_config("admin", "admin"))
    for partition, size in enumerate(sizes):
        weight = {"topic": group, "partition": partition, "bytes_per_s": size, "records_per_s": 1.0, "windows": 9}
        value = SchemaSet.load().encode("weight", weight | {"estimated_at_ms": int(time.time() * 1000)})
        producer.produce(topic, key=f"{group}-{partition}".encode(), value=value)
    assert producer.flush(60) == 0


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_bytes_and_money_between_racks_are_reported(kafka: KafkaCluster, tmp_path: Path) -> None:
    """One member in az1, partitions led in all three racks; 1 MB/s is written to each, and a gigabyte costs 0.02."""
    group, topic = "priced-orders", "priced-weights"
    kafka.create_topic(group, assignment=[(n % 3 + 1,) for n in range(6)])
    kafka.create_topic(topic)
    weigh(kafka, group, topic, [1e6] * 6)
    path = configured(
        tmp_path,
        {"bootstrap.servers": kafka.bootstrap},
        {"name": group},
        weights={"topic": topic},
        cost={"price_per_gb": 0.02, "currency": "EUR"},
    )
    with Flock(kafka.bootstrap) as flock:
        member = flock.member("confluent", group, [group], ["range"], rack="az1")
        wait_settled([member], partitions_of({group: 6}))
        for command in ("plan", "describe"):
            traffic = reported(command, group, path)["traffic"]
            assert traffic["follower_fetching"] is False, "asked of a broker"
            present = traffic["present"]
            assert (present["bytes_per_s"], present["total_bytes_per_s"], present["weighed"]) == (4e6, 6e6, 6)
            assert (present["cost_per_hour"], present["currency"]) == (0.288, "EUR")
            assert {(p["from"], p["to"], p["cost_per_hour"]) for p in present["by_racks"]} == {
                ("az2", "az1", 0.144),
                ("az3", "az1", 0.144),
            }
            drawn = run_to_end([command, group, "--config", str(path)], environment={"COLUMNS": "200"})
            assert "az2 -> az1: 2.00 MB/s, 0.1440 EUR per hour" in drawn.stdout, drawn.text
        joined = reported(
            "simulate", group, path, "--add", "2", "--add-rack", "az2", "--add-rack", "az3", "--policy", "rack-first"
        )
        assert joined[0]["traffic"]["present"]["cost_per_hour"] == 0.288
        assert joined[-1]["traffic"]["planned"]["cost_per_hour"] == 0.0
        drawn = run_to_end(["simulate", group, "--config", str(path), "--add", "1"], environment={"COLUMNS": "250"})
        assert "now, reading from leaders: 4.00 MB/s of 6.00 MB/s cross racks, 0.2880 EUR per hour" in drawn.stdout
        assert "afterwards, reading from leaders: " in drawn.stdout, drawn.text


def by_id(ids: Mapping[str, str], member_id: str) -> str:
    return next(client for client, of_client in ids.items() if of_client == member_id)


def wait_moved(
    members: list[Member], expected: Any, wanted: Mapping[tuple[str, int], str], limit_s: float = 60.0
) -> Mapping[tuple[str, int], Member]:
    """Settled as wanted, or as they are in the end: first they are settled as they were."""
    limit = time.monotonic() + limit_s * PATIENCE
    while True:
        owners = wait_settled(members, expected)
        if {tp: owner.name for tp, owner in owners.items()} == dict(wanted) or time.monotonic() > limit:
            return owners
        time.sleep(0.5)


@pytest.mark.timeout(120)
def test_a_simulation_says_what_a_lost_rack_costs(kafka: KafkaCluster, tmp_path: Path) -> None:
    group = "simulated-orders"
    kafka.create_topic(group, PARTITIONS, rf=3)
    path = configured(tmp_path, {"bootstrap.servers": kafka.bootstrap}, {"name": group})
    with Flock(kafka.bootstrap) as flock:
        members = [flock.member("confluent", group, [group], ["cooperative-sticky"], rack=f"az{n}") for n in (1, 2, 3)]
        wait_settled(members, partitions_of({group: PARTITIONS}), spread=0)
        quiet = rebalances(kafka, group)
        (lost,) = reported("simulate", group, path, "--without", "rack:az3")
        assert (lost["kept"], lost["moved"], lost["new"], lost["unowned"]) == (8, 0, 4, 0)
        joined = reported("simulate", group, path, "--add", "1", "--add-rack", "az1")
        assert [lost_member["moved"] for lost_member in joined] == [3, 0]
        assert joined[0]["pending"] == 3
        assert (joined[1]["kept"], joined[1]["new"]) == (12, 0), "what is handed out was counted when it was planned"
        (grown,) = reported("simulate", group, path, "--partitions", f"{group}=24")
        assert (grown["kept"], grown["new"], grown["moved"]) == (12, 12, 0)
        refused = run_to_end(["simulate", group, "--config", str(path), "--without", "rack:az9"])
        assert (refused.code, "az9" in refused.stderr) == (2, True)
        one_member = min(m.client_id for m in describe(kafka.bootstrap, group).members)
        (ended,) = reported("simulate", group, path, "--without", f"member:{one_member}")
        assert (ended["new"], ended["unowned_s_max"], ended["unowned_s_max_with_a_guard"]) == (4, 48.0, 3.2)
        drawn = run_to_end(["simulate", group, "--config", str(path), "--without", f"member:{one_member}"])
        assert "nobody has its share for at most session.timeout.ms + heartbeat.interval.ms" in drawn.stdout, drawn.text
        assert rebalances(kafka, group) == quiet


def failing(checks: list[dict[str, str]], verdict: str = "fail") -> dict[str, str]:
    return {check["kind"]: f"{check['message']} {check['remedy']}" for check in checks if check["level"] == verdict}


@pytest.mark.timeout(240)
def test_doctor_names_each_fault(kafka: KafkaCluster, tmp_path: Path) -> None:
    group = "ailing-orders"
    kafka.create_topic(group, PARTITIONS, rf=3)
    plain = {"bootstrap.servers": kafka.bootstrap}
    lead = {"name": group, "mode": "lead"}

    def faults(options: Mapping[str, Any], name: str = group, **settings: Any) -> dict[str, str]:
        file = configured(tmp_path, plain, {**lead, **options, "name": name}, **settings)
        return failing(reported("doctor", name, file, code=1))

    with Flock(kafka.bootstrap) as flock:
        member = flock.member("confluent", group, [group], ["range"], rack="az1", instance="payments-1")
        wait_settled([member], partitions_of({group: PARTITIONS}))
        quiet = rebalances(kafka, group)
        well = configured(tmp_path, plain, lead)
        assert failing(reported("doctor", group, well)) == {}
        assert "range" in faults({"protocols": ["sticky"]})["protocols"]
        assert "payments-1" in faults({}, instance_id="payments-1")["instance id"]
        session = faults({"session_timeout_ms": 1_900_000})
        assert "1900000" in session["session timeout"]
        assert rebalances(kafka, group) == quiet, "a look disturbs nobody"
        member.stop()
        stray = flock.member("confluent", group, [group], ["range"], rack="moon")
        wait_settled([stray], partitions_of({group: PARTITIONS}))
        assert "moon" in faults({})["racks"]
        stray.stop()
        modern = flock.member("java", "ailing-848", [group], [], protocol="consumer")
        wait_settled([modern], partitions_of({group: PARTITIONS}))
        assert "no client can lead it" in faults({}, "ailing-848")["group"]
    nowhere = run_to_end(["doctor", group, "--bootstrap", "127.0.0.1:1"])
    assert (nowhere.code, "bootstrap.servers (127.0.0.1:1)" in nowhere.stderr) == (2, True)


@pytest.mark.timeout(120)
def test_doctor_names_missing_rights(secured_kafka: KafkaCluster, tmp_path: Path) -> None:
    group = "ailing-rights"
    secured_kafka.create_topic(group, PARTITIONS)
    grant(secured_kafka, "application", AclOperation.ALL, ResourceType.TOPIC, group)
    grant(secured_kafka, "application", AclOperation.ALL, ResourceType.GROUP, group)
    grant(secured_kafka, "bellwether", AclOperation.DESCRIBE, ResourceType.GROUP, group)
    user = secured_kafka.client_config("bellwether", "bellwether")
    path = configured(tmp_path, user, {"name": group, "mode": "lead"})
    client = {f"property.{k}": v for k, v in secured_kafka.client_config("application", "application").items()}
    with Flock(secured_kafka.bootstrap) as flock:
        member = flock.member("confluent", group, [group], ["range"], more=client)
        wait_settled([member], partitions_of({group: PARTITIONS}))
        failures = failing(reported("doctor", group, path, code=1))
        assert f"READ on Group '{group}'" in failures["group ACL"]
        assert f"DESCRIBE on Topic '{group}'" in failures["topic ACLs"]
