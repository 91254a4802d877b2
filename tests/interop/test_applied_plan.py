"""A written plan that is carried out for a live group: its owners, how long they remain, and what ends it."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.interop.support.bellwether import Bellwether, ordered, run_to_end, toml
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock, Member, partitions_of, wait_settled, wait_until

GROUP, CONTROL, PARTITIONS = "applied-orders", "applied-control", 7


def owners(members: list[Member]) -> dict[str, str]:
    """The name of each partition's member, as members have them now."""
    return {f"{topic}-{partition}": member.name for member in members for topic, partition in member.owned()}


def reviewed(file: Path, now: Mapping[str, str]) -> dict[str, str]:
    """Gives each partition in the plan to the next member. Returns the names of its members by partition."""
    plan = json.loads(file.read_text())
    ids = sorted(member["member_id"] for member in plan["before"]["members"])
    names = {member_id: now[item] for item, member_id in plan["before"]["owners"].items()}
    following = dict(zip(ids, [*ids[1:], ids[0]], strict=True))
    plan["owners"] = {item: following[member_id] for item, member_id in plan["owners"].items()}
    file.write_text(json.dumps(plan))
    return {item: names[member_id] for item, member_id in plan["owners"].items()}


@pytest.mark.timeout(300)
def test_a_written_plan_is_carried_out_until_the_members_change(kafka: KafkaCluster, tmp_path: Path) -> None:
    kafka.create_topic(GROUP, PARTITIONS)
    file, config, stale = (tmp_path / name for name in ("plan.json", "bellwether.toml", "stale.json"))
    config.write_text(toml({"bootstrap.servers": kafka.bootstrap}, [{"name": GROUP}], control_topic=CONTROL))
    with Bellwether(kafka, [GROUP], control_topic=CONTROL) as lead, Flock(kafka.bootstrap) as flock:
        members = [flock.member("confluent", GROUP, [GROUP], ["cooperative-sticky"]) for _ in range(3)]
        wait_settled(members, partitions_of({GROUP: PARTITIONS}), spread=1, limit_s=120)

        def printed(code: int, *words: str) -> str:
            ended = run_to_end([*words, "--config", str(config)])
            assert ended.code == code, ended.text
            return ended.text

        def wait_for(what: str, holds: Callable[[dict[str, str]], bool]) -> None:
            wait_until(lambda: holds(owners(members)), 90, lambda: f"{what}: {owners(members)}\n{lead.log_of(GROUP)}")

        printed(0, "plan", GROUP, "--out", str(file))
        stale.write_text(file.read_text())
        planned = reviewed(file, owners(members))
        assert planned != owners(members)
        assert "It is in effect." in printed(0, "apply", str(file), "--reason", "review 7", "--wait", "60")
        wait_for("the plan is carried out", lambda now: now == planned)
        assert "apply of the plan" in lead.log("decision", group=GROUP)[-1]["cause"]

        generation = lead.log("decision", group=GROUP)[-1]["generation"]
        ordered(kafka, CONTROL, "rebalance", GROUP)
        lead.logged("decision", group=GROUP, generation=generation + 1)
        wait_settled(members, partitions_of({GROUP: PARTITIONS}), limit_s=60)
        assert owners(members) == planned, "a further rebalance of the same members keeps the owners"
        for words in (("describe", GROUP), ("explain", GROUP, f"{GROUP}-0")):
            assert "until its members change (review 7)" in printed(0, *words)

        refusal = printed(2, "apply", str(stale))
        assert f"The owner of {GROUP}-0 is " in refusal
        assert "Nothing was ordered" in refusal

        members.append(flock.member("confluent", GROUP, [GROUP], ["cooperative-sticky"]))
        (ended,) = lead.logged("applied_plan_ended", 60, group=GROUP)
        assert ended["reason"].startswith("member ")
        assert ended["reason"].endswith(" is new")
        wait_settled(members, partitions_of({GROUP: PARTITIONS}), spread=1, limit_s=90)
        assert "apply of the plan" not in printed(0, "orders")
        assert f"{ended['reason'][:1].upper()}{ended['reason'][1:]}." in printed(2, "apply", str(file))
        assert [member.errors for member in members] == [[]] * 4
