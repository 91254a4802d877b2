"""Which change of metadata is worth a rebalance, and when (docs/internals/reliability.md#duties-of-a-leader)."""

from dataclasses import replace

import pytest

from bellwether_kafka.coordinator.kafka.client import MetadataRead
from bellwether_kafka.coordinator.kafka.client.metadata import (
    MetadataCache,
    ReplicaSet,
    cluster_view,
    distinct_placements,
)
from bellwether_kafka.coordinator.kafka.client.metadata_watch import (
    WatchRules,
    WatchState,
    material_change,
    planned_with,
    racks_equivalent,
    topics_with_new_racks,
)
from bellwether_kafka.coordinator.membership import UNREAD

ABSENT = "absent"

RULES = WatchRules(hold_down_ms=30_000, repeat_ms=60_000)
RACKS: dict[int, str | None] = {1: "az1", 2: "az2", 3: "az3", 4: "az1"}


def read_of(
    counts: dict[str, int], *, absent: tuple[str, ...] = (), unreadable: tuple[str, ...] = (), at: float = 0.0
) -> MetadataRead:
    placements = {topic: [(1, (1, 2))] * count for topic, count in counts.items()}
    return placed(placements, RACKS, absent=absent, unreadable=unreadable, at=at)


def placed(
    topics: dict[str, list[ReplicaSet]],
    racks: dict[int, str | None],
    *,
    memory: dict[int, str] | None = None,
    absent: tuple[str, ...] = (),
    unreadable: tuple[str, ...] = (),
    at: float = 0.0,
) -> MetadataRead:
    cache = MetadataCache(racks=dict(memory or {}))
    cache.see_brokers(racks)
    for topic, placements in topics.items():
        cache.see_topic(topic, at, *distinct_placements(placements))
    for topic in absent:
        cache.see_trouble(topic, at, ABSENT)
    for topic in unreadable:
        cache.see_trouble(topic, at, "Topic authorization failed")
    return cache.read([*topics, *absent, *unreadable], now=at)


def state_of(read: MetadataRead, topics: tuple[str, ...], *, rack_aware: bool = False) -> WatchState:
    return planned_with(cluster_view(read), topics, rack_aware=rack_aware, read=read)


def reasons(state: WatchState, *reads: MetadataRead, every_s: float = 10.0) -> list[str | None]:
    reported = []
    for i, read in enumerate(reads):
        change, state = material_change(state, read, (i + 1) * every_s, RULES)
        reported.append(None if change is None else change.reason)
    return reported


def test_of_a_changelog_only_the_loss_is_a_reason() -> None:
    """A resized one made Bellwether rebalance, refuse, and leave the application to a Java leader, which dies of it at
    once."""
    before = read_of({"t": 2, "app-store-changelog": 2})
    state = planned_with(cluster_view(before), ("t",), rack_aware=False, kept=("app-store-changelog",))
    assert reasons(state, read_of({"t": 2, "app-store-changelog": 6})) == [None]
    smaller = read_of({"t": 2, "app-store-changelog": 1})
    assert reasons(state, smaller, smaller) == [None, None]
    gone = read_of({"t": 2}, absent=("app-store-changelog",))
    assert reasons(state, gone, gone) == [None, "topic app-store-changelog is gone"]


def test_nothing_changed_is_no_reason() -> None:
    read = read_of({"a": 3})
    assert reasons(state_of(read, ("a",)), read, read) == [None, None]


def test_growth_is_reported_at_once() -> None:
    state = state_of(read_of({"a": 3}), ("a",))
    assert reasons(state, read_of({"a": 5})) == ["topic a grew from 3 to 5 partitions"]


def test_a_subscribed_topic_that_appears_is_reported_at_once() -> None:
    state = state_of(read_of({"a": 3}, absent=("b",)), ("a", "b"))
    assert reasons(state, read_of({"a": 3, "b": 2})) == ["topic b appeared with 2 partitions"]


def test_a_topic_nobody_subscribes_to_is_no_reason() -> None:
    state = state_of(read_of({"a": 3}), ("a",))
    assert reasons(state, read_of({"a": 3, "other": 2})) == [None]


def test_a_topic_is_gone_only_after_two_reads() -> None:
    state = state_of(read_of({"a": 3, "b": 1}), ("a", "b"))
    gone = read_of({"a": 3}, absent=("b",))
    assert reasons(state, gone, gone) == [None, "topic b is gone"]


def test_a_topic_that_is_back_in_the_second_read_was_never_gone() -> None:
    state = state_of(read_of({"b": 1}), ("b",))
    here, gone = read_of({"b": 1}), read_of({}, absent=("b",))
    assert reasons(state, gone, here, gone, here) == [None, None, None, None]


def test_a_single_shrink_is_ignored_and_a_lasting_one_is_not() -> None:
    state = state_of(read_of({"a": 6}), ("a",))
    small, whole = read_of({"a": 4}), read_of({"a": 6})
    assert reasons(state, small, whole, small, small) == [None, None, None, "topic a went from 6 to 4 partitions"]


def test_a_topic_that_may_not_be_read_is_not_gone() -> None:
    state = state_of(read_of({"a": 3}), ("a",))
    refused = read_of({}, unreadable=("a",))
    assert reasons(state, refused, refused, refused) == [None, None, None]


