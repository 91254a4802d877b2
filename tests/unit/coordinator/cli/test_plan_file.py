"""What `plan --out` writes, and that the digest follows the state of the group."""

import errno
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from bellwether_kafka.coordinator import kafka
from bellwether_kafka.coordinator.cli import Exit
from bellwether_kafka.coordinator.cli.plan_file import (
    GroupStateOfPlan,
    PlanFile,
    PlanFileError,
    differences,
    parsed,
    plan_file,
    read_plan_file,
    write_plan_file,
)
from tests.support.commands import bellwether
from tests.support.documented import undocumented
from tests.support.embedded_brokers import EmbeddedCluster
from tests.unit.coordinator.cli.described import Described
from tests.unit.coordinator.observation.test_absence_cost import application
from tests.unit.coordinator.web.test_observed import SKEWED

FORMAT = 1


def written() -> PlanFile:
    assert SKEWED.shadow is not None
    return plan_file(SKEWED, SKEWED.shadow, "0.2.0")


def test_it_has_the_state_and_the_planned_owners() -> None:
    plan = written()
    assert (plan.format, plan.version, plan.policy) == (FORMAT, "0.2.0", "rack-first")
    assert [(m.member_id, m.client_id, m.topics) for m in plan.before.members] == [
        ("a-1", "a", ("orders",)),
        ("b-1", "b", ("orders",)),
        ("c-1", "c", ("orders",)),
    ]
    assert plan.before.partitions == {"orders": 4}
    assert plan.before.owners == {"orders-0": "b-1", "orders-1": "a-1", "orders-2": "b-1", "orders-3": "b-1"}
    assert plan.owners == {"orders-0": "a-1", "orders-1": "c-1", "orders-2": "a-1", "orders-3": "b-1"}
    assert plan.digest == plan.before.digest


def test_the_digest_is_the_same_in_whichever_order_the_broker_lists_members() -> None:
    assert SKEWED.shadow is not None
    reversed_members = replace(SKEWED, members=SKEWED.members[::-1])
    assert plan_file(reversed_members, SKEWED.shadow, "0.2.0").digest == written().digest


@pytest.mark.parametrize(
    "change",
    [
        lambda state: replace(state, members=state.members[1:]),
        lambda state: replace(state, members=(replace(state.members[0], topics=("other",)), *state.members[1:])),
        lambda state: replace(state, partitions={"orders": 5}),
        lambda state: replace(state, owners={**state.owners, "orders-0": "a-1"}),
        lambda state: replace(state, group="another"),
    ],
    ids=["members", "subscriptions", "partitions", "owners", "group"],
)
def test_the_digest_changes_with_the_state(change: Callable[[GroupStateOfPlan], GroupStateOfPlan]) -> None:
    assert change(written().before).digest != written().digest


def test_owners_of_tasks_are_processes() -> None:
    decision = application(t0=1000)
    assert SKEWED.shadow is not None
    shadow = replace(SKEWED.shadow, decision=decision, present=decision.plan.before)
    plan = plan_file(SKEWED, shadow, "0.2.0")
    assert set(plan.owners.values()) <= {owner.name for owner in decision.plan.owners}
    assert all("_" in task for task in plan.owners)
    assert plan.owners


def test_a_plan_agrees_with_the_published_schema() -> None:
    assert not undocumented("plan-file", json.loads(json.dumps(asdict(written()))))


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    write_plan_file(file, written())
    assert read_plan_file(file) == written()


