"""What `plan --out` writes, and when `apply` takes the group for another one than the plan was made for."""

import errno
import hashlib
import json
import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bellwether_kafka.coordinator.cli import Exit
from bellwether_kafka.coordinator.control import AppliedPlan, InstanceHeartbeat, decode
from bellwether_kafka.coordinator.observation import Observation, Shadow
from tests.kit.commands import ShownGroups, undocumented
from tests.kit.observed import SKEWED
from tests.kit.streams import one_holds_all


@pytest.fixture
def led(groups: ShownGroups, monkeypatch: pytest.MonkeyPatch) -> ShownGroups:
    """`g` is led by an instance that follows orders. What is written to the control topic is thrown away."""
    beat = InstanceHeartbeat(
        "pod-1", leads=("g",), policies={"g": "rack-first"}, orders_for=("g",), at_ms=int(time.time() * 1000)
    )
    groups.records = {beat.key: beat}
    return groups


def written(groups: ShownGroups, file: Path, seen: Observation = SKEWED) -> dict[str, Any]:
    groups.seen.clear()
    groups.show(seen)
    ended = groups.run("plan", "g", "--out", str(file))
    assert ended.returncode == Exit.DONE, ended
    document = json.loads(file.read_text(encoding="utf-8"))
    assert not undocumented("plan-file", document)
    assert document["digest"][:16] in ended.stderr
    return document  # type: ignore[no-any-return]  # JSON


def test_it_has_the_state_and_the_planned_owners(groups: ShownGroups, tmp_path: Path) -> None:
    plan = written(groups, tmp_path / "plan")
    assert (plan["format"], plan["policy"]) == (1, "rack-first")
    assert plan["before"]["members"] == [
        {"member_id": f"{name}-1", "instance_id": None, "client_id": name, "topics": ["orders"]} for name in "abc"
    ]
    assert plan["before"]["partitions"] == {"orders": 4}
    assert plan["before"]["owners"] == {"orders-0": "b-1", "orders-1": "a-1", "orders-2": "b-1", "orders-3": "b-1"}
    assert plan["owners"] == {"orders-0": "a-1", "orders-1": "c-1", "orders-2": "a-1", "orders-3": "b-1"}
    assert plan["digest"] == hashlib.sha256(json.dumps(plan["before"], sort_keys=True).encode()).hexdigest()
    again = written(groups, tmp_path / "plan", replace(SKEWED, members=SKEWED.members[::-1]))
    assert again["digest"] == plan["digest"], "in whichever order the broker lists members"


def of_tasks() -> Observation:
    decision = one_holds_all(t0=1000)
    return replace(SKEWED, shadow=Shadow.of(decision, decision.plan.before))


def test_owners_of_tasks_are_processes(groups: ShownGroups, tmp_path: Path) -> None:
    plan = written(groups, tmp_path / "plan", of_tasks())
    assert set(plan["owners"].values()) <= {owner.name for owner in one_holds_all(t0=1000).plan.owners}
    assert plan["owners"]
    assert all("_" in task for task in plan["owners"])


