"""Whatever members send: a Streams group is decided and valid, or Bellwether steps aside; and calm members settle."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bellwether_kafka.assignors.shared import ClusterView, Decision, RawGroup, RawMember, Refusal, RefusalCause
from bellwether_kafka.assignors.streams import TaskPlan, decide_streams
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, EndOffsets, StreamsPlan, StreamsView
from bellwether_kafka.assignors.streams.members import StreamsMemory, decode_streams
from bellwether_kafka.assignors.streams.policies import STREAMS_POLICIES
from bellwether_kafka.assignors.streams.sending import validate_bytes, validate_plan
from bellwether_kafka.protocol.messages import AssignmentInfo, ConsumerProtocolAssignment
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.consumers import cluster_of
from tests.kit.streams import OWN, SHOP, SHOP_COUNTS, SIMPLE, Thread, decided, ends_of, group, led

SOURCES = SHOP.source_topics
tasks = st.tuples(st.integers(-1, 2), st.integers(-1, 4))
sums = st.dictionaries(tasks, st.sampled_from([-(2**63), -5, -3, -2, 0, 1000, 1001, 2**63 - 1]), max_size=6)
owned = st.lists(st.builds(TopicPartition, st.sampled_from(SOURCES), st.integers(-1, 4)), unique=True, max_size=6)


@st.composite
def threads(draw: st.DrawFn, number: int) -> Thread:
    version = draw(st.sampled_from([11, 11, 11, 10, 7, 6, 3, 2, 1]))
    return Thread(
        f"m{number}",
        draw(st.integers(1, 3)),
        draw(st.sampled_from([SOURCES, SOURCES, SOURCES, SOURCES, ("orders",)])),
        draw(sums) if version >= 7 else {},
        tuple(draw(owned)),
        draw(st.integers(-1, 6)),
        draw(st.sampled_from([None, "a", "b"])),
        draw(st.sampled_from([None, None, "h:9", "i:1", "bad"])) if version > 1 else None,
        (),
        version,
        draw(st.integers(version, 12)),
        draw(st.sampled_from([0, 0, 0, 0, 0, 0, 4, 9])) if version >= 9 else 0,
        instance_id=draw(st.sampled_from([None, f"i{number}"])),
    )


@st.composite
def members(draw: st.DrawFn, number: int) -> RawMember:
    thread = draw(threads(number))
    kind = draw(st.sampled_from(["honest", "honest", "honest", "null", "future", "broken", "metadata"]))
    if kind == "null":
        return thread.with_user_data(None)
    if kind == "future":
        return thread.with_user_data((12).to_bytes(4) + (12).to_bytes(4))
    blob = bytearray(thread.info.encode() if kind == "broken" else thread.raw.metadata)
    if kind == "honest":
        return thread.raw
    for at in draw(st.lists(st.integers(0, len(blob) - 1), max_size=3)):
        blob[at] = draw(st.integers(0, 255))
    cut = bytes(blob[: draw(st.integers(0, len(blob)))]) if draw(st.booleans()) else bytes(blob)
    return thread.with_user_data(cut) if kind == "broken" else replace(thread.raw, metadata=cut)


@st.composite
def raw_groups(draw: st.DrawFn) -> RawGroup:
    count = draw(st.integers(0, 5))
    theirs = [draw(members(i)) for i in range(count)]
    return RawGroup("g", draw(st.integers(0, 7)), "stream", (*theirs, RawMember(OWN, None, b"")), frozenset({OWN}))


endings = st.sampled_from([ends_of(SHOP, SHOP_COUNTS), EndOffsets({}), EndOffsets.failed("no answer")])


def check(decision: Decision[TaskPlan] | Refusal, raw: RawGroup) -> None:
    """What must hold for every answer."""
    if isinstance(decision, Refusal):
        assert decision.reason
        assert decision.cause is not RefusalCause.PLAN, decision.reason
        return
    assert [m for m, _ in decision.assignments] == [m.member_id for m in raw.members]
    blobs = dict(decision.assignments)
    given_out: list[TopicPartition] = []
    for member in raw.members:
        assignment = ConsumerProtocolAssignment.decode(blobs[member.member_id])
        info = AssignmentInfo.decode(assignment.user_data or b"")
        ordered = sorted(assignment.partitions)
        assert len(info.active_tasks) == len(ordered)
        assert [task.partition for task in info.active_tasks] == [p.partition for p in ordered]
        assert {SHOP.subtopology_of[p.topic] for p in ordered} == {task.subtopology for task in info.active_tasks}
        assert {task for task, _ in info.standby_tasks}.isdisjoint(info.active_tasks)
        given_out += ordered
    assert len(set(given_out)) == len(given_out)
    assert ConsumerProtocolAssignment.decode(blobs[OWN]).partitions == ()
    if decision.plan.shutdown or not raw.others:
        return
    assert validate_plan(decision.plan.view, decision.plan.target) == ()
    kept_back = {decision.plan.view.tasks.task_id(t) for t in np.flatnonzero(decision.plan.pending).tolist()}
    assert len(given_out) == decision.plan.view.tasks.size - len(kept_back)
    # Who waits for something rejoins at once, alone or with everybody, or alone when the owner had time to let go.
    called_at_ms = decision.plan.out.next_rebalance_ms
    rows = np.flatnonzero((called_at_ms == 0) | (called_at_ms == decision.decided_at_ms + 1_000)).tolist()
    waiting = sorted(
        {int(decision.plan.process_map.member[t]) for t in decision.plan.threads.active[decision.plan.pending]}
    )
    assert rows in (waiting, sorted(decision.plan.process_map.member.tolist()))
    assert bool(rows) == decision.followup


@settings(max_examples=300)
@given(raw_groups(), raw_groups(), endings, st.integers(0, 2))
def test_two_rebalances_of_any_members_are_decided_or_left(
    first: RawGroup, second: RawGroup, ends: EndOffsets, standbys: int
) -> None:
    configs = AssignmentConfigs(num_standby_replicas=standbys)
    decision = decided(first, ends=ends, configs=configs)
    check(decision, first)
    memory = decision.plan.memory if isinstance(decision, Decision) else StreamsMemory.empty()
    check(decided(second, ends=ends, configs=configs, memory=memory), second)


@settings(max_examples=150)
@given(raw_groups(), raw_groups(), endings, st.integers(0, 2), st.sampled_from(STREAMS_POLICIES))
def test_two_rebalances_with_the_stock_policies(
    first: RawGroup, second: RawGroup, ends: EndOffsets, standbys: int, policy: str
) -> None:
    configs = AssignmentConfigs(num_standby_replicas=standbys, rack_aware_assignment_strategy="min_traffic")
    cluster = cluster_of(SHOP_COUNTS, 2, ("a", "b", "c"))
    outcome = decide_streams(first, cluster, ends, SHOP, StreamsMemory.empty(), configs, policy, 1_000)
    check(outcome, first)
    memory = outcome.plan.memory if isinstance(outcome, Decision) else StreamsMemory.empty()
    two = decide_streams(second, cluster, ends, SHOP, memory, configs, policy, 2_000)
    check(two, second)
    for decision in (outcome, two):
        if isinstance(decision, Decision):
            assert not any("gave no valid plan" in warning for warning in decision.warnings)


@settings(max_examples=60)
@given(st.lists(threads(0), min_size=1, max_size=5))
def test_settled_threads_settle_whatever_is_decided(drawn: list[Thread]) -> None:
    """Plans change from rebalance to rebalance. Once they stop changing, one rebalance hands out what an earlier plan
    left pending, as that had it, one moves to the last plan, and after one more nothing is pending."""
    crowd = [
        replace(t, member_id=f"m{i}", instance_id=None, topics=SOURCES, sums={}, owned=(), error_code=0, generation=-1)
        for i, t in enumerate(drawn)
    ]
    memory = StreamsMemory.empty()
    decision = None
    for generation in range(1, 7):
        turn = min(generation, 3)

        def turned(view: StreamsView, configs: AssignmentConfigs, policy: str, turn: int = turn) -> StreamsPlan:
            plan = SIMPLE.assign(view, configs, policy)
            return replace(plan, active=((plan.active + turn) % view.size).astype(np.int32))

        raw = group(*crowd, generation=generation)
        decision = led(raw, memory=memory, assignors=replace(SIMPLE, assign=turned))
        check(decision, raw)
        assert (
            validate_bytes(
                decode_streams(raw), decision.plan.tasks, decision.plan.out, [b for _, b in decision.assignments[:-1]]
            )
            == ()
        )
        memory = decision.plan.memory
        crowd = [t.after(decision) if t.version >= 7 else replace(t.after(decision), sums={}) for t in crowd]
    assert decision is not None
    assert not decision.followup
    assert (decision.moves.moved, decision.moves.new) == (0, 0)


def test_the_check_can_fail() -> None:
    step = Refusal(RefusalCause.PLAN, "x")
    try:
        check(step, RawGroup("g", 1, "stream", ()))
    except AssertionError:
        return
    raise AssertionError("a defect of a plan went through")


def test_an_empty_cluster() -> None:
    assert isinstance(decided(RawGroup("g", 1, "stream", (Thread("a").raw,)), cluster=ClusterView.of({})), Refusal)


@pytest.mark.parametrize("late", [False, True])
def test_a_plan_in_place_of_the_policys_is_carried_out_while_the_policy_has_none(late: bool) -> None:
    """What a cheaper plan left pending was handed out although the policy, which could plan again, had another plan."""
    crowd = [Thread(f"m{i}", i % 2 + 1, SOURCES) for i in range(3)]
    memory, decisions = StreamsMemory.empty(), []
    for generation, (turn, cheap) in enumerate([(0, False), (1, True), (2, late)], start=1):

        def turned(view: StreamsView, configs: AssignmentConfigs, policy: str, turn: int = turn) -> StreamsPlan:
            plan = SIMPLE.assign(view, configs, policy)
            return replace(plan, active=((plan.active + turn) % view.size).astype(np.int32))

        raw = group(*crowd, generation=generation)
        decisions.append(led(raw, memory=memory, assignors=replace(SIMPLE, assign=turned, cheap=cheap)))
        memory = decisions[-1].plan.memory
        crowd = [t.after(decisions[-1]) for t in crowd]
    cheaper, last = (decision.plan.target.active for decision in decisions[1:])
    assert decisions[1].plan.pending.any()
    assert (last.tolist() == cheaper.tolist()) is late