def test_a_plan_that_cannot_be_written_whole_leaves_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reviewed plan was half overwritten where the disk was full."""
    file = tmp_path / "plan.json"
    write_plan_file(file, written())

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_plan_file(file, replace(written(), version="0.3.0"))
    assert read_plan_file(file) == written()
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_goes_on_leading_to_the_file_of_the_plan(tmp_path: Path) -> None:
    (tmp_path / "plans").mkdir()
    link = tmp_path / "plan.json"
    link.symlink_to(tmp_path / "plans" / "7.json")
    write_plan_file(link, written())
    assert link.is_symlink()
    assert read_plan_file(tmp_path / "plans" / "7.json") == written()


def test_a_plan_is_written_to_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as threads:
        reads = threads.submit(pipe.read_bytes)
        write_plan_file(pipe, written())
        assert parsed(reads.result(10)) == written()


def document_with(**changes: object) -> bytes:
    return json.dumps(asdict(written()) | changes).encode()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", "it is no"),
        (b"[]", "it is no plan of format 1"),
        (document_with(format=2), "it is no plan of format 1"),
        (document_with(owners=["a"]), "as 'bellwether plan --out' writes it"),
        (document_with(owners={"orders-0": 3}), "3 is no text"),
        (document_with(decided_at_ms="now"), "'now' is no whole number"),
        (document_with(before={}), "'group'"),
        (document_with(before=asdict(replace(written().before, partitions={"orders": 5}))), "its digest is another"),
        (document_with(owners={"o-0": "a", "o-1": "b"}).replace(b"o-1", b"o-0"), "it has the key o-0 twice"),
    ],
    ids=["text", "list", "format", "owners", "owner", "number", "state", "digest", "two owners"],
)
def test_a_file_that_is_no_plan_is_refused_with_the_reason(text: bytes, reason: str) -> None:
    with pytest.raises(PlanFileError) as refused:
        parsed(text)
    assert reason in str(refused.value)


def test_equal_states_have_no_difference() -> None:
    assert list(differences(written().before, written().before)) == []


def test_each_difference_of_a_state_is_named() -> None:
    planned = written().before
    a, b, c = planned.members
    now = replace(
        planned,
        members=(replace(a, topics=("clicks", "orders")), b, replace(c, member_id="d-1")),
        partitions={"orders": 5, "clicks": 1},
        owners={**planned.owners, "orders-0": "a-1", "orders-4": "b-1"},
    )
    assert list(differences(planned, now)) == [
        "member c-1 is gone",
        "member d-1 is new",
        "member a-1 subscribes to clicks, orders instead of orders",
        "topic clicks has 1 partitions instead of 0",
        "topic orders has 5 partitions instead of 4",
        "the owner of orders-0 is a-1 instead of b-1",
        "the owner of orders-4 is b-1 instead of nobody",
    ]


def test_a_static_member_that_has_restarted_is_the_same() -> None:
    state = written().before
    before, after = (
        replace(
            state,
            members=(replace(state.members[0], member_id=name, instance_id="static"), *state.members[1:]),
            owners={**state.owners, "orders-1": name},
        )
        for name in ("a-1", "a-2")
    )
    assert list(differences(before, after)) == []


@pytest.mark.embedded
def test_the_command_writes_the_file_beside_its_output(
    brokers: EmbeddedCluster,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(kafka, "Transport", Described)
    file = tmp_path / "plan.json"
    words = ("plan", "stable", "--bootstrap", brokers.bootstrap, "-o", "json", "--out")
    ended = bellwether(*words, str(file))
    assert ended.returncode == Exit.DONE, ended.stderr
    document = json.loads(file.read_text(encoding="utf-8"))
    assert not undocumented("plan-file", document)
    assert document["before"]["owners"] == {f"orders-{partition}": "m1" for partition in range(3)}
    assert document["digest"][:16] in ended.stderr
    assert json.loads(ended.stdout)["group"] == "stable"
    refused = bellwether(*words, str(tmp_path / "no" / "plan.json"))
    assert refused.returncode == Exit.INPUT
    assert "check --out" in refused.stderr


def test_one_file_is_not_written_again_and_again() -> None:
    ended = bellwether("plan", "g", "--bootstrap", "127.0.0.1:1", "--watch", "--out", "plan.json")
    assert ended.returncode == Exit.INPUT
    assert "--out" in ended.stderr
