"""A broker that assigns by `load-aware` is made to ask again when its plan would even the load out, not too often."""

from dataclasses import replace

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import Weights
from bellwether_kafka.coordinator.triggers import Assigned, ServedLoad
from tests.kit.consumers import EVEN_LOADS, decided_by_load

LOAD_INTERVAL_S = 60.0

SEEN = Assigned(group="orders", epoch=5, owners="these", decision=decided_by_load(), moved=3, saved=0)
CAUSE = "the load of members is uneven, 3 partitions would move"
LATER = LOAD_INTERVAL_S + 1


def test_a_plan_that_would_move_something_begins_a_rebalance_once_a_minute() -> None:
    load = ServedLoad()
    causes = [load.rebalance_cause(SEEN, lambda: EVEN_LOADS, now) for now in (0.0, 10.0, LATER)]
    assert causes == [CAUSE, "", CAUSE], "the first one led to no rebalance"
    assert not load.rebalance_cause(replace(SEEN, epoch=6, moved=0), lambda: EVEN_LOADS, 3 * LATER)


def test_the_pause_doubles_after_a_rebalance_that_changed_no_owner() -> None:
    load = ServedLoad()
    assert load.rebalance_cause(SEEN, lambda: EVEN_LOADS, 0.0)
    after = replace(SEEN, epoch=6)
    assert [load.rebalance_cause(after, lambda: EVEN_LOADS, now) for now in (LATER, 2 * LATER)] == ["", CAUSE]


def test_another_group_another_policy_and_unknown_weights_begin_none() -> None:
    load = ServedLoad()
    by_count = replace(SEEN, decision=decided_by_load(Policy("rack-first")))
    assert not load.rebalance_cause(by_count, lambda: EVEN_LOADS, 0.0)
    assert not load.rebalance_cause(SEEN, Weights, 0.0)
    assert load.rebalance_cause(SEEN, lambda: EVEN_LOADS, 0.0)
    assert load.rebalance_cause(replace(SEEN, group="other"), lambda: EVEN_LOADS, 1.0)
    load.forget("orders")
    assert load.rebalance_cause(SEEN, lambda: EVEN_LOADS, 1.0)


def test_a_plan_that_reads_less_from_other_racks_begins_one() -> None:
    """As after a change of the file of racks, of which a broker knows nothing."""
    load, by_rack = ServedLoad(), replace(SEEN, decision=decided_by_load(Policy("rack-first")), saved=2)
    assert load.rebalance_cause(by_rack, Weights, 0.0) == "2 fewer partitions would be read from other racks"
    assert not load.rebalance_cause(by_rack, Weights, 10.0)
    assert not load.rebalance_cause(replace(by_rack, saved=-1), Weights, LATER)
    assert not load.rebalance_cause(replace(SEEN, saved=2), Weights, LATER), "by load-aware, weights decide"
