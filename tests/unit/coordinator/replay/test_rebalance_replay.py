"""Replays: the same code decides the same from what was recorded, another policy shows where it would not."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bellwether_kafka.assignors.consumer import Policy, decide
from bellwether_kafka.assignors.shared import ClusterView, Memory, Rule, Weights
from bellwether_kafka.coordinator.cli import Exit, app
from bellwether_kafka.coordinator.events import assignment_entries
from bellwether_kafka.coordinator.planning import Source
from bellwether_kafka.coordinator.replay import (
    RecordedRebalance,
    read_history,
    rebalances_of,
    replay_rebalances,
    write_history,
    write_json_lines,
)
from bellwether_kafka.coordinator.telemetry.event_records import decision_events, snapshot_record
from tests.kit.consumers import LiveMember, live_group
from tests.kit.plans import RACKS, SCHEMAS, decided, member, planned, recorded_leads

RUNNER = CliRunner()


def test_a_rebalance_with_configured_racks_is_replayed_with_them(tmp_path: Path) -> None:
    everywhere = ClusterView.of({"t": [[RACKS[p % 3], RACKS[(p + 1) % 3], RACKS[(p + 2) % 3]] for p in range(12)]})
    raw = live_group([LiveMember(f"m{i}", ("t",)) for i in range(3)], 1, "range")
    members = [replace(m, rack=rack, leader_only=True) for m, rack in zip(raw.members, reversed(RACKS), strict=True)]
    raw = replace(raw, members=tuple(members))
    decision = decide(raw, everywhere, Memory.empty(), Policy("rack-first"), now_ms=0, seed=0)
    head = {"group": "group", "generation": 1, "decided_at_ms": 0, "part": 0}
    plan = SCHEMAS.encode("assignment", {**head, "entries": list(assignment_entries(decision.plan))})
    write_history(tmp_path / "h", [plan, SCHEMAS.encode("snapshot", snapshot_record(decision))])
    (replay,) = replay_rebalances(rebalances(tmp_path / "h"), {}, Weights())
    assert (replay.same, decision.cost.cross_rack) == (True, 0)


@pytest.mark.parametrize(
    "rule",
    [
        Rule("ban", "*", "rack:az1", "eve has ordered evacuate of rack:az1 in 'g'"),
        Rule("plan", "t-0", "member:m2", "eve has ordered apply", frozenset({"m0", "m1", "m2"})),
    ],
    ids=["evacuation", "applied-plan"],
)
def test_a_rebalance_under_orders_is_replayed_under_them(tmp_path: Path, rule: Rule) -> None:
    policy = Policy("kafka").with_rules((rule,))
    members = [LiveMember(f"m{i}", ("t",), RACKS[i]) for i in range(3)]
    raw, cluster = live_group(members, 1, "range"), ClusterView.of({"t": [[RACKS[p // 4]] for p in range(12)]})
    decision = decide(raw, cluster, Memory.empty(), policy, now_ms=0, seed=0)
    head = {"group": "group", "generation": 1, "decided_at_ms": 0, "part": 0}
    plan = SCHEMAS.encode("assignment", {**head, "entries": list(assignment_entries(decision.plan))})
    with_rules = SCHEMAS.encode("snapshot", snapshot_record(decision, (rule,)))
    write_history(tmp_path / "h", [plan, with_rules])
    (replay,) = replay_rebalances(rebalances(tmp_path / "h"), {}, Weights())
    assert replay.same
    old = SCHEMAS.versions("snapshot")[0]
    record = {name: value for name, value in snapshot_record(decision).items() if name != "rules"}
    record["members"] = [{k: v for k, v in m.items() if k not in ("rack", "leader_only")} for m in record["members"]]
    write_history(tmp_path / "old", [plan, old.header + old.body(record)])
    (replay,) = replay_rebalances(rebalances(tmp_path / "old"), {}, Weights())
    assert (replay.failed, replay.differs > 0) == ("", True), "an older record is replayed as it was recorded"


def rebalances(path: Path) -> list[RecordedRebalance]:
    history = read_history(path)
    return rebalances_of(history.snapshots["group"], history.assignments["group"], {})


@pytest.mark.parametrize("protocol", ["range", "sticky", "cooperative-sticky"])
@pytest.mark.parametrize(
    "policy", ["kafka", *(pytest.param(name, marks=pytest.mark.slow) for name in ("sticky-min-churn", "rack-first"))]
)
def test_the_same_code_decides_the_same(tmp_path: Path, policy: str, protocol: str) -> None:
    write_history(tmp_path / "h", recorded_leads([2, 3, 3, 4, 4, 1], policy, protocol))
    replays = list(replay_rebalances(rebalances(tmp_path / "h"), {}, Weights()))
    assert len(replays) == 6
    assert [(replay.differs, replay.failed, replay.policy) for replay in replays] == [(0, "", policy)] * 6
    assert all(replay.now == replay.recorded for replay in replays)


@pytest.mark.parametrize("policy", ["kafka", "sticky-min-churn"])
def test_rebalances_that_another_led_are_no_memory_of_bellwethers(tmp_path: Path, policy: str) -> None:
    cluster = ClusterView.of({"t": [[RACKS[p // 4]] for p in range(12)]})
    members = [LiveMember(f"m{i}", ("t",)) for i in range(3)]
    first = decide(live_group(members, 1, "sticky"), cluster, Memory.empty(), Policy(policy), now_ms=0, seed=0)
    theirs = Memory.of(3, cluster, (first.plan.owner + 1) % 3, first.plan.group.members)
    again = decide(live_group(members, 4, "sticky"), cluster, theirs, Policy(policy), now_ms=9, seed=1)
    assert (again.plan.owner != first.plan.owner).any()
    records = []
    for decision in (first, again):
        head = {"group": "group", "generation": decision.raw.generation, "decided_at_ms": decision.decided_at_ms}
        entries = list(assignment_entries(decision.plan))
        records.append(SCHEMAS.encode("assignment", {**head, "part": 0, "entries": entries}))
        records.append(SCHEMAS.encode("snapshot", snapshot_record(decision)))
    write_history(tmp_path / "h", records)
    assert [replay.differs for replay in replay_rebalances(rebalances(tmp_path / "h"), {}, Weights())] == [0, 0]


def test_a_difference_from_what_was_sent_for_want_of_a_plan_has_a_caveat(tmp_path: Path) -> None:
    decision = decided(member("a", None), member("b", None))
    sent = planned(decision)
    late = replace(sent, source=Source.CHEAP)
    write_history(tmp_path / "h", [SCHEMAS.encode(event, record) for event, record in decision_events(late)])
    history = read_history(tmp_path / "h")
    assert history.sources == {("g", 1, 5): "cheaper plan"}
    kept = rebalances_of(history.snapshots["g"], history.assignments["g"], history.sources)
    otherwise = {"sticky-min-churn": Policy("sticky-min-churn")}
    (replay,) = replay_rebalances(kept, otherwise, Weights())
    assert replay.differs
    assert replay.caveat == "what was sent was a cheaper plan"
    (sure,) = replay_rebalances(
        rebalances_of(history.snapshots["g"], history.assignments["g"], {}), otherwise, Weights()
    )
    assert (sure.differs, sure.caveat) == (replay.differs, "")


def test_a_recording_that_begins_in_the_middle_decides_the_same(tmp_path: Path) -> None:
    write_history(tmp_path / "h", list(recorded_leads([2, 3, 3, 4], "sticky-min-churn"))[4:])
    replays = list(replay_rebalances(rebalances(tmp_path / "h"), {}, Weights()))
    assert [(replay.generation, replay.same) for replay in replays] == [(3, True), (4, True)]


def test_another_policy_shows_what_would_differ_and_what_it_would_cost(tmp_path: Path) -> None:
    write_history(tmp_path / "h", recorded_leads([3, 3], "sticky-min-churn"))
    replays = list(replay_rebalances(rebalances(tmp_path / "h"), {"rack-first": Policy("rack-first")}, Weights()))
    assert replays[0].differs == len(replays[0].differences) > 0
    first = replays[0].differences[0]
    assert first.recorded != first.now
    assert replays[0].recorded is not None
    assert replays[0].now is not None
    assert replays[0].now.cross_rack == 0 < replays[0].recorded.cross_rack


def document(path: Path, *more: str, code: int) -> Any:
    ended = RUNNER.invoke(app, ["debug", "replay", str(path), *more, "--output", "json"])
    assert ended.exit_code == code, ended.output
    return json.loads(ended.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("write", [write_history, write_json_lines])
def test_the_command_ends_with_4_where_something_differs(tmp_path: Path, write: Any) -> None:
    path = tmp_path / "history.jsonl"
    assert write(path, list(recorded_leads([2, 3], "sticky-min-churn"))) == 4
    same = document(path, code=Exit.DONE)
    assert [replay["same"] for replay in same] == [True, True]
    other = document(path, "--policy", "rack-first", code=Exit.NOT_SO)
    assert other[0]["differs"] > 0
    reported = RUNNER.invoke(app, ["debug", "replay", str(path), "--policy", "rack-first"])
    assert reported.exit_code == Exit.NOT_SO
    assert "sticky-min-churn then, rack-first now" in reported.stdout
    assert "Replayed 2 rebalances:" in reported.stdout


def test_applications_are_reported_to_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "history"
    plan = {"group": "shop", "generation": 1, "decided_at_ms": 0, "part": 0, "entries": []}
    write_history(path, [*recorded_leads([2], "kafka"), SCHEMAS.encode("assignment", plan)])
    ended = RUNNER.invoke(app, ["debug", "replay", str(path)])
    assert (ended.exit_code, "not recorded whole: shop." in ended.stderr) == (Exit.DONE, True), ended.output


def test_what_cannot_be_replayed_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "history"
    write_history(path, [value for value in recorded_leads([2], "kafka") if SCHEMAS.decode(value)[0] == "snapshot"])
    cases = {("--group", "other"): "no group other", ("--policy", "x"): "there is no policy 'x'", (): "no plan beside"}
    for more, message in cases.items():
        ended = RUNNER.invoke(app, ["debug", "replay", str(path), *more])
        assert (ended.exit_code, message in ended.stderr) == (Exit.INPUT, True), ended.output
    lines = tmp_path / "junk.jsonl"
    lines.write_text('{"event": "snapshot"}\n{"no": 1}\nnothing\n')
    ended = RUNNER.invoke(app, ["debug", "replay", str(lines)])
    assert (ended.exit_code, "holds no snapshot" in ended.stderr) == (Exit.INPUT, True)