def test_a_plan_that_cannot_be_written_whole_leaves_the_last_one(
    groups: ShownGroups, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reviewed plan was half overwritten where the disk was full."""
    file = tmp_path / "plan.json"
    plan = written(groups, file)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    refused = groups.run("plan", "g", "--out", str(file))
    assert refused.returncode != Exit.DONE
    assert "No space left on device" in refused.stderr
    assert json.loads(file.read_text()) == plan
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_goes_on_leading_to_the_file_of_the_plan(groups: ShownGroups, tmp_path: Path) -> None:
    (tmp_path / "plans").mkdir()
    link = tmp_path / "plan.json"
    link.symlink_to(tmp_path / "plans" / "7.json")
    plan = written(groups, link)
    assert link.is_symlink()
    assert json.loads((tmp_path / "plans" / "7.json").read_text()) == plan


def test_a_plan_is_written_to_a_pipe(groups: ShownGroups, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    groups.show(SKEWED)
    with ThreadPoolExecutor() as threads:
        reads = threads.submit(pipe.read_bytes)
        assert groups.run("plan", "g", "--out", str(pipe)).returncode == Exit.DONE
        assert json.loads(reads.result(10))["before"]["group"] == "g"


def test_a_place_that_is_none_is_refused(groups: ShownGroups, tmp_path: Path) -> None:
    groups.show(SKEWED)
    refused = groups.run("plan", "g", "--out", str(tmp_path / "no" / "plan.json"))
    assert (refused.returncode, "check --out" in refused.stderr) == (Exit.INPUT, True)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format": 2}, "it is no plan of format 1"),
        ({"owners": ["a"]}, "as 'bellwether plan --out' writes it"),
        ({"owners": {"orders-0": 3}}, "3 is no text"),
        ({"decided_at_ms": "now"}, "'now' is no whole number"),
        ({"before": {}}, "'group'"),
        ({"digest": "0"}, "its digest is another"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_file_that_is_no_plan_is_refused_with_the_reason(
    changes: Mapping[str, Any], reason: str, groups: ShownGroups, tmp_path: Path
) -> None:
    file = tmp_path / "plan"
    file.write_text(json.dumps(written(groups, file) | changes))
    refuses(groups, file, reason)


@pytest.mark.parametrize(("text", "reason"), [("{", "it is no"), ("[]", "it is no plan of format 1")])
def test_a_file_of_something_else_is_refused(text: str, reason: str, groups: ShownGroups, tmp_path: Path) -> None:
    (tmp_path / "plan").write_text(text)
    refuses(groups, tmp_path / "plan", reason)


def test_a_file_with_two_owners_of_one_item_is_refused(groups: ShownGroups, tmp_path: Path) -> None:
    file = tmp_path / "plan"
    plan = json.dumps(written(groups, file) | {"owners": {"o-0": "a", "o-1": "b"}})
    file.write_text(plan.replace("o-1", "o-0"))
    refuses(groups, file, "it has the key o-0 twice")


def refuses(groups: ShownGroups, file: Path, *reasons: str) -> None:
    refused = groups.run("apply", str(file))
    assert refused.returncode == Exit.INPUT, refused
    said = " ".join(refused.stderr.split())
    assert all(reason in said for reason in reasons), said


@pytest.mark.slow
def test_members_are_named_by_what_survives_a_restart_and_threads_by_their_ids(
    led: ShownGroups, tmp_path: Path
) -> None:
    decision = one_holds_all(t0=1000)
    static = replace(SKEWED, members=tuple(replace(m, instance_id=f"s-{m.client_id}") for m in SKEWED.members))
    for seen, owners in ((static, {"s-a", "s-b", "s-c"}), (of_tasks(), {o.name for o in decision.plan.owners})):
        plan = written(led, tmp_path / "plan", seen)
        assert led.run("apply", str(tmp_path / "plan")).returncode == Exit.DONE
        order = decode(*led.written.pop())
        assert isinstance(order, AppliedPlan)
        assert {*order.items} <= owners
        assert sorted(i for items in order.items.values() for i in items) == sorted(plan["owners"])
        assert {*order.members} == ({"s-a", "s-b", "s-c"} if seen is static else {"a-1", "b-1", "c-1"})


@pytest.mark.slow
def test_a_static_member_that_has_restarted_is_the_same_and_another_is_not(led: ShownGroups, tmp_path: Path) -> None:
    first, *others = SKEWED.members
    for instance, returncode in (("static", Exit.DONE), (None, Exit.INPUT)):
        seen = replace(SKEWED, members=(replace(first, instance_id=instance), *others))
        plan = written(led, tmp_path / "plan", seen)
        text = json.dumps(plan["before"], sort_keys=True).replace("a-1", "a-0")
        before = json.loads(text)
        changed = plan | {"before": before, "digest": hashlib.sha256(text.encode()).hexdigest()}
        (tmp_path / "plan").write_text(json.dumps(changed).replace("a-1", "a-0"))
        ended = led.run("apply", str(tmp_path / "plan"), "--dry-run")
        assert ended.returncode == returncode, ended
