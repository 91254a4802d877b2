"""Members, topologies, topics and offsets that are wrong: one bad member degrades alone, or Bellwether steps aside."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import AssignedMember, ClusterView, RawMember, RefusalCause
from bellwether_kafka.assignors.streams.application import (
    UNKNOWN_OFFSET_SUM,
    AssignmentConfigs,
    EndOffsets,
    StreamsPlan,
    StreamsView,
)
from bellwether_kafka.assignors.streams.members import StreamsMemory, recall_streams
from bellwether_kafka.protocol.messages import LATEST_OFFSET, AssignmentInfo, SubscriptionInfo
from bellwether_kafka.protocol.primitives import ProcessId, TaskId, TopicPartition
from tests.kit.consumers import cluster_of
from tests.kit.streams import (
    CHANGELOG,
    NOW_MS,
    OWN,
    REPARTITION,
    SHOP_COUNTS,
    TWO,
    A,
    B,
    Thread,
    always,
    group,
    led,
    placed,
    refused,
    sent,
    tasks_text,
)

GOOD = A.info.encode()


@pytest.mark.parametrize(
    ("user_data", "reason"),
    [
        (None, "userData is null"),
        (b"", "needed"),
        (GOOD[:20], "needed"),
        ((12).to_bytes(4) + (11).to_bytes(4), "above the latest"),
        ((0).to_bytes(4) + GOOD[4:], "latest"),
        (GOOD[:24] + (-1).to_bytes(4, signed=True) + GOOD[28:], "negative"),
        (GOOD[:28] + (2**31 - 1).to_bytes(4) + GOOD[32:], "count"),
    ],
)
def test_an_unreadable_member_gets_no_tasks_and_valid_bytes(user_data: bytes | None, reason: str) -> None:
    decision = led(group(A, Thread("x").with_user_data(user_data)))
    assert tasks_text(decision, "a") == "0_0 0_1 0_2 0_3 1_0 1_1 1_2 1_3"
    assert sent(decision, "x") == ((), AssignmentInfo())
    assert any("member x cannot be read" in w and reason in w and "gets no tasks" in w for w in decision.warnings)


def test_an_unreadable_subscription_is_one_degraded_member() -> None:
    decision = led(group(A, RawMember("x", None, b"\x00\x03\xff")))
    assert sent(decision, "x") == ((), AssignmentInfo())
    assert len(sent(decision, "a")[0]) == 8


def test_a_known_thread_that_becomes_unreadable_keeps_its_tasks() -> None:
    first = led(group(A, B))
    a = A.after(first)
    for broken in (RawMember("b", None, b"junk"), B.after(first).with_user_data(GOOD[:20])):
        second = led(group(a, broken, generation=2), memory=first.plan.memory)
        assert tasks_text(second, "b") == "0_1 0_3 1_1 1_3"
        assert not second.followup
        assert "keeps its place and its tasks" in "".join(second.warnings)
        third = led(group(A.after(second), broken, generation=3), memory=second.plan.memory)
        assert tasks_text(third, "b") == "0_1 0_3 1_1 1_3"


def test_partitions_of_an_outsider_are_not_handed_over_before_it_lets_go() -> None:
    outsider = replace(B, owned=(TopicPartition("orders", 0),), generation=1).with_user_data(None)
    decision = led(group(A, outsider, generation=2))
    assert TaskId(0, 0) not in sent(decision, "a")[1].active_tasks
    assert sent(decision, "a")[1].next_rebalance_ms == 0


def test_nobody_can_be_read() -> None:
    step = refused(group(A.with_user_data(None)))
    assert (step.cause, "no member can be read; a: userData is null") == (RefusalCause.MEMBERS, step.reason)


def test_the_future_beside_the_distant_past_is_refused() -> None:
    future = (12).to_bytes(4) + (12).to_bytes(4)
    step = refused(group(Thread("a", 1, version=2), B.with_user_data(future)))
    assert step.cause is RefusalCause.MEMBERS
    assert "version 2" in step.reason


def test_a_newcomer_with_named_topologies_beside_threads_that_are_led_gets_no_tasks() -> None:
    """Bellwether stepped aside, and the next leader was the newcomer itself, or a Java member, which dies of the
    mixture."""
    first = led(group(A))
    info = SubscriptionInfo(process_id=ProcessId(0, 9), task_offset_sums=((TaskId(0, 0, "top"), LATEST_OFFSET),))
    odd = Thread("x").with_user_data(info.encode())
    second = led(group(A.after(first), odd, generation=2), memory=first.plan.memory)
    assert sent(second, "x") == ((), AssignmentInfo())
    assert len(sent(second, "a")[0]) == 8
    assert "member x cannot be read (uses named topologies" in "".join(second.warnings)
    decision = led(group(A, B))
    step = refused(group(A.after(decision), B.with_user_data(info.encode()), generation=2), memory=decision.plan.memory)
    assert (step.cause, "named topologies" in step.reason) == (RefusalCause.MEMBERS, True)


def test_contradictory_threads_of_one_process_are_a_warning() -> None:
    decision = led(
        group(Thread("a", 1, rack="r1", endpoint="h:9"), Thread("b", 1, rack="r2", endpoint="i:9", tags=(("k", "v"),)))
    )
    (process,) = decision.plan.view.processes
    assert (process.rack, str(process.endpoint)) == (None, "HostInfo(host='h', port=9)")
    assert "disagree on rack, tags or endpoint" in "".join(decision.warnings)
    # Shown maps without its own endpoint it would rejoin for ever.
    assert sent(decision, "a")[1].partitions_by_host
    assert sent(decision, "b")[1].partitions_by_host == ()


@pytest.mark.parametrize("endpoint", ["nonsense", "h:port", "h:99999999999", ":"])
def test_a_malformed_endpoint_is_left_out(endpoint: str) -> None:
    decision = led(group(Thread("a", 1, endpoint=endpoint), Thread("b", 2, endpoint="h:9")))
    assert "which is no host:port" in "".join(decision.warnings)
    assert sent(decision, "a")[1].partitions_by_host == ()
    assert len(sent(decision, "b")[1].partitions_by_host) == 1


def test_hostile_sums_do_not_count() -> None:
    sums = {(1, 0): 2**63 - 1, (1, 1): -(2**63), (1, 2): -5, (99, 0): 1, (1, 99): 1, (0, 0): 7}
    decision = led(group(replace(A, sums=sums), B))
    view = decision.plan.view
    mine = view.report_lag[view.report.span(0)].tolist()
    assert mine == [1000, 1000, 1000]


def test_claims_on_what_was_never_given_do_not_block_anybody() -> None:
    first = led(group(A, B))
    thief = replace(B.after(first), owned=A.after(first).owned + B.after(first).owned)
    plan = placed([1, 0, 1, 0, 1, 0, 1, 0])
    second = led(group(A.after(first), thief, generation=2), memory=first.plan.memory)
    assert not second.followup
    assert "claims partitions that it was never given" in "".join(second.warnings)
    # What it really has is still pending from others.
    third = led(group(A.after(first), thief, generation=2), memory=first.plan.memory, assignors=always(plan))
    assert third.plan.pending.all()


def test_claims_on_partitions_that_do_not_exist_are_dropped() -> None:
    owned = (TopicPartition("orders", 99), TopicPartition("orders", -1), TopicPartition("gone", 0))
    decision = led(group(replace(A, owned=owned, generation=1), B, generation=2))
    assert not decision.followup


def test_a_newcomer_that_says_it_runs_tasks_is_not_accepted() -> None:
    """One lie of one stranger made Bellwether step aside from an application that was led well."""
    first = led(group(A, B))
    liar = Thread("x", 9, sums={(7, 0): -2, (0, 0): -2, (1, 1): -2}, owned=(TopicPartition(REPARTITION, 0),))
    second = led(group(A.after(first), B.after(first), liar, generation=2), memory=first.plan.memory)
    assert second.plan.view.size == 3
    accepted = replace(A.after(first), sums={(7, 0): -2})
    assert (
        refused(group(accepted, B.after(first), generation=2), memory=first.plan.memory).cause is RefusalCause.TOPOLOGY
    )


def test_old_state_on_disk_proves_nothing() -> None:
    decision = led(group(replace(A, sums={(7, 0): 100, (1, 9): 5}), B))
    assert not decision.followup


def test_an_unreadable_topic_keeps_the_size_that_memory_knows() -> None:
    first = led(group(A, B))
    here = cluster_of({t: n for t, n in SHOP_COUNTS.items() if t != "orders"})
    blind = replace(here, unreadable=frozenset({"orders"}))
    second = led(group(A.after(first), B.after(first), generation=2), cluster=blind, memory=first.plan.memory)
    assert second.moves.kept == 8
    step = refused(group(A, B), cluster=blind)
    assert (step.cause, "orders cannot be read" in step.reason) == (RefusalCause.TOPICS, True)


def test_a_changelog_that_cannot_be_read_costs_only_the_lags() -> None:
    here = cluster_of({"orders": 4, REPARTITION: 4})
    blind = replace(here, unreadable=frozenset({CHANGELOG}))
    decision = led(group(A, B), cluster=blind, ends=EndOffsets({}))
    assert not decision.plan.lags_known
    assert not decision.plan.view.tasks.changelog_racks_known


@pytest.mark.parametrize(
    "ends",
    [
        EndOffsets.failed("timed out"),
        EndOffsets({}),
        EndOffsets({CHANGELOG: np.array([1, 2, 3])}),
        EndOffsets({CHANGELOG: np.array([1, -1, 3, 4])}),
    ],
)
def test_without_end_offsets_the_fallback_decides(ends: EndOffsets) -> None:
    members = (replace(A, sums={(1, 0): -2, (1, 1): 500}, owned=(TopicPartition(REPARTITION, 0),)), B)
    decision = led(group(*members), ends=ends, assignors=always(placed([1] * 8)))
    assert not decision.plan.lags_known
    assert tasks_text(decision, "a") == "0_0 0_2 1_0 1_2"  # the fallback of these tests goes round robin
    assert decision.plan.view.report_lag.tolist() == [-2, UNKNOWN_OFFSET_SUM]
    assert set(decision.plan.view.tasks.end_sum.tolist()) == {UNKNOWN_OFFSET_SUM}
    assert "lags are not known" in "".join(decision.warnings)


def test_a_custom_assignor_is_asked_without_lags_and_reported_time_and_cluster() -> None:
    """It was asked only when lags were known, and its deadlines counted from the year 1970: endless rebalances."""
    seen: list[tuple[int, bool, bool]] = []

    def custom(view: StreamsView, *_: object) -> StreamsPlan:
        seen.append((view.now_ms, view.cluster is not None, view.lags_known))
        return placed([1] * 8)

    decision = led(
        group(A, B),
        ends=EndOffsets.failed("timed out"),
        assignors=replace(always(placed([0] * 8)), assign=custom, without_lags=True),
    )
    assert seen == [(NOW_MS, True, False)]
    assert tasks_text(decision, "a") == ""


def test_an_assignor_that_mutates_or_returns_nonsense_is_not_accepted() -> None:
    step = refused(
        group(A, B),
        assignors=replace(always(placed([0] * 8)), spread=lambda _view, _plan: None),  # type: ignore[arg-type,return-value]  # on purpose
    )
    assert step.cause is RefusalCause.PLAN


def described(decision_standbys: int) -> StreamsMemory:
    """Memory of a Java-led plan that keeps this many standbys."""
    three = (A, B, Thread("c", 3))
    java = led(group(*three), configs=AssignmentConfigs(num_standby_replicas=decision_standbys))
    members = [
        AssignedMember(m, None, t.after(java).raw.metadata, dict(java.assignments)[m])
        for m, t in zip(("a", "b", "c"), three, strict=True)
    ]
    return recall_streams(1, "stream", cluster_of(SHOP_COUNTS), members)


@pytest.mark.parametrize(
    ("seen", "configured", "fine"), [(0, 0, True), (1, 1, True), (1, 0, False), (0, 1, False), (2, 5, True)]
)
def test_standbys_that_the_present_plan_does_not_have_are_refused(seen: int, configured: int, fine: bool) -> None:
    memory = described(seen)
    three = group(*(t for t in (A, B, Thread("c", 3))), generation=2)
    configs = AssignmentConfigs(num_standby_replicas=configured)
    if fine:
        led(three, memory=memory, configs=configs)
        return
    step = refused(three, memory=memory, configs=configs)
    assert step.cause is RefusalCause.CONFIG
    assert f"num.standby.replicas is {configured} here" in step.reason
    assert f"keeps {seen} standbys" in step.reason


def test_recalled_memory_knows_what_threads_had_when_they_joined() -> None:
    first = led(group(A, B))
    threads = [A.after(first), B.after(first)]
    gone = (TopicPartition("orders", 99), TopicPartition("elsewhere", 0))
    threads[0] = replace(threads[0], owned=(*threads[0].owned, *gone))
    described = [AssignedMember(t.member_id, None, t.raw.metadata, b"") for t in threads]
    owned = recall_streams(2, "stream", first.cluster, described).owned
    assert owned.owner.tolist() == first.plan.memory.plan.owner.tolist()


@pytest.mark.parametrize("topic", ["orders", REPARTITION])
def test_a_topic_that_cannot_be_read_is_not_forgotten_when_memory_is_rebuilt(topic: str) -> None:
    first = led(group(A, B))
    blobs = dict(first.assignments)
    threads = [A.after(first), B.after(first)]
    described = [AssignedMember(t.member_id, None, t.raw.metadata, blobs[t.member_id]) for t in threads]
    counts = {name: count for name, count in SHOP_COUNTS.items() if name != topic}
    blind = replace(cluster_of(counts), unreadable=frozenset({topic}))
    memory = recall_streams(2, "stream", blind, described)
    whole = recall_streams(2, "stream", first.cluster, described)
    for part, expected in ((memory.plan, whole.plan), (memory.owned, whole.owned)):
        assert (
            part.owner_in(first.cluster, ["a", "b"]).tolist() == expected.owner_in(first.cluster, ["a", "b"]).tolist()
        )


def test_recalled_memory_knows_threads_and_what_they_hold() -> None:
    memory = described(1)
    assert memory.threads["a"].process_id == ProcessId(0, 1)
    assert not memory.led
    assert (memory.generation, memory.processes) == (1, 3)
    assert memory.standbys[TaskId(1, 0)] == 1


def test_bellwethers_own_bytes_do_not_matter() -> None:
    raw = group(A, own=False)
    decision = led(replace(raw, members=(*raw.members, RawMember(OWN, None, b"\xff")), own_member_ids=frozenset({OWN})))
    assert sent(decision, OWN)[0] == ()


def test_an_empty_cluster_is_a_reason_not_a_crash() -> None:
    assert refused(group(A), cluster=ClusterView.of({})).cause is RefusalCause.TOPICS


def test_members_that_cannot_be_read_are_not_recalled() -> None:
    odd = AssignedMember("odd", None, b"\0", b"")
    good = AssignedMember("a", None, TWO[0].raw.metadata, b"")
    assert list(recall_streams(3, "stream", cluster_of(SHOP_COUNTS), [odd, good]).threads) == ["a"]


@pytest.mark.parametrize("age", [lambda _: 2**31 - 1, lambda g: g, lambda g: g - 1, lambda _: 1, lambda _: -1])
def test_a_newcomer_that_claims_everything_at_each_join_blocks_nobody(age: Callable[[int], int]) -> None:
    first = led(group(A, B))
    a, b, decision = A.after(first), B.after(first), first
    everything = a.owned + b.owned
    swap = always(placed([1, 0, 1, 0, 1, 0, 1, 0]))
    for generation in range(2, 6):
        thief = replace(
            A, member_id="thief", process=3, owned=everything, generation=age(generation), unique=generation
        )
        raw = group(a, b, thief, generation=generation)
        decision = led(raw, memory=decision.plan.memory, assignors=swap)
        a, b = a.after(decision), b.after(decision)
    assert not decision.plan.pending.any()
    assert "member thief claims partitions" in "".join(decision.warnings)
    assert len(a.owned) + len(b.owned) == len(everything)
