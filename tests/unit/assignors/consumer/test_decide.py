"""A rebalance from bytes to bytes: groups of many languages, bad members, frozen topics, pending partitions, memory."""

from dataclasses import replace

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import Policy, decide
from bellwether_kafka.assignors.shared import Decision, Memory
from bellwether_kafka.protocol.bulk import owner_of
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.consumers import (
    EMPTY_ASSIGNMENT,
    KAFKA,
    T6,
    LiveMember,
    claimed_by,
    cluster_of,
    given,
    given_text,
    java,
    kafka_go,
    kafka_python_sticky,
    live_group,
    raw_group,
    settle,
    sticky_v1,
    subscription,
    tps,
)


def test_every_member_id_has_an_assignment_and_bellwethers_own_is_empty() -> None:
    raw = raw_group({"us": subscription(0, ["control"], b""), "a": java(["t"]), "b": java(["t"])}, own=["us"])
    decision = decide(raw, T6, Memory.empty(), KAFKA, now_ms=5)
    assert [m for m, _ in decision.assignments] == ["us", "a", "b"]
    assert dict(decision.assignments)["us"] == EMPTY_ASSIGNMENT
    assert sorted(len(g) for g in given(decision).values()) == [0, 3, 3]
    assert (decision.decided_at_ms, decision.policy, decision.followup) == (5, "kafka", False)


def test_a_group_of_only_ourselves_and_an_empty_one_are_no_error() -> None:
    alone = decide(raw_group({"us": subscription(0, ["t"], b"")}, own=["us"]), T6, Memory.empty(), KAFKA, 0)
    assert alone.assignments == (("us", EMPTY_ASSIGNMENT),)
    nobody = decide(raw_group({}), cluster_of({}), Memory.empty(), Policy("rack-first"), 0)
    assert nobody.assignments == ()


@pytest.mark.parametrize("protocol", ["range", "roundrobin", "sticky", "cooperative-sticky", "RoundRobinAssigner"])
@pytest.mark.parametrize("policy", ["kafka", "sticky-min-churn", "rack-first"])
def test_clients_of_many_languages_in_one_group(protocol: str, policy: str) -> None:
    members = {
        "java-eager": java(["t"], generation=4, rack="a"),
        "java-coop": java(["t"], tps("t", 0), 4),
        "librdkafka": subscription(3, ["t"], sticky_v1(tps("t", 1), 4), tps("t", 1), 4, "b"),
        "sarama": subscription(1, ["t"]),
        "kafka-go": kafka_go(["t"]),
        "kafka-python": kafka_python_sticky(["t"], tps("t", 2), 4),
        "broken": b"\x00\x03\x00\x00",
    }
    decision = decide(raw_group(members, protocol=protocol, generation=5), T6, Memory.empty(), Policy(policy), 0)
    assert np.bincount(decision.plan.owner, minlength=7).tolist() == [1, 1, 1, 1, 1, 1, 0]
    assert [m for m, _ in decision.assignments] == list(members)
    assert given(decision)["broken"] == ()
    assert any("broken" in w for w in decision.warnings)


def test_sticky_reads_every_dialect_of_user_data() -> None:
    members = {
        "java": subscription(3, ["t"], sticky_v1(tps("t", 5, 4), 7), generation=7),
        "aiokafka": subscription(0, ["t"], sticky_v1(tps("t", 1, 2), -1)),
        "kafka-python": kafka_python_sticky(["t"], tps("t", 0, 3), 7),
    }
    decision = decide(raw_group(members, protocol="sticky", generation=8), T6, Memory.empty(), KAFKA, 0)
    assert given_text(decision) == {"java": "t-4 t-5", "aiokafka": "t-1 t-2", "kafka-python": "t-0 t-3"}
    assert decision.moves.kept == 6


def test_rack_affinity_reads_the_rack_from_user_data() -> None:
    cluster = cluster_of({"t": 4}, 1, "ab")
    members = {"x": kafka_go(["t"], b"b"), "y": kafka_go(["t"], b"a")}
    decision = decide(raw_group(members, protocol="rack-affinity"), cluster, Memory.empty(), KAFKA, 0)
    assert given_text(decision) == {"x": "t-1 t-3", "y": "t-0 t-2"}
    assert decision.cost.cross_rack == 0


