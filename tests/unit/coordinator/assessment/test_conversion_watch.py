"""What the watch of a conversion shows of each refresh, and when it ends."""

from dataclasses import replace
from typing import Any

import pytest

from bellwether_kafka.coordinator.assessment import (
    ConversionFollower,
    ConversionProgress,
    ConversionStart,
    PlacementCounts,
)
from bellwether_kafka.coordinator.observation import Observation, ObservedMember, Unknown
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.observed import READY, crossed

SETTLED_REFRESHES = 3


def member(name: str, *partitions: int, suffix: str = "") -> ObservedMember:
    owned = tuple(TopicPartition("t", p) for p in partitions)
    return ObservedMember(f"{name}-id{suffix}", None, name, "/h", "az1", ("t",), owned)


BEFORE = replace(crossed(), members=(member("a", 2, 3), member("b", 0, 1)))
START = ConversionStart.of(replace(READY, seen=BEFORE))
BACK = ConversionStart.of(replace(READY, seen=replace(BEFORE, kind="consumer")), back=True)


def converted(*members: ObservedMember, **changes: Any) -> Observation:
    shadow = BEFORE.shadow
    seen = Observation("g", "consumer", "Stable", "uniform", 5, members or BEFORE.members, shadow=shadow, epoch=7)
    return replace(seen, **changes)


def test_the_present_counts_are_beside_what_the_brokers_assignor_was_predicted_to_make() -> None:
    progress = START.progress(converted(member("a", 0, 3, suffix="2"), member("b", 1, 2)))
    assert (progress.predicted_by, progress.predicted) == (
        "broker-uniform",
        PlacementCounts(unowned=0, cross_rack=4, spread=0, moved=0),
    )
    assert progress.placement == PlacementCounts(unowned=0, cross_rack=4, spread=0, moved=2), (
        "0 and 2 changed their owners"
    )
    assert (progress.to, progress.protocol, progress.assignor, progress.epoch) == ("consumer", "consumer", "uniform", 7)
    assert progress.pending == ""


@pytest.mark.parametrize(
    ("listing", "by"),
    [
        ("range,uniform", "broker-range"),
        ("bellwether.broker.RackFirstAssignor,uniform", "rack-first"),
        ("com.example.Own", ""),
    ],
)
def test_what_is_predicted_is_by_the_first_assignor_that_the_brokers_list(listing: str, by: str) -> None:
    """It was by uniform, whatever the brokers listed first."""
    start = ConversionStart.of(replace(READY, seen=BEFORE, assignors={1: listing, 2: listing}))
    assert (start.predicted_by, start.predicted is not None) == (by, bool(by))


def test_of_an_application_the_assignor_of_its_broker_is_shown() -> None:
    """It was "stream", the protocol of a classic application."""
    assert START.progress(converted(kind="streams", protocol="stream", assignor="sticky")).assignor == "sticky"


def test_members_are_counted_by_protocol() -> None:
    assert START.progress(BEFORE).members == {"classic": 2}
    assert START.progress(converted()).members == {"consumer": 2}
    assert START.progress(converted(classic_members=frozenset({"b-id"}))).members == {"consumer": 1, "classic": 1}


def test_moves_are_unknown_where_members_cannot_be_recognised() -> None:
    same_client_id = (member("a", 0, 1), member("a", 2, 3, suffix="2"))
    assert START.progress(converted(*same_client_id)).placement.moved is None
    renamed = (member("x", 0, 1), member("y", 2, 3))
    assert START.progress(converted(*renamed)).placement.moved is None


def thread(process: str, number: int, *tasks: str) -> ObservedMember:
    """Each task reads partitions of two topics."""
    owned = tuple(TopicPartition(topic, int(task[-1])) for topic in ("t", "u") for task in tasks)
    return replace(member(f"{process}-StreamThread-{number}-consumer"), owned=owned, active=tasks)


