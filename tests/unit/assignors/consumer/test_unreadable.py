"""A rebalance of consumers with topics that cannot be read, and with plug-ins and arguments that are broken."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import Policy, decide
from bellwether_kafka.assignors.shared import (
    ClusterView,
    GroupView,
    IntArray,
    Memory,
    RawGroup,
    RawMember,
    Refusal,
    RefusalCause,
)
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from tests.kit.consumers import KAFKA, T6, cluster_of, given, given_text, java, raw_group, tps


def test_an_unreadable_topic_keeps_its_owners() -> None:
    both = cluster_of({"t": 4, "u": 3})
    blobs = {"a": java(["t", "u"]), "b": java(["t", "u"])}
    first = decide(raw_group(blobs, protocol="range"), both, Memory.empty(), KAFKA, 0)
    refused = replace(cluster_of({"t": 4}), unreadable=frozenset({"u"}))
    second = decide(
        raw_group({"a": blobs["a"], "c": java(["t"]), "b": blobs["b"]}, protocol="range", generation=2),
        refused,
        first.plan.memory,
        KAFKA,
        0,
    )
    assert [tp for tp in given(second)["a"] if tp.topic == "u"] == [tp for tp in given(first)["a"] if tp.topic == "u"]
    assert [tp for tp in given(second)["b"] if tp.topic == "u"] == [tp for tp in given(first)["b"] if tp.topic == "u"]
    assert any("u" in w and "frozen" in w for w in second.warnings)


def test_an_unreadable_topic_never_shrinks() -> None:
    first = decide(raw_group({"a": java(["t"])}, protocol="range"), T6, Memory.empty(), KAFKA, 0)
    smaller = replace(cluster_of({"t": 2}), unreadable=frozenset({"t"}))
    second = decide(raw_group({"a": java(["t"])}, protocol="range", generation=2), smaller, first.plan.memory, KAFKA, 0)
    assert given(second) == given(first)


def test_an_unreadable_topic_without_memory_is_known_from_claims() -> None:
    refused = replace(cluster_of({"t": 1}), unreadable=frozenset({"u"}))
    raw = raw_group({"a": java(["t", "u"], tps("u", 0, 2), 3), "b": java(["t", "u"], tps("u", 1), 3)}, generation=4)
    decision = decide(raw, refused, Memory.empty(), KAFKA, 0)
    assert {"u-0", "u-2"} <= set(given_text(decision)["a"].split())
    assert "u-1" in given_text(decision)["b"].split()


def test_a_hostile_claim_to_an_unreadable_topic_allocates_nothing() -> None:
    refused = replace(T6, unreadable=frozenset({"u"}))
    raw = raw_group({"a": java(["t", "u"], tps("u", 2**31 - 1), 3)}, generation=4)
    assert decide(raw, refused, Memory.empty(), KAFKA, 0).cluster.partition_total == 6


def test_an_orphan_of_an_unreadable_topic_goes_to_a_subscriber() -> None:
    first = decide(raw_group({"a": java(["t"])}, protocol="range"), T6, Memory.empty(), KAFKA, 0)
    refused = replace(cluster_of({}), unreadable=frozenset({"t"}))
    second = decide(raw_group({"b": java(["t"])}, protocol="range", generation=2), refused, first.plan.memory, KAFKA, 0)
    assert len(given(second)["b"]) == 6


class Explodes:
    """A plug-in that fails, lies about the shape, or gives partitions to the wrong member."""

    name = "explodes"
    cooperative = False

    def __init__(self, how: str) -> None:
        self.how = how

    def assign(self, group: GroupView, cluster: ClusterView) -> IntArray:
        if self.how == "raises":
            raise RuntimeError("boom")
        if self.how == "short":
            return np.zeros(1, dtype=np.int32)
        return np.full(cluster.partition_total, {"nobody": -1, "foreign": 2, "absent": 7}[self.how], dtype=np.int32)


@pytest.mark.parametrize("how", ["raises", "short", "nobody", "foreign", "absent"])
def test_a_broken_plug_in_is_replaced_by_sticky_with_a_warning(how: str) -> None:
    raw = raw_group({"a": java(["t"]), "b": java(["t"]), "c": java([])}, protocol="range")
    decision = decide(raw, T6, Memory.empty(), Policy("explodes", {"explodes": Explodes(how)}), 0)
    assert [len(g) for g in given(decision).values()] == [3, 3, 0]
    assert "so sticky was used" in decision.warnings[0]


def test_a_protocol_that_nobody_knows_is_placed_sticky_with_a_warning() -> None:
    decision = decide(raw_group({"a": java(["t"])}, protocol="made-up"), T6, Memory.empty(), KAFKA, 0)
    assert len(given(decision)["a"]) == 6
    assert "made-up" in decision.warnings[0]


def test_a_view_that_contradicts_itself_is_refused() -> None:
    broken = replace(T6, topics=("t", "u"))
    refused = decide(raw_group({"a": java(["t"])}), broken, Memory.empty(), KAFKA, 0)
    assert isinstance(refused, Refusal)
    assert not refused.final
    assert "group" in refused.reason


def test_no_plan_that_is_valid_is_an_error_with_the_group_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("bellwether_kafka.assignors.consumer.decide")  # not the function of that name
    monkeypatch.setattr(module, "validate", lambda *_, **__: ("t-0 is nobody's",))
    blob = ConsumerProtocolSubscription(version=3, topics=("t",)).encode()
    raw = RawGroup("orders", 1, "range", (RawMember("m", None, blob),), frozenset())
    refused = decide(raw, cluster_of({"t": 2}), Memory.empty(), Policy("kafka"), 0)
    assert refused == Refusal(RefusalCause.PLAN, "no valid plan for group orders: t-0 is nobody's")
