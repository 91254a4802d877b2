"""The broker's assignors on groups small enough to check by hand; `tests/differential` compares them with Kafka's."""

from bellwether_kafka.assignors.broker_side import (
    RANGE,
    UNIFORM,
    StreamsMember,
    Subscriber,
    assign_range,
    assign_sticky,
    assign_uniform,
)
from bellwether_kafka.assignors.consumer import POLICIES, broker_side
from bellwether_kafka.assignors.consumer.whatif import changed, rebalances
from bellwether_kafka.assignors.shared import Change, Memory
from bellwether_kafka.assignors.streams.policies import BROKER_STICKY, STREAMS_POLICIES
from tests.unit.assignors.consumer.test_whatif import CLUSTER, group, settled


def member(
    name: str, *topics: int, owned: dict[int, list[int]] | None = None, instance: str | None = None
) -> Subscriber:
    return Subscriber(name, instance, frozenset(topics), owned or {})


def test_uniform_leaves_the_extra_partition_where_it_is() -> None:
    had = [member("a", 0, owned={0: [0]}), member("b", 0, owned={0: [1, 2]})]
    assert assign_uniform(had, [3]) == [[0, 1, 1]]


def test_uniform_takes_the_least_from_the_fullest() -> None:
    had = [member("a", 0, owned={0: [0, 1, 2, 3]}), member("b", 0)]
    assert assign_uniform(had, [4]) == [[0, 0, 1, 1]]


def test_uniform_evens_out_where_lists_differ() -> None:
    had = [member("a", 0, 1, owned={0: [0, 1, 2], 1: [0]}), member("b", 1)]
    assert assign_uniform(had, [3, 1]) == [[0, 0, 0], [1]]


def test_nobody_gets_what_nobody_wants() -> None:
    assert assign_uniform([member("a", 0), member("b", 0)], [1, 2])[1] == [-1, -1]
    assert assign_range([member("a", 0)], [1, 2]) == [[0], [-1, -1]]


def test_range_puts_static_members_first() -> None:
    assert assign_range([member("a", 0), member("b", 0, instance="z")], [3]) == [[1, 1, 0]]


def test_sticky_keeps_tasks_and_puts_copies_into_other_processes() -> None:
    members = [
        StreamsMember("a-1", "a", active=frozenset({("0", 0)})),
        StreamsMember("b-1", "b", active=frozenset({("0", 1)}), standby=frozenset({("0", 0)})),
    ]
    found = assign_sticky(members, [], [("0", 0), ("0", 1)], 1)
    assert found.active == (frozenset({("0", 0)}), frozenset({("0", 1)}))
    assert found.standby == (frozenset({("0", 1)}), frozenset({("0", 0)}))


def test_without_members_nobody_has_anything() -> None:
    assert assign_uniform([], [2]) == [[-1, -1]]
    assert assign_sticky([], [("0", 0)], [], 0).active == ()


def test_they_are_policies_to_compare_with_and_not_to_lead_with() -> None:
    assert not {UNIFORM, RANGE} & set(POLICIES)
    assert BROKER_STICKY not in STREAMS_POLICIES


def test_a_broker_ignores_racks_that_bellwether_follows() -> None:
    before = group("az1", "az2", "az3", protocol="range")
    raw, cluster = changed(before, CLUSTER, Change())
    crossing = {
        name: rebalances(raw, cluster, settled(before), broker_side(name), 0)[-1].cost for name in (UNIFORM, RANGE)
    }
    assert crossing[RANGE].cross_rack > 0
    assert crossing[UNIFORM].spread == crossing[RANGE].spread == 0


def test_a_broker_ends_in_a_plan_that_it_leaves_alone() -> None:
    before = group("az1", "az2", "az2")
    for name in (UNIFORM, RANGE):
        made = rebalances(before, CLUSTER, Memory.empty(), broker_side(name), 0)
        again = rebalances(before, CLUSTER, made[-1].plan.memory, broker_side(name), 0)
        assert again[0].moves.moved == 0, name
