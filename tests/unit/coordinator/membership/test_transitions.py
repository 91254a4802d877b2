"""Every edge that the tables declare has a scenario that takes it, and an edge that they lack costs the group
nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import INTERNAL_ERROR, MEMBERSHIP, TAKEOVER, Edge, NotLeading, State
from tests.kit.membership import Play, edges, trigger_name
from tests.seeds import together
from tests.unit.coordinator.membership.beginnings import STOP, coalescing, leaving, rejoining, syncing
from tests.unit.coordinator.membership.edge_scenarios import SCENARIOS
from tests.unit.coordinator.membership.takeover.takeover_scenes import (
    GOOD,
    parked,
    with_bellwether,
)

DECLARED = [*edges(MEMBERSHIP), *edges(TAKEOVER)]


def name(edge: Edge[Any]) -> str:
    return f"{edge.state.name} {trigger_name(edge.on)} {edge.to.name}"


EDGES = {name(edge): edge for edge in DECLARED}


@together("edge", EDGES, parts=18, quick=16)
def test_every_declared_edge_is_taken_by_a_scenario(edge: Edge[Any]) -> None:
    assert edge in SCENARIOS[edge.state][edge.on][edge.to]().edges


@together("edge", EDGES, parts=18, quick=16)
def test_why_it_refuses_or_leaves_is_one_of_few_words(edge: Edge[Any]) -> None:
    """For labels of metrics: the sentence may name members."""
    notes = [
        command for command in SCENARIOS[edge.state][edge.on][edge.to]().seen if isinstance(command, membership.Note)
    ]
    codes = {note.code for note in notes if note.kind in (membership.NoteKind.REFUSED, membership.NoteKind.LEFT)}
    assert codes <= set(NotLeading)
    assert {
        note.code for note in notes if note.kind not in (membership.NoteKind.REFUSED, membership.NoteKind.LEFT)
    } <= {""}


def test_no_scenario_takes_an_edge_that_is_not_declared() -> None:
    assert set(edges(SCENARIOS)) == set(DECLARED)


# ---- an edge that is not declared ------------------------------------------------------------------------------------

LIVES: dict[State, Callable[[], Play]] = {
    State.WATCHING: lambda: Play().coordinator_found(),
    State.APPROACHING: parked,
    State.JOINING: lambda: rejoining(Play()),
    State.DECIDING: lambda: Play().deciding(),
    State.SYNCING: lambda: syncing(Play()),
    State.STABLE: lambda: Play().stable(),
    State.COALESCING: lambda: coalescing(Play()),
    State.LEAVING: lambda: leaving(Play()),
}


def happens(play: Play) -> membership.Event:
    """Something that changes each of these states."""
    match play.state:
        case State.WATCHING:
            return membership.DescribeAnswer(play.requests[membership.Describe], 0, "Empty")
        case State.SYNCING:
            return membership.SyncAnswer(play.requests[membership.Sync], 0)
        case State.LEAVING:
            return membership.LeaveAnswer(play.requests[membership.Leave], 0)
        case _:
            return STOP


def alert(commands: tuple[membership.Command, ...]) -> str:
    (reason,) = [x.reason for x in commands if isinstance(x, membership.Note) and x.kind is membership.NoteKind.ALERT]
    return reason


@pytest.mark.parametrize("state", LIVES, ids=lambda state: state.name)
def test_an_undeclared_edge_is_an_alert_and_gives_the_group_back(state: State) -> None:
    play = LIVES[state]()
    play.machine._core.position._transitions = {}
    commands = play.machine.handle(happens(play), play.now)
    assert alert(commands).startswith(INTERNAL_ERROR)
    assert f"in {state.name} does not lead to" in alert(commands)
    if state in (State.WATCHING, State.LEAVING):
        assert play.state is State.WATCHING
    else:
        assert [x for x in commands if isinstance(x, membership.Leave)], (
            "a member leads as soon as the broker has read it"
        )
        assert play.state is State.LEAVING


def test_an_undeclared_edge_of_a_takeover_ends_it_and_leaves_nothing_behind() -> None:
    play = parked().wake()
    play.machine._approach._attempt.position._transitions = {}
    answer = membership.DescribeAnswer(
        play.requests[membership.Describe], 0, "PreparingRebalance", members=with_bellwether(GOOD)
    )
    commands = play.machine.handle(answer, play.now)
    assert "in PARKING does not lead to PARKED" in alert(commands)
    assert [x.member_ids for x in commands if isinstance(x, membership.Evict)] == [("blocker", "opener")]
    assert [x.instance_id for x in commands if isinstance(x, membership.Leave)] == ["bellwether"]
