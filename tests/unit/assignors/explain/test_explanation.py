"""Explanations agree with the decision they explain."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bellwether_kafka.assignors.consumer import POLICIES, PartitionPlan, Policy, decide, score
from bellwether_kafka.assignors.explain import explain
from bellwether_kafka.assignors.shared import NOBODY, ClusterView, Decision, Memory, RawGroup, RawMember, Weights
from bellwether_kafka.assignors.streams.application import EndOffsets
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.applications import ONE_STANDBY
from tests.kit.consumers import cluster_of
from tests.kit.streams import NOW_MS, SHOP_COUNTS, Thread, always, group, led, placed

TWO = (Thread("a", 1), Thread("b", 2))
RACKS = ("az1", "az2", "az3")


def member(name: str, rack: str | None, topics: tuple[str, ...] = ("orders", "users")) -> RawMember:
    return RawMember(name, None, ConsumerProtocolSubscription(version=3, topics=topics, rack_id=rack).encode())


def decided(
    *members: RawMember,
    policy: str = "kafka",
    memory: Memory | None = None,
    generation: int = 1,
    protocol: str = "range",
) -> Decision[PartitionPlan]:
    cluster = ClusterView.of({"orders": [["az1"], ["az2"], ["az3"], ["az3"]], "users": [["az1"], ["az2"]]})
    raw = RawGroup("g", generation, protocol, members, frozenset())
    return decide(raw, cluster, memory or Memory.empty(), Policy(policy), now_ms=5)


def test_a_partition_that_nobody_had() -> None:
    explanation = explain(decided(member("a", "az1"), member("b", None)), 0)
    assert (explanation.item, explanation.before, explanation.after, explanation.stage) == (
        "orders-0",
        None,
        "a",
        "placement by range",
    )
    assert explanation.sentence == "orders-0 had no owner and goes to a (placement by range)."
    assert [(a.owner, a.chosen) for a in explanation.alternatives] == [("a", True), ("b", False)]
    assert [(a.item_count, a.allowed, a.cross_rack, a.spread) for a in explanation.alternatives] == [
        (3, True, 0, 0),
        (3, True, 0, 2),
    ]


def test_what_weights_are_made_of_is_named() -> None:
    assert (
        "(placement by load: none are known, so counts are balanced)"
        in explain(decided(member("a", None), policy="load-aware"), 0).sentence
    )
    weights = Weights({TopicPartition("orders", p): 1.0 for p in range(4)}, source="records and bytes")
    raw = RawGroup("g", 1, "range", (member("a", None),), frozenset())
    decision = decide(
        raw, ClusterView.of({"orders": [[None]] * 4}), Memory.empty(), Policy("load-aware").with_weights(weights), 5
    )
    assert explain(decision, 0).sentence.endswith("(placement by load: records and bytes).")
    assert decision.stages[0].reason.endswith("Weights: records and bytes.")


def test_alternatives_say_what_they_would_do_to_the_counts() -> None:
    decision = decided(member("a", None), member("b", None), member("c", None))
    assert np.bincount(decision.plan.owner).tolist() == [3, 2, 1]
    heaviest, lightest = (explain(decision, int(np.flatnonzero(decision.plan.owner == m)[0])) for m in (0, 2))
    assert {a.owner: a.verdict for a in heaviest.alternatives} == {
        "a": "The plan chose it.",
        "b": "No better and no worse: an equal plan.",
        "c": "The counts would be 2 closer.",
    }
    assert {a.owner: a.verdict for a in lightest.alternatives} == {
        "a": "But the counts would be 2 further apart.",
        "b": "But the counts would be 1 further apart.",
        "c": "The plan chose it.",
    }


def test_a_swap_for_locality_names_its_stage_and_what_staying_would_cost() -> None:
    first = decided(member("a", "az1"), member("b", "az3"), policy="sticky-min-churn")
    swapped = decided(
        member("a", "az3"), member("b", "az1"), policy="rack-first", memory=first.plan.memory, generation=2
    )
    moved = np.flatnonzero(swapped.plan.before != swapped.plan.owner)
    assert len(moved) > 0
    for flat in moved.tolist():
        explanation = explain(swapped, flat)
        assert explanation.stage == "rack locality"
        remain = next(a for a in explanation.alternatives if a.owner == explanation.before)
        assert "stay where it was" in remain.verdict
    assert any("read from another rack" in a.verdict for f in moved for a in explain(swapped, int(f)).alternatives)


def test_only_subscribers_are_alternatives() -> None:
    decision = decided(member("a", "az1"), member("b", "az2", ("users",)))
    orders = explain(decision, 0)
    assert [a.owner for a in orders.alternatives] == ["a"]
    nobody = decided(member("b", "az2", ("users",)))
    assert set(nobody.plan.owner[:4].tolist()) <= {NOBODY}


@pytest.mark.slow
@settings(max_examples=60)
@given(
    racks=st.lists(st.sampled_from((*RACKS, None)), min_size=1, max_size=5),
    later=st.lists(st.sampled_from((*RACKS, None)), min_size=1, max_size=5),
    policy=st.sampled_from(POLICIES[:3]),
)
def test_the_stage_named_is_the_one_that_moved_it(
    racks: list[str | None], later: list[str | None], policy: str
) -> None:
    first = decided(*(member(f"m{i}", rack) for i, rack in enumerate(racks)))
    second = decided(
        *(member(f"m{i}", rack) for i, rack in enumerate(later)), policy=policy, memory=first.plan.memory, generation=2
    )
    for flat in range(second.cluster.partition_total):
        after, named = int(second.plan.owner[flat]), second.plan.placed_by(flat, second.policy, second.stages)
        # Taken away, the stages from the named one on leave it elsewhere; after the named one it is where it is.
        before_it = NOBODY
        for stage in second.stages:
            assert stage.owner is not None
            if stage.stage == named:
                assert int(stage.owner[flat]) == after != before_it
                break
            before_it = int(stage.owner[flat])
        for alternative in explain(second, flat).alternatives:
            if alternative.chosen:
                continue
            moved = np.array(second.plan.owner)
            moved[flat] = [m.member_id for m in second.plan.group.members].index(alternative.owner)
            was, would = (
                score(second.plan.group, second.cluster, second.plan.owner),
                score(second.plan.group, second.cluster, moved),
            )
            assert (alternative.cross_rack, alternative.spread) == (would.cross_rack - was.cross_rack, would.spread)


def test_tasks_of_an_application() -> None:
    a, b, c = Thread("a", 1, rack="az1"), Thread("b", 2, rack="az2"), Thread("c", 3)
    warm = led(group(a, b), configs=ONE_STANDBY)
    grown = led(
        group(a.after(warm), b.after(warm), c, generation=2),
        configs=ONE_STANDBY,
        memory=warm.plan.memory,
        now_ms=NOW_MS + 5,
    )
    for task in range(grown.plan.view.tasks.size):
        explanation = explain(grown, task)
        json.dumps(asdict(explanation))  # plain values, no scalars of numpy
        chosen = next(alternative for alternative in explanation.alternatives if alternative.chosen)
        assert explanation.after == chosen.owner
        assert len(explanation.alternatives) == grown.plan.view.size
        for process, view in enumerate(grown.plan.view.processes):
            first = next(x for x in explanation.alternatives if x.owner == str(view.process_id))
            lag = grown.plan.view.lag_of(task, process)
            if (
                not first.chosen
                and grown.plan.view.tasks.stateful[task]
                and lag > grown.plan.configs.acceptable_recovery_lag
            ):
                assert f"restore {lag} records" in first.verdict


def test_alternatives_say_what_racks_would_gain_and_lose() -> None:
    threads = (Thread("a", 1, rack="a"), Thread("b", 2, rack="b"), Thread("c", 3))
    cluster = cluster_of(SHOP_COUNTS, racks=("a", "b"))
    decision = led(group(*threads), cluster=cluster, assignors=always(placed([0, 0, 1, 1, 0, 1, 2, 2])))
    reported = [a.verdict for task in range(8) for a in explain(decision, task).alternatives]
    assert any("1 more partitions would be read from another rack" in verdict for verdict in reported)
    assert any("1 fewer partitions would be read from another rack" in verdict for verdict in reported)


def test_alternatives_say_that_a_lag_is_not_known() -> None:
    decision = led(group(*TWO), ends=EndOffsets.failed("no answer"))
    verdicts = [a.verdict for a in explain(decision, 4).alternatives if not a.chosen]
    assert verdicts == ["It has a lag that is not known."]


def owning(generation: int) -> bytes:
    """The subscription of a member that says it has the first partition since this generation."""
    first = (TopicPartition("orders", 0),)
    return ConsumerProtocolSubscription(3, ("orders", "users"), None, first, generation).encode()


def test_a_claim_that_is_not_accepted_is_named_where_it_was_made() -> None:
    """A member said that it had what it was never given; only a warning of the whole decision said so."""
    a, b = (RawMember(name, None, owning(generation)) for name, generation in (("a", 0), ("b", 7)))
    decision = decided(a, b, protocol="cooperative-sticky")
    message = explain(decision, 0).sentence
    assert message.endswith("Rejected: b claims partitions in a generation that the group has not reached.")
    assert "Not believed" not in explain(decision, 1).sentence


def test_a_thread_that_is_not_accepted_is_named_by_the_explanation_of_its_task() -> None:
    first = led(group(*TWO))
    a, b = (thread.after(first) for thread in TWO)
    partition = a.owned[0]
    again = led(group(a, replace(b, owned=(*b.owned, partition)), generation=2), memory=first.plan.memory)
    tasks = [explain(again, task).sentence for task in range(again.plan.view.tasks.size)]
    assert ["Rejected: b claims partitions that it was never given" in text for text in tasks].count(True) == 1
