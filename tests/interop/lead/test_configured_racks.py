"""Members that send no rack, in three racks of the configuration: who reads from a leader in another rack."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.interop.support.bellwether import Bellwether, run_to_end, toml
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock, Member, TopicPartition, partitions_of, wait_settled, wait_until
from tests.interop.support.rebalances import last_rebalance, rebalances

pytestmark = pytest.mark.broker

LIMIT_S = 60.0
PARTITIONS = 18
RACKS = ("az1", "az2", "az3")
BY_RACK = {"policy": "rack-first"}
UNHURRIED = {"session_timeout_ms": 60_000}  # in which another process takes its place


@pytest.mark.timeout(600)
def test_six_members_without_racks_read_from_leaders_in_their_racks(kafka: KafkaCluster, tmp_path: Path) -> None:
    group = "configured-racks"
    leaders = [p * 2 % 3 for p in range(PARTITIONS)]  # by position in RACKS; every rack has a replica of everything
    kafka.create_topic(group, assignment=[[(first + i) % 3 + 1 for i in range(3)] for first in leaders])
    with Flock(kafka.bootstrap) as flock:
        members = [flock.member("kafka-python", group, [group], ["range"]) for _ in range(6)]
        rack_of = {member.name: RACKS[number // 2] for number, member in enumerate(members)}
        by_client = {member.name: rack for member, rack in zip(members, rack_of.values(), strict=True) if rack != "az3"}
        racks = {"racks.client_ids": by_client, "racks.hosts": {"127.0.0.0/8": "az3"}}

        def elsewhere(owners: Mapping[TopicPartition, Member]) -> int:
            return sum(rack_of[owner.name] != RACKS[leaders[partition]] for (_, partition), owner in owners.items())

        def settled() -> Mapping[TopicPartition, Member]:
            return wait_settled(members, partitions_of({group: PARTITIONS}))

        with Bellwether(kafka, [group], options=BY_RACK | UNHURRIED) as process:
            wait_until(lambda: bool(process.log("decision", group=group)), LIMIT_S, process.tail)
            before = elsewhere(settled())
        with Bellwether(kafka, [group], options=BY_RACK | UNHURRIED, **racks) as process:
            wait_until(lambda: elsewhere(settled()) == 0, LIMIT_S, process.tail)
            after = settled()
            counts = [sum(owner is member for owner in after.values()) for member in members]
            print(f"leaders in another rack, of {PARTITIONS}: {before} without [racks], {elsewhere(after)} with it")
            assert (before > 0, counts) == (True, [3] * 6)

            generation = last_rebalance(kafka, group).generation
            members.append(flock.member("kafka-python", group, [group], ["range"]))
            rack_of[members[-1].name] = "az3"  # by its host
            wait_until(lambda: bool(members[-1].owned()) and elsewhere(settled()) == 0, LIMIT_S, process.tail)
            joined = rebalances(kafka, group, after=generation)
            print(f"rebalances for a seventh member, whose rack its host decides: {len(joined)}")
            assert 1 <= len(joined) <= 2, "the second one only where its host was not known in time"

        file = tmp_path / "bellwether.toml"
        options = {"name": group, "mode": "lead", **BY_RACK}
        file.write_text(toml({"bootstrap.servers": kafka.bootstrap}, [options], **racks))
        described = json.loads(run_to_end(["describe", group, "--config", str(file), "-o", "json"]).stdout)
        sources = {m["client_id"]: (m["rack"], m["rack_source"], m["leader_only"]) for m in described["members"]}
        assert sources == {
            name: (rack, "host" if rack == "az3" else "client id", True) for name, rack in rack_of.items()
        }
        assert described["shadow"]["current"]["cross_rack"] == 0
        checks = json.loads(run_to_end(["doctor", group, "--config", str(file), "-o", "json"]).stdout)
        (check,) = [check for check in checks if check["kind"] == "racks"]
        lines = {f"{name}: {rack} ({source})" for name, (rack, source, _) in sources.items()}
        assert (check["level"], set(check["details"])) == ("pass", lines), check
