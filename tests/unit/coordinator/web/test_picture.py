"""Pictures of rebalances: what the status page and the command line draw agrees with the decision."""

import json
from dataclasses import asdict

from bellwether_kafka.coordinator.web import LedRebalances, Picture, picture
from bellwether_kafka.coordinator.web.picture import rebalance_picture
from tests.kit.applications import ONE_STANDBY
from tests.kit.plans import decided, member, planned, tasks
from tests.kit.streams import NOW_MS, Thread, group, led

LINES_MAX = 200

A, B, C = Thread("a", 1, rack="az1"), Thread("b", 2, rack="az2"), Thread("c", 3)


def items(picture: Picture) -> dict[str, tuple[str, str]]:
    return {item.name: (holder.name, item.state) for holder in picture.holders for item in holder.items}


def test_a_consumer_group() -> None:
    picture = rebalance_picture(planned(decided(member("a", "az1"), member("b", None))))
    assert items(picture) == {
        "orders-0": ("a", "local"),
        "orders-1": ("b", "neutral"),
        "orders-2": ("b", "neutral"),
        "orders-3": ("a", "cross-rack"),
    }
    assert (picture.total, picture.unowned, picture.cross_rack, picture.new) == (4, 0, 1, 4)
    assert picture.racks == ("az1", "az2", "az3")
    assert picture.took_ms == {"metadata": 200.0, "plan": 4.0, "sync": 10.0}
    assert json.loads(json.dumps(asdict(picture)))["cause"] == "first plan, for 2 members"


def test_what_crosses_racks_is_not_0_where_no_rack_is_known() -> None:
    assert rebalance_picture(planned(decided(member("a", None), member("b", None)))).cross_rack is None
    assert rebalance_picture(planned(decided(member("a", "az1"), member("b", None)))).cross_rack == 1


def test_a_move_names_the_stage_that_made_it() -> None:
    first = decided(member("a", "az1"), member("b", "az3"), policy="sticky-min-churn")
    swapped = decided(
        member("a", "az3"), member("b", "az1"), generation=2, policy="rack-first", memory=first.plan.memory
    )
    picture = rebalance_picture(planned(swapped, first))
    assert picture.moved == len(picture.moves) > 0
    assert {move.reason for move in picture.moves} == {"by rack locality"}
    for move in picture.moves:
        assert items(picture)[move.item][0] == move.target != move.source


def test_a_long_list_is_cut_and_says_so(monkeypatch: object) -> None:
    monkeypatch.setattr(picture, "ITEMS_MAX", 3)  # type: ignore[attr-defined]
    drawn = rebalance_picture(planned(decided(member("a", "az1"))))
    assert (len(items(drawn)), drawn.total, drawn.truncated) == (3, 4, True)


def test_an_application() -> None:
    first = led(group(A, B), configs=ONE_STANDBY)
    grown = led(
        group(A.after(first), B.after(first), C, generation=2),
        configs=ONE_STANDBY, memory=first.plan.memory, now_ms=NOW_MS + 5,
    )  # fmt: skip
    drawn = rebalance_picture(tasks(grown, first))
    copies = [item for holder in drawn.holders for item in holder.items]
    assert drawn.total == grown.plan.view.tasks.size
    assert sum(item.state not in ("standby", picture.WARMUP) for item in copies) == drawn.total
    assert sum(item.state in ("standby", picture.WARMUP) for item in copies) == len(grown.plan.target.standby_task)
    assert sum(item.pending for item in copies) == drawn.pending > 0
    assert {holder.rack for holder in drawn.holders} == {"az1", "az2", None}
    assert "joined" in drawn.cause
    json.dumps(asdict(drawn))


def test_rebalances_remember_the_newest_in_full_and_the_others_in_a_line() -> None:
    rebalances = LedRebalances()
    assert rebalances.picture("g") is None
    first = decided(member("a", "az1"))
    rebalances.on_decision(planned(first))
    second = decided(member("a", "az1"), member("b", "az3"), generation=2, memory=first.plan.memory)
    rebalances.on_decision(planned(second, first))
    assert [(line.generation, line.cause) for line in rebalances.lines()] == [
        (2, "b joined"),
        (1, "first plan, for 1 member"),
    ]
    newest = rebalances.picture("g")
    assert newest is not None
    assert (newest.generation, newest.cause) == (2, "b joined")
    rebalances.on_decision(tasks(led(group(A, B), configs=ONE_STANDBY)))
    assert len(rebalances.lines()) == 3
    for _ in range(LINES_MAX):
        rebalances.on_decision(planned(first))
    assert len(rebalances.lines()) == LINES_MAX


def test_a_dry_run_has_no_generation_and_is_nobodys_first_plan() -> None:
    drawn = picture.picture_of(decided(member("a", "az1"), generation=2**31 - 1))
    assert (drawn.generation, drawn.source, drawn.cause) == (None, "dry run", "if a rebalance began now")