def test_a_topic_that_can_be_read_again_is_a_reason() -> None:
    state = state_of(read_of({}, unreadable=("a",)), ("a",))
    assert reasons(state, read_of({"a": 3})) == ["topic a can be read again, with 3 partitions"]


def test_a_reason_is_not_repeated_before_its_time() -> None:
    state = state_of(read_of({"a": 3}), ("a",))
    grown = read_of({"a": 5})
    reported = reasons(state, *[grown] * 8)
    assert [reason is not None for reason in reported] == [True, False, False, False, False, False, True, False]


def test_the_subject_of_a_change_is_its_kind() -> None:
    """It damps changes, so no number may make a new one of it."""
    state = state_of(read_of({"a": 3}), ("a", "b"))
    grown = [read_of({"a": 5}), read_of({"a": 6}), read_of({"a": 3, "b": 1})]
    subjects = {change.subject for change, _ in (material_change(state, read, 10.0, RULES) for read in grown) if change}
    assert subjects == {UNREAD}
    gone = read_of({}, absent=("a",))
    _, suspicious = material_change(state, gone, 10.0, RULES)
    change, _ = material_change(suspicious, gone, 20.0, RULES)
    assert change is not None
    assert change.subject not in subjects


def test_another_reason_is_reported_at_once() -> None:
    state = state_of(read_of({"a": 3}), ("a",))
    assert reasons(state, read_of({"a": 5}), read_of({"a": 6}))[1] == "topic a grew from 3 to 6 partitions"


def test_racks_matter_only_where_a_member_has_one() -> None:
    before = placed({"a": [(1, (1, 2))]}, RACKS)
    after = placed({"a": [(1, (1, 3))]}, RACKS)
    assert reasons(state_of(before, ("a",)), *[after] * 6) == [None] * 6


def test_new_racks_are_reported_after_the_hold_down() -> None:
    before = placed({"a": [(1, (1, 2))]}, RACKS)
    after = placed({"a": [(1, (1, 3))]}, RACKS)
    reported = reasons(state_of(before, ("a",), rack_aware=True), *[after] * 4)
    assert reported == [None, None, None, "the racks of replicas changed for a"]


def test_racks_that_are_back_in_time_start_the_hold_down_anew() -> None:
    before = placed({"a": [(1, (1, 2))]}, RACKS)
    after = placed({"a": [(1, (1, 3))]}, RACKS)
    state = state_of(before, ("a",), rack_aware=True)
    assert reasons(state, after, after, after, before, after, after, after) == [None] * 7


def test_without_a_read_to_compare_with_the_first_one_is_the_measure() -> None:
    before = placed({"a": [(1, (1, 2))]}, RACKS)
    state = replace(state_of(before, ("a",), rack_aware=True), placed=None)
    after = placed({"a": [(1, (1, 3))]}, RACKS)
    assert reasons(state, before, *[after] * 4)[-1] == "the racks of replicas changed for a"


UP = dict(RACKS)
DOWN_2: dict[int, str | None] = {1: "az1", 3: "az3", 4: "az1"}


@pytest.mark.parametrize(
    ("name", "old", "new", "equal"),
    [
        ("nothing changed", ((1, 2), UP), ((1, 2), UP), True),
        ("the other order", ((1, 2), UP), ((2, 1), UP), True),
        ("a broker restarts", ((1, 2), UP), ((1, 2), DOWN_2), True),
        ("and comes back", ((1, 2), DOWN_2), ((1, 2), UP), True),
        ("another broker of the same rack", ((1, 2), UP), ((4, 2), UP), True),
        ("another rack", ((1, 2), UP), ((1, 3), UP), False),
        ("a rack more", ((1, 2), UP), ((1, 2, 3), UP), False),
        ("a rack less", ((1, 2), UP), ((1,), UP), False),
        ("a replica moved off a broker that is down", ((1, 2), UP), ((1, 3), DOWN_2), False),
        ("a broker changed its rack", ((1, 2), UP), ((1, 2), {**UP, 2: "az9"}), False),
        ("racks are configured for the first time", ((1,), {1: None}), ((1,), {1: "az1"}), False),
    ],
)
def test_the_rack_rule_of_kafka_4_4(
    name: str,
    old: tuple[tuple[int, ...], dict[int, str | None]],
    new: tuple[tuple[int, ...], dict[int, str | None]],
    equal: bool,
) -> None:
    memory = {1: "az1", 2: "az2", 3: "az3", 4: "az1"}
    a = placed({"a": [(1, old[0])]}, old[1], memory=memory)
    b = placed({"a": [(1, new[0])]}, new[1], memory=memory)
    assert racks_equivalent(a, (1, old[0]), b, (1, new[0])) is equal
    assert (topics_with_new_racks(a, b) == ()) is equal


def test_many_topics_are_named_in_short() -> None:
    before = placed({t: [(1, (1, 2))] for t in "abcde"}, RACKS)
    after = placed({t: [(1, (1, 3))] for t in "abcde"}, RACKS)
    reported = reasons(state_of(before, tuple("abcde"), rack_aware=True), after, after, after, after)
    assert reported[-1] == "the racks of replicas changed for a, b, c and 2 more"
