"""One rebalance of a Streams group: what every thread is sent, what is pending, and who rejoins when."""

from dataclasses import replace

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import NOBODY
from bellwether_kafka.assignors.streams import Assignors
from bellwether_kafka.assignors.streams.application import (
    AssignmentConfigs,
    StreamsPlan,
    Subtopology,
    ThreadPlan,
    Topology,
)
from bellwether_kafka.assignors.streams.report import process_summaries
from bellwether_kafka.protocol.messages import NEVER_MS, AssignmentInfo, ConsumerProtocolAssignment, SubscriptionInfo
from bellwether_kafka.protocol.primitives import HostInfo, ProcessId, TaskId, TopicPartition
from tests.kit.consumers import cluster_of
from tests.kit.streams import (
    NOW_MS,
    OWN,
    REPARTITION,
    TWO,
    Thread,
    always,
    by_turns,
    group,
    led,
    placed,
    refused,
    round_robin,
    sent,
    tasks_text,
)


def test_a_fresh_application_gets_every_task_once() -> None:
    decision = led(group(*TWO))
    assert tasks_text(decision, "a") == "0_0 0_2 1_0 1_2"
    assert tasks_text(decision, "b") == "0_1 0_3 1_1 1_3"
    assert sent(decision, "a")[0] == (
        TopicPartition("orders", 0),
        TopicPartition("orders", 2),
        TopicPartition(REPARTITION, 0),
        TopicPartition(REPARTITION, 2),
    )
    assert not decision.followup
    assert (decision.moves.new, decision.moves.moved) == (8, 0)
    assert decision.warnings == ()


def test_a_plan_names_the_source_topics_whose_partitions_have_changed() -> None:
    before, same = (led(group(*TWO)) for _ in range(2))
    counts = {"orders": 6, REPARTITION: 6, "shop-totals-changelog": 6}
    grown = led(group(*TWO), counts=counts)
    assert same.plan.topic_changes(before.plan) == []
    assert grown.plan.topic_changes(before.plan) == [f"partitions changed of orders, {REPARTITION}"]


def test_bellwethers_own_member_gets_bytes_but_no_work() -> None:
    decision = led(group(*TWO))
    own = ConsumerProtocolAssignment.decode(dict(decision.assignments)[OWN])
    assert own.partitions == ()
    assert own.user_data == bytes.fromhex("0000000b 0000000b") + bytes(24) + bytes.fromhex("7fffffffffffffff")
    assert [m for m, _ in decision.assignments] == ["a", "b", OWN]
    assert all(OWN not in process.members for process in decision.plan.view.processes)


def test_a_group_of_only_bellwether_is_decided() -> None:
    decision = led(group())
    assert [m for m, _ in decision.assignments] == [OWN]
    assert decision.plan.target.active.size == 0


def test_golden_bytes_of_a_standby_and_a_host_map() -> None:
    """One process of two threads and one of one: docs/internals/wire-formats.md#assignmentinfo byte by byte."""
    tiny = Topology("app", (Subtopology(0, ("t",), changelogs=("app-s-changelog",)),), "file")
    members = (
        Thread("a", 1, ("t",), endpoint="h:9"),
        Thread("b", 2, ("t",), endpoint="i:7"),
    )
    decision = led(
        group(*members),
        topology=tiny,
        counts={"t": 1, "app-s-changelog": 1},
        assignors=always(placed([0], [(0, 1)])),
    )
    hosts = "00000001 00000000 0001 74"
    active = "00000002 0001 68 00000009 00000001 00000000 00000000 0001 69 00000007 00000000"
    standby = "00000002 0001 68 00000009 00000000 0001 69 00000007 00000001 00000000 00000000"
    rest = f"{hosts} {active} {standby} 00000000 7fffffffffffffff"
    task = "00000000 00000000 00000000"
    a = f"0000000b 0000000b 00000001 {task} 00000000 {rest}"
    b = f"0000000b 0000000b 00000000 00000001 {task} 00000001 0001 74 00000000 {rest}"
    blobs = dict(decision.assignments)
    wrapped = "0001 00000001 0001 74 00000001 00000000"
    assert blobs["a"].hex() == bytes.fromhex(f"{wrapped} {len(bytes.fromhex(a)):08x} {a}").hex()
    assert blobs["b"].hex() == bytes.fromhex(f"0001 00000000 {len(bytes.fromhex(b)):08x} {b}").hex()


def test_active_tasks_are_parallel_to_partitions_sorted_by_topic() -> None:
    """A task of two topics appears twice, and tasks of one member interleave where their topics do."""
    topology = Topology("app", (Subtopology(0, ("z", "b")), Subtopology(1, ("k",))), "file")
    members = (Thread("a", 1, topology.source_topics),)
    decision = led(group(*members), topology=topology, counts={"z": 1, "b": 2, "k": 1})
    partitions, info = sent(decision, "a")
    assert partitions == (
        TopicPartition("b", 0),
        TopicPartition("b", 1),
        TopicPartition("k", 0),
        TopicPartition("z", 0),
    )
    assert info.active_tasks == (TaskId(0, 0), TaskId(0, 1), TaskId(1, 0), TaskId(0, 0))