def test_of_an_application_the_tasks_that_move_between_processes_are_counted() -> None:
    """Each change between threads of one process counted as moves of all partitions of the task."""
    before = replace(BEFORE, members=(thread("shop-a", 1, "0_0", "0_1"), thread("shop-a", 2, "0_2"), thread("b", 1)))
    start = ConversionStart.of(replace(READY, seen=before))
    now = converted(thread("shop-a", 1, "0_2"), thread("shop-a", 2, "0_0"), thread("b", 1, "0_1"), kind="streams")
    assert start.progress(now).placement.moved == 1


UNSHOWN = Unknown.of(15, "g", 0)
UNOWNED = replace(BEFORE.shadow, current=replace(BEFORE.shadow.current, unowned=3)) if BEFORE.shadow else None


@pytest.mark.parametrize(
    ("seen", "pending"),
    [
        (BEFORE, "the group is classic"),
        (replace(BEFORE, kind="missing"), "the group is missing"),
        (converted(classic_members=frozenset({"b-id"})), "members with the classic protocol: 1"),
        (converted(member("a", 0, 1, 2, 3)), "members: 1 of 2"),
        (converted(state="Reconciling"), "the group is Reconciling"),
        (converted(shadow=UNOWNED), "without an owner: 3"),
        (converted(shadow=None), "owners are not known: no plan could be made"),
        (converted(shadow=None, trouble="no broker answers"), "owners are not known: no broker answers"),
        (converted(unknown=UNSHOWN), f"the group is not known now: {UNSHOWN.reason}"),
        (converted(kind="streams"), ""),
    ],
)
def test_what_is_pending_is_named(seen: Observation, pending: str) -> None:
    assert START.progress(seen).pending == pending


def test_the_way_back_ends_when_the_group_is_classic_and_predicts_only_for_a_group_that_bellwether_leads() -> None:
    assert BACK.progress(converted()).pending == "the group is consumer"
    assert BACK.progress(BEFORE).pending == ""
    assert (BACK.predicted_by, BACK.predicted) == ("kafka", PlacementCounts(unowned=0, cross_rack=0, spread=0, moved=4))
    unled = ConversionStart.of(replace(READY, seen=BEFORE, led=False), back=True)
    assert (unled.predicted_by, unled.predicted) == ("", None)


def test_a_group_that_is_converted_already_has_no_prediction_and_settles() -> None:
    start = ConversionStart.of(replace(READY, seen=converted()))
    assert (start.to, start.predicted) == ("consumer", None)
    assert start.progress(converted()).pending == ""


def test_an_empty_group_settles_with_the_members_that_are_asked_for() -> None:
    empty = replace(READY, seen=replace(BEFORE, members=(), shadow=None))
    assert ConversionStart.of(empty).progress(converted(member("a", 0))).pending == ""
    assert ConversionStart.of(empty, members_min=2).progress(converted(member("a", 0))).pending == "members: 1 of 2"


def followed(*refreshes: Observation) -> tuple[list[ConversionProgress], bool]:
    watch = ConversionFollower(START)
    shown = [progress for seen in refreshes if (progress := watch.on_refresh(seen)) is not None]
    return shown, watch.settled


def test_only_changes_are_shown_and_the_last_one_is_settled() -> None:
    mixed = converted(classic_members=frozenset({"b-id"}))
    shown, settled = followed(BEFORE, replace(BEFORE, seen_at_ms=9), mixed, *[converted()] * SETTLED_REFRESHES)
    assert [(progress.protocol, progress.settled) for progress in shown] == [
        ("classic", False),
        ("consumer", False),
        ("consumer", False),
        ("consumer", True),
    ]
    assert settled


def test_a_group_whose_owners_are_not_known_has_not_settled() -> None:
    assert not followed(*[converted(shadow=None)] * SETTLED_REFRESHES)[1]


def test_a_group_that_is_complete_for_a_moment_has_not_settled() -> None:
    almost = [converted()] * (SETTLED_REFRESHES - 1)
    assert not followed(*almost, converted(state="Reconciling"), *almost)[1]
    assert followed(*almost, converted())[1]
