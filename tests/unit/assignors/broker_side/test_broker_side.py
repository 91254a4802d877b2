"""The broker's assignors on groups small enough to check by hand; `tests/differential` compares them with Kafka's."""

from bellwether_kafka.assignors.broker_side import (
    RANGE,
    UNIFORM,
    StreamsMember,
    Subscriber,
    assign_range,
    assign_sticky,
    assign_uniform,
    modelled,
)
from bellwether_kafka.assignors.consumer import POLICIES, broker_side, changed, rebalances
from bellwether_kafka.assignors.shared import Change, Memory
from bellwether_kafka.assignors.streams.policies import BROKER_STICKY, STREAMS_POLICIES
from bellwether_kafka.protocol.primitives import computed_map_order, hash_map_order, string_hash
from tests.kit.consumers import ORDERS_AND_USERS, orders_group, settled


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
    placed = assign_sticky(members, [], [("0", 0), ("0", 1)], 1, offsets_count=False)
    assert placed.active == (frozenset({("0", 0)}), frozenset({("0", 1)}))
    assert placed.standby == (frozenset({("0", 1)}), frozenset({("0", 0)}))


def test_state_on_a_disk_counts_from_4_4_on_after_standbys_and_the_most_advanced_first() -> None:
    task, spare = ("0", 0), ("0", 1)
    members = [
        StreamsMember("a-1", "a", offsets={task: 10, spare: 90}),
        StreamsMember("b-1", "b", offsets={task: 80}),
        StreamsMember("c-1", "c", standby=frozenset({spare})),
    ]

    def owners(members: list[StreamsMember], *, offsets_count: bool) -> list[str]:
        active = assign_sticky(members, [], [task, spare], 0, offsets_count=offsets_count).active
        return [
            next(m.process_id for m, has in zip(members, active, strict=True) if task_id in has)
            for task_id in (task, spare)
        ]

    assert owners(members, offsets_count=True) == ["b", "c"]
    assert owners(members[:2], offsets_count=True) == ["b", "a"]
    assert owners(members[:2], offsets_count=False) == ["a", "b"], "evenly, in the order of the processes"


def test_a_standby_stays_with_the_second_of_its_members_from_4_4_on_if_the_first_now_runs_the_task() -> None:
    """Up to 4.3 it then goes to the least loaded."""
    task = ("0", 0)
    members = [StreamsMember(f"{name}-1", name, standby=frozenset({task})) for name in "ab"]
    members.append(StreamsMember("c-1", "c"))
    by_count = {count: assign_sticky(members, [], [task], 1, offsets_count=count) for count in (False, True)}
    assert all(plan.active[0] == {task} for plan in by_count.values())
    assert by_count[True].standby[1] == {task}


def test_processes_are_in_the_order_of_a_table_filled_by_compute_if_absent() -> None:
    """By Java 17: `new HashMap<>(4)`, computeIfAbsent for "Aa", "BB", "Aa", "c", "d", and its keys."""
    names = ["Aa", "BB", "c", "d"]
    hashes = [string_hash(name) for name in names]
    assert [names[i] for i in computed_map_order(hashes, [0, 1, 0, 2, 3], 4)] == ["d", "BB", "Aa", "c"]
    assert [names[i] for i in hash_map_order(hashes, 4)] == names


def test_the_release_of_a_model_follows_the_brokers() -> None:
    versions = [(), (3, 9), (4, 3), (4, 4), (5, 0)]
    assert [modelled(version) for version in versions] == ["4.4", "4.3", "4.3", "4.4", "4.4"]


def test_without_members_nobody_has_anything() -> None:
    assert assign_uniform([], [2]) == [[-1, -1]]
    assert assign_sticky([], [("0", 0)], [], 0, offsets_count=True).active == ()


def test_they_are_policies_to_compare_with_and_not_to_lead_with() -> None:
    assert not {UNIFORM, RANGE} & set(POLICIES)
    assert BROKER_STICKY not in STREAMS_POLICIES


def test_a_broker_ignores_racks_that_bellwether_follows() -> None:
    before = orders_group("az1", "az2", "az3", protocol="range")
    raw, cluster = changed(before, ORDERS_AND_USERS, Change())
    crossing = {
        name: rebalances(raw, cluster, settled(before), broker_side(name), 0)[-1].cost for name in (UNIFORM, RANGE)
    }
    assert crossing[RANGE].cross_rack > 0
    assert crossing[UNIFORM].spread == crossing[RANGE].spread == 0


def test_a_broker_ends_in_a_plan_that_it_leaves_alone() -> None:
    before = orders_group("az1", "az2", "az2")
    for name in (UNIFORM, RANGE):
        made = rebalances(before, ORDERS_AND_USERS, Memory.empty(), broker_side(name), 0)
        again = rebalances(before, ORDERS_AND_USERS, made[-1].plan.memory, broker_side(name), 0)
        assert again[0].moves.moved == 0, name