def test_a_mangled_member_keeps_what_is_remembered_of_it() -> None:
    first = decide(raw_group({"a": java(["t"]), "b": java(["t"])}, protocol="range"), T6, Memory.empty(), KAFKA, 0)
    again = raw_group({"a": java(["t"]), "b": b"\xff"}, protocol="range", generation=2)
    second = decide(again, T6, first.plan.memory, KAFKA, 0)
    assert given(second) == given(first)
    third = decide(replace(again, generation=3), T6, second.plan.memory, KAFKA, 0)
    assert given(third) == given(first)


def test_a_mangled_cooperative_member_is_taken_to_consume_what_it_had() -> None:
    first = decide(raw_group({"a": java(["t"])}), T6, Memory.empty(), KAFKA, 0)
    raw = raw_group({"a": b"", "b": java(["t"])}, generation=2)
    second = decide(raw, T6, first.plan.memory, KAFKA, 0)
    assert second.followup
    assert len(given(second)["a"]) == 3
    assert given(second)["b"] == ()


def test_what_moves_waits_one_rebalance_and_then_arrives() -> None:
    a = LiveMember("a", ("t",))
    members, first, _ = settle([a], T6, Memory.empty())
    joined = [*members, LiveMember("b", ("t",))]
    members, last, rebalances = settle(joined, T6, first.plan.memory, generation=2)
    assert [d.followup for d in rebalances] == [True, False]
    assert rebalances[0].moves.moved == 3
    assert sorted(len(m.owned) for m in members) == [3, 3]
    settled = decide(live_group(members, 9), T6, last.plan.memory, KAFKA, 0)
    assert (settled.moves.kept, settled.moves.moved, settled.followup) == (6, 0, False)


def test_what_moves_is_counted_once() -> None:
    members, first, _ = settle([LiveMember("a", ("t",))], T6, Memory.empty())
    _, _, (began, ended) = settle([*members, LiveMember("b", ("t",))], T6, first.plan.memory, generation=2)
    assert (began.moves.kept, began.moves.moved, began.moves.new) == (3, 3, 0)
    counted = ended.counted_after(began).moves
    assert (counted.kept, counted.moved, counted.new, counted.lost) == (6, 0, 0, 0)
    assert ended.counted_after(ended) is ended


@pytest.mark.parametrize(("to_another", "moves"), [(True, (5, 1, 0, 0)), (False, (5, 0, 0, 0))])
def test_what_was_promised_to_one_moves_again_if_another_gets_it_and_not_if_nobody_does(
    to_another: bool, moves: tuple[int, int, int, int]
) -> None:
    members, first, _ = settle([LiveMember("a", ("t",))], T6, Memory.empty())
    joined = [*members, LiveMember("b", ("t",))]
    began = decide(live_group(joined, 2), T6, first.plan.memory, KAFKA, now_ms=0)
    promised = np.flatnonzero(began.plan.pending)
    joined = [m.after(began) for m in joined]
    ended = decide(live_group(joined, 3), T6, began.plan.memory, KAFKA, now_ms=0)
    other = ended.plan.owner.copy()
    other[promised[0]] = ended.plan.before[ended.plan.before != -1][0] if to_another else -1
    ended = replace(ended, plan=replace(ended.plan, target=replace(ended.plan.target, owner=other)))
    counted = ended.counted_after(began).moves
    assert (counted.kept, counted.moved, counted.new, counted.lost) == moves


def test_a_stale_claim_is_pending_and_not_accepted() -> None:
    members = {"a": java(["t"], tps("t", 0, 1, 2, 3), 9), "b": java(["t"], tps("t", 0, 1), 4)}
    decision = decide(raw_group(members, generation=10), cluster_of({"t": 4}), Memory.empty(), KAFKA, 0)
    assert len(given(decision)["a"]) == 2
    assert given(decision)["b"] == ()
    assert decision.followup


