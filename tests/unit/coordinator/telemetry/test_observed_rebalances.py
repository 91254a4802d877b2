"""A rebalance that was only seen, in the events of a led group: what was seen is there, and what was not is unknown."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bellwether_kafka.assignors.shared import Weights
from bellwether_kafka.coordinator.assessment import period_of_records
from bellwether_kafka.coordinator.cli import Exit, app
from bellwether_kafka.coordinator.events import OBSERVED, SchemaSet
from bellwether_kafka.coordinator.observation import Observation, Rebalances
from bellwether_kafka.coordinator.replay import (
    History,
    rebalances_of,
    replay_policies,
    replay_rebalances,
    replay_tasks,
    write_history,
)
from bellwether_kafka.coordinator.telemetry import ObservedRebalances
from bellwether_kafka.coordinator.telemetry.event_records import EventRecord
from tests.kit.observed import SKEWED, member, observed_application, observed_group

ANOTHERS = "the group was only observed"

UNKNOWN = -1

SCHEMAS = SchemaSet.load()
FOREVER_MS = 1 << 62
LEFT = observed_group(member("a-1", "az1", "orders-0", "orders-1"), member("b-1", "az2", "orders-2", "orders-3"))
EMPTY = replace(SKEWED, state="Empty", protocol="", members=(), shadow=None)
UNPLANNED = replace(LEFT, shadow=None, trouble="no shadow plan: the brokers are silent")


def at(seconds: int, seen: Observation) -> Observation:
    return replace(seen, seen_at_ms=seconds * 1000)


def rebalancing(seconds: int, seen: Observation = SKEWED) -> Observation:
    return at(seconds, replace(seen, state="PreparingRebalance", shadow=None))


def values(*refreshes: Observation) -> list[bytes]:
    """What is published, in the order of a process: of a rebalance first, then of the refresh that showed its end."""
    rebalances, records = Rebalances(), []

    def later(_: str, work: Callable[[], Iterator[EventRecord]]) -> None:
        records.extend(SCHEMAS.encode(event, record) for event, record in work())

    observed = ObservedRebalances(later)
    for seen in refreshes:
        ended = rebalances.observe(seen)
        if ended is not None:
            observed.on_rebalance(seen, ended)
        observed.on_observation(seen)
    return records


def published(*refreshes: Observation) -> list[tuple[str, dict[str, Any]]]:
    return [SCHEMAS.decode(value) for value in values(*refreshes)]


def decisions(*refreshes: Observation) -> list[dict[str, Any]]:
    return [record for event, record in published(*refreshes) if event == "decision"]


def recorded(*refreshes: Observation) -> History:
    history = History()
    for value in values(*refreshes):
        history.take(SCHEMAS, value)
    return history


def test_a_rebalance_that_was_seen_is_a_decision_an_assignment_and_a_snapshot() -> None:
    events = published(at(10, SKEWED), rebalancing(20), rebalancing(30), at(40, LEFT))
    assert [event for event, _ in events] == ["decision", "assignment", "snapshot"]
    assert {(r["group"], r["generation"], r["decided_at_ms"]) for _, r in events} == {("g", UNKNOWN, 40_000)}
    head = events[0][1]
    assert (head["source"], head["kind"], head["protocol"]) == (OBSERVED, "consumer", "range")
    assert (head["cause_kind"], head["cause"]) == ("members left", "c left or died")
    assert (head["members"], head["members_before"], head["owned"]) == (2, 3, 4)
    assert (head["kept"], head["moved"], head["new"], head["lost"]) == (3, 1, 0, 0)
    assert (head["lasted_ms_min"], head["lasted_ms_max"]) == (10_000, 30_000)
    assert (head["unowned"], head["cross_rack"], head["spread"]) == (0, 2, 0)


def test_the_assignment_is_what_members_have_and_had() -> None:
    ((_, record),) = [event for event in published(at(10, SKEWED), at(20, LEFT)) if event[0] == "assignment"]
    assert [(e["partition"], e["member"], e["previous"], e["rack"], e["leader_rack"]) for e in record["entries"]] == [
        (0, "a-1", "b-1", "az1", "az1"), (1, "a-1", "a-1", "az1", "az2"), (2, "b-1", "b-1", "az2", "az1"),
        (3, "b-1", "b-1", "az2", "az2"),
    ]  # fmt: skip


def test_what_only_the_leader_knows_is_unknown() -> None:
    (head,) = decisions(at(10, SKEWED), at(20, LEFT))
    assert (head["policy"], head["generation"], head["withheld"]) == ("", UNKNOWN, UNKNOWN)
    assert (head["metadata_ms"], head["plan_ms"], head["sync_ms"]) == (UNKNOWN, UNKNOWN, UNKNOWN)


def test_of_a_rebalance_that_had_begun_before_neither_cause_nor_moves_are_known() -> None:
    first, assignment, _ = published(rebalancing(10), at(20, LEFT))
    head = first[1]
    assert (head["cause_kind"], head["cause"]) == ("unknown", "")
    assert (head["members_before"], head["lasted_ms_min"], head["lasted_ms_max"]) == (None, 0, None)
    assert (head["kept"], head["moved"], head["new"], head["lost"]) == (UNKNOWN,) * 4
    assert {entry["previous"] for entry in assignment[1]["entries"]} == {None}


def test_without_a_plan_there_is_a_decision_and_what_it_would_show_is_unknown() -> None:
    ((event, head),) = published(at(10, SKEWED), at(20, UNPLANNED))
    assert (event, head["members"], head["warnings"]) == ("decision", 2, [UNPLANNED.trouble])
    assert {head[name] for name in ("owned", "unowned", "cross_rack", "spread", "moved")} == {UNKNOWN}


def test_a_group_that_its_members_have_left_lost_all_that_they_had() -> None:
    ((event, head),) = published(at(10, SKEWED), at(20, EMPTY))
    assert (event, head["members"], head["owned"], head["lost"], head["moved"]) == ("decision", 0, 0, 4, 0)
    assert head["unowned"] == UNKNOWN


def test_a_group_at_rest_publishes_nothing() -> None:
    assert published(*(at(10 * n, SKEWED) for n in range(5))) == []


def test_a_storm_is_one_rebalance_for_each_refresh_at_most() -> None:
    refreshes = [at(10 * n, (SKEWED, LEFT)[n % 2]) for n in range(6)]
    assert len(decisions(*refreshes)) == 5


def test_what_another_process_leads_is_left_to_it() -> None:
    led = replace(LEFT, bellwether_members=LEFT.members[:1])
    assert published(at(10, SKEWED), at(20, led)) == []


def test_a_group_that_is_gone_begins_anew() -> None:
    kept: list[tuple[str, dict[str, Any]]] = []
    observed, rebalances = ObservedRebalances(lambda _, work: kept.extend(work())), Rebalances()
    observed.on_observation(at(10, SKEWED))
    observed.on_gone("g")
    rebalances.observe(at(10, SKEWED))
    ended = rebalances.observe(at(20, LEFT))
    assert ended is not None
    observed.on_rebalance(at(20, LEFT), ended)
    assert (kept[0][1]["moved"], kept[0][1]["members_before"]) == (UNKNOWN, None)


def test_tasks_of_an_application_are_those_that_processes_have() -> None:
    seen = observed_application()
    assert seen.shadow is not None
    plan = seen.shadow.decision.plan
    events = published(rebalancing(10, seen), at(20, seen))
    assert [event for event, _ in events] == ["decision", "assignment", "round"]
    entries = events[1][1]["entries"]
    process_of = {m: owner.key for owner in plan.owners for m in owner.members}
    wanted = {(task, "active", process_of[m.member_id]) for m in seen.members for task in m.active}
    wanted |= {(task, "standby", process_of[m.member_id]) for m in seen.members for task in m.standby}
    assert {(e["task"], e["role"], e["member"]) for e in entries} == wanted
    assert (events[0][1]["kind"], events[0][1]["owned"]) == (
        "streams",
        len({t for t, role, _ in wanted if role == "active"}),
    )


def test_moves_of_an_application_count_tasks_between_processes() -> None:
    seen = observed_application()
    (head,) = decisions(at(10, seen), rebalancing(20, seen), at(30, seen))
    assert (head["kept"], head["moved"], head["new"], head["lost"]) == (head["owned"], 0, 0, 0)


def test_replay_decides_again_what_another_leader_assigned() -> None:
    history = recorded(at(10, SKEWED), at(20, LEFT), at(30, SKEWED))
    rebalances = rebalances_of(history.snapshots["g"], history.assignments["g"], history.sources)
    replays = list(replay_rebalances(rebalances, {}, Weights()))
    assert [(replay.recorded_policy, replay.policy, replay.failed) for replay in replays] == [
        (OBSERVED, "rack-first", "")
    ] * 2
    assert [replay.recorded.moved for replay in replays if replay.recorded] == [1, 1]
    assert all(replay.caveat == ANOTHERS for replay in replays if not replay.same)
    assert any(not replay.same for replay in replays), "rack-first would not read across racks"


def test_the_command_names_the_time_where_the_generation_is_unknown(tmp_path: Path) -> None:
    write_history(tmp_path / "h", values(at(10, SKEWED), at(20, LEFT)))
    ended = CliRunner().invoke(app, ["debug", "replay", str(tmp_path / "h")])
    assert ended.exit_code == Exit.NOT_SO
    assert "g, at 1970-01-01 00:00:20 UTC: observed then, rack-first now: 2 of 4" in ended.output
    assert ANOTHERS in ended.output


def test_replay_decides_an_application_again_that_was_only_observed() -> None:
    seen = observed_application()
    history = recorded(rebalancing(10, seen), at(20, seen))
    (replay,) = replay_tasks(history.rebalances["shop"], history.assignments["shop"], (), Weights(), history.sources)
    assert (replay.failed, replay.differs, replay.recorded_policy) == ("", 0, OBSERVED)


def test_every_policy_plans_the_whole_of_what_was_seen() -> None:
    history = recorded(at(10, SKEWED), at(20, LEFT), at(30, SKEWED))
    replays = list(replay_policies(history.snapshots["g"], ("kafka", "rack-first"), Weights()))
    assert [(replay.policy, replay.members, replay.failed) for replay in replays] == [
        ("kafka", 2, ""), ("kafka", 3, ""), ("rack-first", 2, ""), ("rack-first", 3, ""),
    ]  # fmt: skip
    assert sum(replay.cross_rack for replay in replays if replay.policy == "rack-first") == 0


def test_a_period_of_records_has_what_the_rebalances_have_cost() -> None:
    history = recorded(at(10, SKEWED), rebalancing(20), rebalancing(30), at(40, LEFT), at(50, SKEWED))
    period = period_of_records("g", history, 0, FOREVER_MS, None)
    assert (period.rebalances, period.moved) == (2, 2)
    assert period.causes == {"members left": 1, "members joined": 1}
    assert (period.member_s_min, period.member_s_max) == (30.0, 30 * 3 + 10 * 3)
    assert period.waited_member_s == 30.0
    rows = {row.policy: row for row in period.policies}
    assert (rows["as recorded"].rebalances, rows["as recorded"].moved, rows["as recorded"].cross_rack) == (2, 2, 2.5)
    assert rows["rack-first"].cross_rack == 0


@pytest.mark.slow
def test_a_period_of_an_application_has_the_costs_of_every_policy() -> None:
    seen = observed_application()
    history = recorded(rebalancing(10, seen), at(20, seen))
    period = period_of_records("shop", history, 0, FOREVER_MS, None)
    rows = {row.policy: row for row in period.policies}
    assert rows.keys() == {"as recorded", "kafka", "streams-ha", "sticky", "broker-sticky"}, period.unknown