def test_standbys_carry_the_source_partitions_that_exist() -> None:
    topology = Topology("app", (Subtopology(3, ("z", "b"), changelogs=("app-s-changelog",)),), "file")
    members = (Thread("a", 1, topology.source_topics), Thread("b", 2, topology.source_topics))
    decision = led(
        group(*members),
        topology=topology,
        counts={"z": 1, "b": 2, "app-s-changelog": 2},
        configs=AssignmentConfigs(num_standby_replicas=1),
    )
    assert dict(sent(decision, "b")[1].standby_tasks) == {
        TaskId(3, 0): (TopicPartition("b", 0), TopicPartition("z", 0))
    }
    assert dict(sent(decision, "a")[1].standby_tasks) == {TaskId(3, 1): (TopicPartition("b", 1),)}


def test_processes_without_endpoint_are_not_in_the_maps() -> None:
    decision = led(group(Thread("a", 1, endpoint="h:9"), Thread("b", 2)))
    assert [host for host, _ in sent(decision, "b")[1].partitions_by_host] == [HostInfo("h", 9)]


def test_the_lowest_versions_of_the_group_are_used() -> None:
    decision = led(group(Thread("a", 1, version=8, latest=9), Thread("b", 2)))
    for member in ("a", "b"):
        info = sent(decision, member)[1]
        assert (info.version, info.commonly_supported_version) == (8, 9)


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_is_served(version: int) -> None:
    threads = (
        Thread("a", 1, version=version, latest=version, endpoint="h:9" if version >= 2 else None),
        Thread("b", 2, version=version, latest=version),
    )
    decision = led(group(*threads), configs=AssignmentConfigs(num_standby_replicas=1))
    partitions, info = sent(decision, "a")
    assert info.version == version
    assert [t.partition for t in info.active_tasks] == [p.partition for p in partitions]
    assert [str(t) for t, _ in info.standby_tasks] == ["1_1", "1_3"]
    assert info.next_rebalance_ms == NEVER_MS
    if version >= 2:
        assert dict(info.partitions_by_host)[HostInfo("h", 9)] == partitions
    assert bool(info.standby_partitions_by_host) == (version >= 6)


def test_members_of_the_future_share_one_process_and_are_answered_in_bellwethers_version() -> None:
    future = (12).to_bytes(4) + (12).to_bytes(4)
    decision = led(group(Thread("a", 1), Thread("c").with_user_data(future), Thread("b").with_user_data(future)))
    members = [p.members for p in decision.plan.view.processes]
    assert ("b", "c") in members
    assert ("a",) in members
    info = sent(decision, "b")[1]
    assert (info.version, info.commonly_supported_version) == (11, 11)
    assert "newer than version 11" in "".join(decision.warnings)
    again = led(group(Thread("a", 1), Thread("c").with_user_data(future), Thread("b").with_user_data(future)))
    assert [p.process_id for p in again.plan.view.processes] == [p.process_id for p in decision.plan.view.processes]


def test_a_shutdown_request_reaches_everybody() -> None:
    decision = led(group(Thread("a", 1), Thread("b", 2, error_code=4)))
    assert decision.plan.shutdown
    for member in ("a", "b"):
        assert sent(decision, member) == ((), AssignmentInfo(error_code=4))
    assert sent(decision, OWN) == ((), AssignmentInfo())


@pytest.mark.parametrize("code", [1, 2, 3, 9, -1])
def test_other_error_codes_are_ignored(code: int) -> None:
    assert not led(group(Thread("a", 1, error_code=code))).plan.shutdown


def test_probing_is_bellwethers_and_nobody_elses() -> None:
    plan = placed([0, 1, 0, 1, 0, 1, 0, 1], probing=True)
    decision = led(group(*TWO), assignors=always(plan))
    assert decision.probing_at_ms == NOW_MS + 600_000
    assert {sent(decision, m)[1].next_rebalance_ms for m in ("a", "b")} == {NEVER_MS}
    assert led(group(*TWO)).probing_at_ms is None


def test_processes_are_in_javas_order_and_threads_in_order_of_their_ids() -> None:
    high = SubscriptionInfo(process_id=ProcessId(-1, 0)).encode()
    low = SubscriptionInfo(process_id=ProcessId(1, 0)).encode()
    raw = group(Thread("z").with_user_data(low), Thread("y").with_user_data(high), Thread("x").with_user_data(low))
    decision = led(raw)
    assert [p.members for p in decision.plan.view.processes] == [("y",), ("x", "z")]
    assert decision.plan.view.capacity.tolist() == [1, 2]