def test_what_a_member_consumes_without_subscribing_to_it_any_more_waits_too() -> None:
    """Java revokes such partitions before it joins; of a client that does not, both would consume t-0. Kafka's own
    testReassignmentWithRandomSubscriptionsAndChanges found it."""
    policy, cluster = Policy("kafka"), cluster_of({"t": 1, "u": 1})
    a, b = LiveMember("a", ("u",), owned=(TopicPartition("t", 0),), generation=1), LiveMember("b", ("t",))
    first = decide(live_group([a, b], 2), cluster, Memory.empty(), policy, 0)
    assert isinstance(first, Decision)
    assert given_text(first) == {"a": "u-0", "b": ""}
    members = [a.after(first), b.after(first)]
    second = decide(live_group(members, 3), cluster, Memory.empty(), policy, 0)
    assert isinstance(second, Decision)
    assert given_text(second) == {"a": "u-0", "b": "t-0"}


def test_an_eager_member_in_a_cooperative_group_gets_its_share_at_once() -> None:
    eager = LiveMember("eager", ("t",), cooperative=False)
    other = LiveMember("other", ("t",))
    members, first, rebalances = settle([eager, other], T6, Memory.empty())
    assert len(rebalances) == 1
    _, again, rebalances = settle(members, T6, first.plan.memory, generation=2)
    assert len(rebalances) == 1
    assert again.moves.kept == 6


@pytest.mark.parametrize("protocol", ["sticky", "cooperative-sticky"])
def test_members_that_claim_nothing_keep_their_partitions_by_memory(protocol: str) -> None:
    blobs = {m: subscription(0, ["t"], b"") for m in ("a", "b")}
    first = decide(raw_group(blobs, protocol=protocol), T6, Memory.empty(), KAFKA, 0)
    second = decide(
        raw_group({**blobs, "c": blobs["a"]}, protocol=protocol, generation=2), T6, first.plan.memory, KAFKA, 0
    )
    assert second.moves.kept == 4
    assert [len(g) for g in given(second).values()] == [2, 2, 2]


def test_a_restarted_static_member_gets_its_partitions_back() -> None:
    ids = {"a-1": "ia", "b-1": "ib"}
    first = decide(raw_group({m: java(["t"]) for m in ids}, instances=ids), T6, Memory.empty(), KAFKA, 0)
    back = {"b-2": "ib", "a-2": "ia"}
    second = decide(
        raw_group({m: java(["t"]) for m in back}, instances=back, generation=2), T6, first.plan.memory, KAFKA, 0
    )
    assert given(second)["a-2"] == given(first)["a-1"]
    assert second.moves.kept == 6


def test_an_absent_static_member_still_consumes_what_it_was_given() -> None:
    ids = {"a": "ia", "b": "ib"}
    blobs = {m: java(["t"]) for m in ids}
    first = decide(raw_group(blobs, instances=ids), T6, Memory.empty(), KAFKA, 0)
    had = given(first)
    blobs["b"] = java(["t"], had["b"], 1)
    second = decide(
        raw_group({**blobs, "c": java(["t"])}, instances=ids, generation=2), T6, first.plan.memory, KAFKA, 0
    )
    absent = claimed_by(second.plan.group, 0)
    assert [second.cluster.name(f) for f in absent.tolist()] == list(had["a"])
    assert given(second)["c"] == ()
    assert second.followup


def test_sarama_gets_its_assignment_echoed_and_nobody_else_does() -> None:
    sarama = subscription(1, ["t"])
    members = {"sarama": sarama, "java": java(["t"]), "kafka-python": kafka_python_sticky(["t"], [], -1)}
    raw = raw_group(members, protocol="sticky", generation=3)
    first = decide(raw, T6, Memory.empty(), KAFKA, 0)
    decoded = {m: ConsumerProtocolAssignment.decode(blob) for m, blob in first.assignments}
    echo = decoded["sarama"].user_data
    assert echo == sticky_v1(given(first)["sarama"], 3)
    assert decoded["java"].user_data is decoded["kafka-python"].user_data is None

    members["sarama"] = subscription(1, ["t"], echo)
    second = decide(raw_group(members, protocol="sticky", generation=4), T6, first.plan.memory, KAFKA, 0)
    decoded = {m: ConsumerProtocolAssignment.decode(blob) for m, blob in second.assignments}
    assert decoded["sarama"].user_data == sticky_v1(given(second)["sarama"], 4)
    assert second.moves.kept == 6
    ranged = decide(raw_group({"sarama": sarama}, protocol="range"), T6, Memory.empty(), KAFKA, 0)
    assert ConsumerProtocolAssignment.decode(ranged.assignments[0][1]).user_data is None


