"""Why a rebalance happened, by comparing two decisions."""

import pytest

from bellwether_kafka.coordinator.planning import Cause, CauseKind, cause, follows_from_orders
from bellwether_kafka.coordinator.planning.causes import cause_after_return
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.consumers import Members, decided_group

TWO = {"orders": 2}


A, B = {"a": ("orders",)}, {"b": ("orders",)}


@pytest.mark.parametrize(
    ("before", "after", "kind", "sentence"),
    [
        (A, A | B, CauseKind.JOINED, "b joined"),
        (A | B, A, CauseKind.LEFT, "b left or died"),
        (A, B, CauseKind.EXCHANGED, "b joined, a left or died"),
        (A, {"a": ("orders", "x")}, CauseKind.SUBSCRIPTIONS, "a changed the subscription"),
        (A, A, CauseKind.AGAIN, "a member joined again, nothing changed"),
    ],
)
def test_members(before: Members, after: Members, kind: CauseKind, sentence: str) -> None:
    why = cause(decided_group(before, TWO), decided_group(after, TWO))
    assert (why.kind, why.sentence) == (kind, sentence)
    assert set(why.members) == before.keys() ^ after.keys()


def test_the_first_plan() -> None:
    assert cause(None, decided_group(A, TWO)).sentence == "first plan, for 1 member"


LOAD = "the load of members is uneven, 2 partitions would move"


@pytest.mark.parametrize(
    ("after", "kind", "sentence"),
    [
        (A | B, CauseKind.REQUESTED, LOAD),
        (A, CauseKind.LEFT, "b left or died"),
    ],
)
def test_a_rebalance_that_bellwether_requested_has_its_reason(after: Members, kind: CauseKind, sentence: str) -> None:
    """Only where nothing else explains it: a member that left meanwhile is the better explanation."""
    why = cause(decided_group(A | B, TWO), decided_group(after, TWO), wanted=LOAD)
    assert (why.kind, why.sentence) == (kind, sentence)


def test_the_first_plan_after_a_return_has_the_reason_of_its_request() -> None:
    why = cause_after_return(decided_group(A, TWO), "", decided_group(A, TWO), wanted=LOAD)
    assert (why.kind, why.sentence) == (CauseKind.FIRST, LOAD)


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ({"orders": 2}, {"orders": 4}, "topic orders went from 2 to 4 partitions"),
        ({}, {"orders": 1}, "topic orders appeared with 1 partition"),
        ({"orders": 2}, {}, "topic orders is gone"),
    ],
)
def test_topics(before: dict[str, int], after: dict[str, int], sentence: str) -> None:
    why = cause(decided_group(A, before), decided_group(A, after))
    assert (why.kind, why.sentence) == (CauseKind.METADATA, sentence)


def test_a_static_member_that_restarted_is_the_same_member() -> None:
    why = cause(decided_group(A, TWO, statics=True), decided_group(A, TWO, statics=True, suffix="-2"))
    assert why.kind is CauseKind.AGAIN


def test_pending_partitions_are_the_reason_of_the_next_rebalance() -> None:
    owned = {"a": (TopicPartition("orders", 0), TopicPartition("orders", 1))}
    first = decided_group(A | B, TWO, protocol="cooperative-sticky", owned=owned)
    assert first.followup
    why = cause(first, decided_group(A | B, TWO, protocol="cooperative-sticky"))
    assert why.kind is CauseKind.PENDING
    assert why.sentence == "1 partition given up by the former owner can be handed out"


def test_members_are_called_by_their_names_and_many_are_counted() -> None:
    many: Members = {f"m{i}": ("orders",) for i in range(9)}
    why = cause(decided_group(A, TWO), decided_group(A | many, TWO), name=str.upper)
    assert why.sentence == "M0, M1, M2, M3 and 5 more joined"


def test_an_order_is_the_cause_and_what_else_has_changed_is_reported_too() -> None:
    why = cause(decided_group(A, TWO), decided_group(A | B, TWO), ordered=("eve has ordered pin of orders-0",))
    assert why.kind is CauseKind.ORDERED
    assert why.sentence == "eve has ordered pin of orders-0; b joined"
    assert cause(None, decided_group(A, TWO), ordered=("eve",)).kind is CauseKind.FIRST


def follows(
    after: Members, *, places: tuple[str, ...] = (), ordered: tuple[str, ...] = (), before: bool = False
) -> bool:
    """Of a group that had the members a and b."""
    had, has = decided_group(A | B, TWO), decided_group(after, TWO)
    return follows_from_orders(cause(had, has, ordered=ordered), had, has, places, before=before)


@pytest.mark.parametrize(
    ("after", "place"),
    [
        pytest.param(A, "member:b", id="a member that is emptied stops"),
        pytest.param(A | B | {"c": ("orders",)}, "member:c", id="it is back under another id"),
    ],
)
def test_the_restart_of_a_member_that_is_evacuated_follows_from_the_order(after: Members, place: str) -> None:
    assert follows(after, places=(place,))
    assert not follows(after), "without an order"
    assert not follows(after, places=("member:a",)), "of another member"
    assert not follows({"c": ("orders",)}, places=(place,)), "others come or go as well"


def test_an_order_and_what_is_handed_over_for_it_follow_from_it() -> None:
    waits = Cause(CauseKind.PENDING, "2 partitions can be handed out")
    had = decided_group(A, TWO)
    assert follows(A | B, ordered=("evacuate a",))
    assert follows_from_orders(waits, had, had, (), before=True)
    assert not follows_from_orders(waits, had, had, ("member:a",), before=False), "a crash before it"
    assert not follows(A | B, places=("member:a",), before=True), "nothing changed"


@pytest.mark.parametrize(
    ("topics", "reason", "kind", "sentence"),
    [
        ({"orders": 4}, "", CauseKind.METADATA, "topic orders went from 2 to 4 partitions"),
        (TWO, "2 partitions have no owner", CauseKind.FIRST, "2 partitions have no owner"),
        (TWO, "", CauseKind.FIRST, "first plan after a return"),
    ],
)
def test_after_a_restart_what_has_changed_since_the_return_is_the_cause(
    topics: dict[str, int], reason: str, kind: CauseKind, sentence: str
) -> None:
    why = cause_after_return(decided_group(A, TWO), reason, decided_group(A, topics))
    assert (why.kind, why.sentence) == (kind, sentence)