def test_lags_and_previous_tasks() -> None:
    first = led(group(*TWO), configs=AssignmentConfigs(num_standby_replicas=1))
    a, b = (m.after(first) for m in TWO)
    a = replace(a, sums={(1, 0): -2, (1, 1): 400, (1, 2): 1500, (1, 3): -3, (7, 0): 5})
    decision = led(group(a, b, generation=2), memory=first.plan.memory)
    view = decision.plan.view
    mine = view.report_lag[view.report.span(0)]
    lags = {str(view.tasks.task_id(t)): n for t, n in zip(view.report[0], mine, strict=True)}
    assert lags == {"1_0": -2, "1_1": 600, "1_2": 1000, "1_3": -3}
    active, standby = view.previous_active[0], view.previous_standby[0]
    assert [str(view.tasks.task_id(t)) for t in active] == ["0_0", "0_2", "1_0", "1_2"]
    assert [str(view.tasks.task_id(t)) for t in standby] == ["1_1", "1_3"]
    assert [str(view.tasks.task_id(t)) for t in view.tasks_of_thread(0)] == ["1_0", "1_1", "1_2", "1_3"]
    assert "beyond the end" in "".join(decision.warnings)


def test_lags_carry_their_age() -> None:
    configs = AssignmentConfigs(num_standby_replicas=1)
    static = (Thread("a", 1, instance_id="ia"), Thread("b", 2, instance_id="ib"))
    first = led(group(*static), configs=configs)
    a, b = (m.after(first) for m in static)
    second = led(group(a, b, generation=2), memory=first.plan.memory, configs=configs)
    third = led(
        group(a, replace(b, unique=9), generation=3), memory=second.plan.memory, configs=configs, now_ms=NOW_MS + 70
    )
    ages = {(str(lag.task), lag.process_id.least_significant): (lag.lag, lag.age_ms) for lag in third.plan.copies}
    assert ages[("1_1", 1)] == (0, 70)
    assert ages[("1_0", 2)] == (0, 0)
    assert "did not join again" in "".join(third.warnings)


def test_summaries_count_what_each_process_has() -> None:
    configs = AssignmentConfigs(num_standby_replicas=1)
    decision = led(group(Thread("a", 1, rack="r1"), Thread("b", 2)), configs=configs)
    first, second = process_summaries(decision.plan)
    assert (first.members, first.rack, first.active_stateful, first.active_stateless, first.standby) == (
        ("a",),
        "r1",
        2,
        2,
        2,
    )
    assert (second.warmup, second.pending) == (0, 0)
    assert decision.plan.tasks_of("a")[1] == (TaskId(1, 1), TaskId(1, 3))


def test_a_policy_that_fails_gives_way_to_the_fallback() -> None:
    def fails(*_: object) -> StreamsPlan:
        raise RuntimeError("no idea")

    decision = led(group(*TWO), assignors=Assignors(fails, round_robin, by_turns))
    assert tasks_text(decision, "a") == "0_0 0_2 1_0 1_2"
    assert "no idea" in "".join(decision.warnings)


@pytest.mark.parametrize(
    "plan",
    [
        placed([0] * 7),
        placed([0] * 7 + [-1]),
        placed([0] * 7 + [2]),
        placed([0] * 8, [(4, 0)]),
        placed([0] * 8, [(4, 1), (4, 1)]),
        placed([0] * 8, [(0, 1)]),
        placed([0] * 8, [(4, 5)]),
    ],
)
def test_an_invalid_plan_is_never_sent(plan: StreamsPlan) -> None:
    decision = led(group(*TWO), assignors=always(plan))
    assert "gave no valid plan" in "".join(decision.warnings)
    assert tasks_text(decision, "a") == "0_0 0_2 1_0 1_2"


def test_racks_of_tasks_and_processes() -> None:
    cluster = cluster_of({"orders": 4, REPARTITION: 4, "shop-totals-changelog": 4}, 1, ("r1", "r2"))
    decision = led(group(Thread("a", 1, rack="r2"), Thread("b", 2, rack="elsewhere")), cluster=cluster)
    table = decision.plan.view.tasks
    assert table.racks_known
    assert decision.plan.view.rack.tolist() == [1, -2]
    assert table.source_remote[table.source_signature].tolist() == [[0, 1, 1], [1, 0, 1]] * 4


def test_two_equal_calls_give_equal_bytes() -> None:
    raw = group(*TWO)
    assert led(raw).assignments == led(raw).assignments


def test_where_not_even_the_fallback_has_a_plan_the_group_is_left() -> None:
    nowhere = placed([NOBODY] * 8)
    step = refused(group(*TWO), assignors=Assignors(lambda *_: nowhere, lambda *_: nowhere, by_turns))
    assert step.reason.startswith("no valid plan: task 0_0 runs nowhere; ")


def test_threads_of_another_process_are_found() -> None:
    def swapped(view: object, plan: StreamsPlan) -> ThreadPlan:
        return ThreadPlan((1 - plan.active).astype(np.int32), plan.standby_process)

    step = refused(group(*TWO), assignors=Assignors(round_robin, round_robin, swapped))
    assert step.reason.startswith("no valid plan on threads: task 0_0 is on a wrong thread; ")


def test_bytes_for_another_member_are_found_before_they_are_sent() -> None:
    decision = led(group(*TWO))
    blobs = [blob for _, blob in decision.assignments]
    exchanged = tuple((member, blob) for (member, _), blob in zip(decision.assignments, blobs[::-1], strict=True))
    assert decision.plan.findings(decision.raw, exchanged)
