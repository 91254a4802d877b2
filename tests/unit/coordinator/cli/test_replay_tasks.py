"""Rebalances of applications that were recorded whole: today's code decides the same from them, another policy may
not."""

import asyncio
import json
import time
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from bellwether_kafka.assignors.shared import Rule
from bellwether_kafka.assignors.streams import TaskPlan, stock
from bellwether_kafka.assignors.streams.application import AssignmentConfigs
from bellwether_kafka.assignors.streams.stages import StageConfigs
from bellwether_kafka.coordinator.cli import Exit
from bellwether_kafka.coordinator.cli import app as command
from bellwether_kafka.coordinator.events import SchemaSet
from bellwether_kafka.coordinator.planning import (
    Planned,
    Planner,
    StreamsConfig,
    StreamsKind,
    TaskRequest,
    UnreadableRebalanceError,
    pack,
    unpack,
)
from bellwether_kafka.coordinator.replay import write_history, write_json_lines
from bellwether_kafka.coordinator.telemetry.event_records import decision_events
from tests.kit.applications import App, under
from tests.kit.streams import NOW_MS, Thread

RUNNER = CliRunner()
SCHEMAS = SchemaSet.load()
SIZES = (1, 2, 2, 3, 3, 2, 2)
POLICIES = ("kafka", "streams-ha")
RULES = (Rule("ban", "*", "rack:b"),)


async def rebalances_of(policy: str, rules: tuple[Rule, ...] = ()) -> list[Planned[TaskPlan]]:
    """An application that grows and shrinks, led from the beginning on."""
    app = App()
    config = StreamsConfig(
        "shop",
        topology=Path("gone.yaml"),
        policy=policy,
        configs=AssignmentConfigs(num_standby_replicas=1, acceptable_recovery_lag=0),
        stages=StageConfigs(host_affinity_ms=60_000) if policy == "streams-ha" else StageConfigs(),
    )
    parts = (app.cluster, app.log, app.topology_source, stock(config.stages))
    planner = Planner("shop", StreamsKind("shop", config, *parts, wall_clock=lambda: app.at_s))
    threads = [Thread(f"m{n}", n + 1, rack="abc"[n]) for n in range(max(SIZES))]
    documents = []
    for number, size in enumerate(SIZES, 1):
        if number == 3:
            under(planner, rules)
        app.at_s = NOW_MS / 1000 + 400 * number
        order = app.order(number, *threads[:size], deadline=time.monotonic() + 60)
        planned = await planner.plan(order)
        delivered = planner.delivered(number)
        assert delivered is not None
        documents.append(delivered)
        threads = [t.after(planned.decision) if i < size else t for i, t in enumerate(threads)]
    return documents


@cache
def recorded(policy: str, rules: tuple[Rule, ...] = ()) -> tuple[bytes, ...]:
    rebalances = asyncio.run(rebalances_of(policy, rules))
    return tuple(SCHEMAS.encode(event, record) for planned in rebalances for event, record in decision_events(planned))


def replayed(path: Path, *more: str) -> tuple[int, list[dict[str, object]]]:
    ended = RUNNER.invoke(command, ["debug", "replay", str(path), *more, "--output", "json"])
    assert ended.exit_code in (Exit.DONE, Exit.NOT_SO), ended.output
    return ended.exit_code, json.loads(ended.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("rules", [(), RULES])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("write", [write_history, write_json_lines])
def test_the_same_code_decides_the_same(tmp_path: Path, policy: str, rules: tuple[Rule, ...], write: object) -> None:
    write(tmp_path / "h", recorded(policy, rules))  # type: ignore[operator]  # one of two functions
    code, replays = replayed(tmp_path / "h")
    assert [(replay["generation"], replay["failed"], replay["differences"]) for replay in replays] == [
        (n, "", []) for n in range(1, len(SIZES) + 1)
    ]
    assert code == Exit.DONE
    assert all(replay["now"] == replay["recorded"] for replay in replays)
    assert sum(replay["recorded"]["moved"] for replay in replays) > 0  # type: ignore[index]  # JSON


@pytest.mark.slow
def test_another_policy_shows_what_it_would_place_otherwise(tmp_path: Path) -> None:
    """The operator's rules hold under `streams-ha` only, so `kafka` gives the banned process its tasks back."""
    write_history(tmp_path / "h", recorded("streams-ha", RULES))
    code, replays = replayed(tmp_path / "h", "--policy", "kafka")
    assert code == Exit.NOT_SO
    assert {(replay["policy"], replay["recorded_policy"]) for replay in replays} == {("kafka", "streams-ha")}
    assert any(replay["differs"] for replay in replays)
    reported = RUNNER.invoke(command, ["debug", "replay", str(tmp_path / "h"), "--policy", "kafka"])
    assert "streams-ha then, kafka now" in reported.stdout


@pytest.mark.slow
def test_a_recording_without_plans_is_reported(tmp_path: Path) -> None:
    only = [value for value in recorded("kafka") if SCHEMAS.decode(value)[0] == "round"]
    write_history(tmp_path / "h", only)
    ended = RUNNER.invoke(command, ["debug", "replay", str(tmp_path / "h")])
    assert (ended.exit_code, "holds no plan" in ended.stderr) == (Exit.INPUT, True)


def request() -> TaskRequest:
    asked = asyncio.run(rebalances_of("streams-ha", RULES))[-1].inputs
    assert isinstance(asked, TaskRequest)
    return asked


@pytest.mark.slow
def test_a_rebalance_goes_there_and_back() -> None:
    asked = request()
    again = unpack(pack(asked))
    assert pack(again) == pack(asked)
    assert again.world.raw == asked.world.raw
    assert again.config == asked.config
    assert again.memory.plan.owner.tolist() == asked.memory.plan.owner.tolist()


@pytest.mark.slow
@given(st.binary(max_size=200), st.integers(0, 2_000))
def test_what_is_no_rebalance_is_reported_so(junk: bytes, at: int) -> None:
    data = PACKED[:at] + junk + PACKED[at + len(junk) :]
    if data == PACKED:
        return
    with pytest.raises(UnreadableRebalanceError, match=r"another version|is no rebalance"):
        unpack(data)


PACKED = pack(request())