def test_warnings_name_what_is_odd() -> None:
    cluster = cluster_of({"t": 6}, 2, "abc")
    raw = raw_group({"a": java(["t"], rack="a"), "b": java(["t", "missing"]), "c": java([])}, protocol="range")
    warnings = decide(raw, cluster, Memory.empty(), KAFKA, 0).warnings
    assert any("no rack" in w and "b" in w for w in warnings)
    assert any("no topic" in w and w.endswith("member c") for w in warnings)
    assert any(w.endswith("topic missing") for w in warnings)


def test_the_bytes_say_what_the_plan_says() -> None:
    raw = raw_group({f"m{i}": java(["t"]) for i in range(4)})
    decision = decide(raw, T6, Memory.empty(), KAFKA, 0)
    owner = owner_of([blob for _, blob in decision.assignments], decision.cluster.topics, decision.cluster.first)
    assert owner.tolist() == decision.plan.target.sent.tolist()


def test_equal_arguments_give_equal_decisions() -> None:
    raw = raw_group({f"m{i}": java(["t"], rack="ab"[i % 2]) for i in range(4)})
    cluster = cluster_of({"t": 6}, 1, "ab")
    first, second = (decide(raw, cluster, Memory.empty(), Policy("rack-first"), 0, seed=3) for _ in range(2))
    assert first.assignments == second.assignments
    assert first.stages == second.stages


def test_rack_first_reports_what_the_swap_gained() -> None:
    cluster = cluster_of({"t": 6}, 1, "abc")
    raw = raw_group({"x": java(["t"], rack="c"), "y": java(["t"], rack="b"), "z": java(["t"], rack="a")})
    decision = decide(raw, cluster, Memory.empty(), Policy("rack-first"), 0)
    report = decision.stages[-1]
    assert report.stage == "rack locality"
    assert decision.cost.cross_rack == report.after == 0
    assert [len(g) for g in given(decision).values()] == [2, 2, 2]


def test_a_plan_says_what_is_read_from_another_rack_where_the_owner_has_one() -> None:
    cluster = cluster_of({"t": 4}, 1, ("a", "b"))
    raw = raw_group({"x": java(["t"], rack="b"), "y": java(["t"])})
    plan = decide(raw, cluster, Memory.empty(), KAFKA, 0).plan
    counted, remote = plan.read_remotely(plan.owner)
    assert counted.tolist() == (plan.owner == 0).tolist()
    assert counted.sum() == 2
    remote_of_x = [tp for tp, far in zip(plan.names(np.arange(4)), counted & remote, strict=True) if far]
    assert set(remote_of_x) <= {"t-0", "t-2"}, "what stands in rack a"


def test_a_plan_sums_itself_up_for_the_log() -> None:
    raw = raw_group({"x": java(["t"]), "y": java(["t"]), "z": java(["gone"])})
    decision = decide(raw, cluster_of({"t": 3}), Memory.empty(), KAFKA, 0)
    assert decision.plan.summary() == {
        "protocol": decision.plan.group.protocol,
        "members": 3,
        "partitions": 3,
        "unowned": 0,
        "spread": 1,
    }


@pytest.mark.slow
def test_two_hundred_members_settle_on_twenty_thousand_partitions() -> None:
    cluster = cluster_of({f"topic{i:03}": 200 for i in range(100)}, 2, "abc")
    members = [LiveMember(f"m{i}", cluster.topics, "abc"[i % 3]) for i in range(200)]
    members, last, _ = settle(members[:-1], cluster, Memory.empty())
    _, last, rebalances = settle(
        [*members, LiveMember("late", cluster.topics, "a")], cluster, last.plan.memory, generation=5
    )
    assert last.cost.spread <= 1
    assert len(rebalances) <= 2
