"""Every edge that the tables declare has a story that takes it, and an edge that they lack costs the group nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from bellwether_kafka.coordinator.membership import commands as c
from bellwether_kafka.coordinator.membership import events as e
from bellwether_kafka.coordinator.membership.adoption import DRY_RUN
from bellwether_kafka.coordinator.membership.requests import Timer
from bellwether_kafka.coordinator.membership.role import NotLeading
from bellwether_kafka.coordinator.membership.takeover.own_id import BATCH
from bellwether_kafka.coordinator.membership.transitions import (
    INTERNAL_ERROR,
    MEMBERSHIP,
    TAKEOVER,
    Edge,
    State,
    Step,
    edges,
    trigger_name,
)
from tests.unit.coordinator.membership.playbook import ME, OTHER_NODE, Play, member
from tests.unit.coordinator.membership.takeover.takeover_scenes import (
    BAD,
    COOPERATIVE,
    FENCED,
    FIVE,
    GOOD,
    GROUP_MAX_SIZE_REACHED,
    LEADER,
    UNKNOWN,
    answered,
    before_removal,
    client,
    dry_run_done,
    dynamic_until_named,
    evicted,
    gathered,
    gathering,
    given,
    growing,
    has_waited,
    ids,
    joins,
    parked,
    shrinking,
    stable,
    with_bellwether,
)

DENIED, LOADING, NOT_COORDINATOR, REBALANCE, STRANGE = 30, 14, 16, 27, 99
UNSUPPORTED, MALFORMED = e.Failure.UNSUPPORTED, e.Failure.MALFORMED
STOP, LEAVE, PAUSE, NOTHING = (
    e.StopRequested(),
    e.OrdersInForce("an operator says so", ""),
    e.OrdersInForce("", "paused"),
    e.OrdersInForce("", ""),
)
HANDED_BACK = e.HandBackRemembered(60.0, "an earlier one", waits=True)
STATIC: dict[str, Any] = {"instance_id": "bellwether"}
IMPATIENT: dict[str, Any] = {"unclear_ms_max": 0}
QUIET: dict[str, Any] = {**STATIC, "leave_on_stop": False}
Begin = Callable[..., Play]


# ---- beginnings ------------------------------------------------------------------------------------------------------


def standby(**settings: object) -> Play:
    """One of several sidecars, and the one that is to lead."""
    return Play(standby=True, **STATIC, **settings).send(e.ActiveRoleChanged(active=True, reason=""))


def until(play: Play, kind: type[c.Command]) -> Play:
    for _ in range(200):
        if any(isinstance(command, kind) for command in play.last):
            return play
        play.wake()
    raise AssertionError(f"no {kind.__name__}")


def heartbeat(play: Play, error: int) -> Play:
    return until(play, c.Heartbeat).heartbeat(error)


def unsupported(play: Play) -> Play:
    return until(play, c.Heartbeat).failed(c.Heartbeat, UNSUPPORTED)


def searching(play: Play, lost: type[c.Request] = c.Heartbeat) -> Play:
    """The coordinator node is lost, and being found."""
    return until(until(play, lost).failed(lost), c.FindCoordinator)


def syncing(play: Play) -> Play:
    return play.deciding().planned()


def rejoining(play: Play) -> Play:
    """JOINING, with a seat that heartbeats keep."""
    return play.stable().send(e.RebalanceOrdered("an operator wants it"))


def coalescing(play: Play) -> Play:
    return heartbeat(play.stable_alone(), REBALANCE)


def stopping_while_deciding() -> Play:
    """The SyncGroup that the end waits for failed, and the round after it is ours."""
    return stopping_while_joining().joined(member(ME), member("a"), generation=2)


def stopping_while_joining() -> Play:
    return until(syncing(Play()).send(STOP).synced(LOADING), c.Join)


def stopping_while_deciding_late() -> Play:
    return stopping_while_joining().later(4).joined(member(ME), member("a"), generation=2)


def leaving(play: Play) -> Play:
    return play.stable().send(LEAVE)


def follower(play: Play) -> Play:
    """A take-over under an instance id, in a round that named the old leader."""
    stable(play.found()).send(e.ComparisonReady(DRY_RUN, worth_moving=False))
    given(play, "blocker").wake().described("PreparingRebalance", *with_bellwether(GOOD))
    return answered(evicted(play), LEADER)


def removing(play: Play) -> Play:
    return evicted(follower(play).synced())


def replacing() -> tuple[Play, int]:
    """With the number of the JoinGroup that is being replaced."""
    play = parked()
    first = play.requests[c.Join]
    return play.wake().described("PreparingRebalance", *with_bellwether(BAD)), first


def replaced() -> Play:
    play, first = replacing()
    return play.send(e.JoinAnswer(first, FENCED, member_id=BAD))


def a_bad_batch() -> Play:
    play = dry_run_done()
    for bad in ids(15, BATCH, prefix="no-good"):
        given(play, bad)
    return evicted(play)


def refused_temporary() -> Play:
    play = growing()
    return play.send(e.JoinAnswer(joins(play)[0].request_id, GROUP_MAX_SIZE_REACHED))


def reopening(**settings: object) -> Play:
    """In a second round that a barrier holds open."""
    play = answered(given(dry_run_done(COOPERATIVE, **settings), GOOD).later(0.7), LEADER, protocol=COOPERATIVE)
    again = next(command for command in play.last if isinstance(command, c.Join))
    given(play, "blocker")
    play.requests[c.Join] = again.request_id
    return play


def holding() -> Play:
    return reopening(members=FIVE).wake()


def returning() -> Play:
    back = (*FIVE[1:], client("m-new", "leader"))
    play = evicted(dynamic_until_named(members=FIVE))
    return play.described("PreparingRebalance", client(GOOD, "bw"), *back)


def instance_takeover() -> Play:
    return standby(adopt="take-over")


def search_denied(play: Play, lost: type[c.Request] = c.Heartbeat) -> Play:
    return searching(play, lost).found(error=DENIED)


def heartbeats(begin: Callable[[Play], Play]) -> dict[State, Callable[[], Play]]:
    return {
        State.LEAVING: lambda: heartbeat(begin(Play(**IMPATIENT)), STRANGE),
        State.WATCHING: lambda: heartbeat(begin(Play()), UNKNOWN),
        State.STOPPED: lambda: heartbeat(begin(Play()), FENCED),
    }


def named(begin: Begin, **settings: object) -> dict[Step, Callable[[], Play]]:
    """Another leads, and what is done about it goes by the protocol."""
    return {
        Step.HOLDING: lambda: answered(begin(**settings), LEADER, protocol="stream"),
        Step.REOPENING: lambda: answered(begin(**settings), LEADER, protocol=COOPERATIVE),
        Step.WORKING: lambda: answered(begin(**settings), LEADER),
    }


# ---- the stories -----------------------------------------------------------------------------------------------------

SCENARIOS: dict[Any, dict[Any, dict[Any, Callable[[], Play]]]] = {
    State.WATCHING: {
        e.CoordinatorAnswer: {State.STOPPED: lambda: Play().found(error=DENIED)},
        e.DescribeAnswer: {
            State.JOINING: lambda: Play().joining(),
            State.APPROACHING: lambda: has_waited(Play(adopt="succeed").found()),
            State.WATCHING: lambda: Play().found().described(error=UNKNOWN),
            State.STOPPED: lambda: Play().found().described(error=DENIED),
        },
        e.ComparisonReady: {State.APPROACHING: dry_run_done},
        e.DeathsProven: {State.APPROACHING: before_removal},
        e.RequestFailed: {State.STOPPED: lambda: Play().failed(c.FindCoordinator, UNSUPPORTED)},
        e.StopRequested: {State.STOPPED: lambda: Play().send(STOP)},
    },
    State.APPROACHING: {
        e.JoinAnswer: {
            State.JOINING: lambda: answered(given(dry_run_done(), GOOD), GOOD),
            State.LEAVING: lambda: given(dry_run_done(), GOOD).refused(UNKNOWN),
            State.WATCHING: lambda: dry_run_done().refused(LOADING),
            State.STOPPED: lambda: dry_run_done().refused(DENIED),
        },
        e.SyncAnswer: {
            State.LEAVING: lambda: answered(given(dry_run_done(), GOOD), LEADER).synced(UNKNOWN),
            State.WATCHING: lambda: follower(instance_takeover()).synced(FENCED),
            State.STOPPED: lambda: answered(given(dry_run_done(), GOOD), LEADER).synced(FENCED),
        },
        e.LeaveAnswer: {
            State.LEAVING: lambda: evicted(dynamic_until_named(), STRANGE),
            State.WATCHING: lambda: evicted(follower(instance_takeover()).synced(), FENCED),
            State.STOPPED: lambda: evicted(dynamic_until_named(), FENCED),
        },
        e.DescribeAnswer: {
            State.LEAVING: lambda: evicted(dynamic_until_named()).described("", error=NOT_COORDINATOR),
            State.WATCHING: lambda: removing(instance_takeover()).described("", error=FENCED),
            State.STOPPED: lambda: evicted(dynamic_until_named()).described("", error=FENCED),
        },
        e.RequestFailed: {
            State.LEAVING: lambda: given(dry_run_done(), GOOD).failed(c.Join),
            State.WATCHING: lambda: dry_run_done().failed(c.Join),
        },
        e.OrdersInForce: {
            State.LEAVING: lambda: parked().send(LEAVE),
            State.WATCHING: lambda: dry_run_done().send(LEAVE),
        },
        e.HandBackRemembered: {
            State.LEAVING: lambda: parked().send(HANDED_BACK),
            State.WATCHING: lambda: dry_run_done().send(HANDED_BACK),
        },
        e.StopRequested: {State.LEAVING: lambda: parked().send(STOP), State.STOPPED: lambda: dry_run_done().send(STOP)},
        Timer.TAKEOVER: {State.WATCHING: lambda: gathering().wake()},
    },
    State.JOINING: {
        e.CoordinatorAnswer: {
            State.LEAVING: lambda: search_denied(rejoining(Play())),
            State.STOPPED: lambda: search_denied(Play().joining(), c.Join),
        },
        e.JoinAnswer: {
            State.DECIDING: lambda: Play().deciding(),
            State.SYNCING: lambda: Play().joining().joined(member(ME)),
            State.JOINING: lambda: Play().joining().refused(REBALANCE),
            State.LEAVING: lambda: Play().joining().joined(leader="somebody"),
            State.WATCHING: lambda: Play().joining().refused(UNKNOWN),
            State.STOPPED: lambda: Play().joining().refused(DENIED),
        },
        e.HeartbeatAnswer: heartbeats(rejoining),
        e.RequestFailed: {
            State.LEAVING: lambda: rejoining(Play()).failed(c.Join, MALFORMED),
            State.WATCHING: lambda: Play().joining().failed(c.Join, MALFORMED),
            State.STOPPED: lambda: Play().joining().failed(c.Join, UNSUPPORTED),
        },
        e.OrdersInForce: {
            State.LEAVING: lambda: Play(**STATIC).joining().send(LEAVE),
            State.WATCHING: lambda: Play().joining().send(LEAVE),
        },
        e.HandBackRemembered: {
            State.LEAVING: lambda: Play(**STATIC).joining().send(HANDED_BACK),
            State.WATCHING: lambda: Play().joining().send(HANDED_BACK),
        },
        Timer.LEAVE: {State.LEAVING: lambda: until(stopping_while_joining(), c.Leave)},
        e.StopRequested: {
            State.LEAVING: lambda: Play(**STATIC).joining().send(STOP),
            State.STOPPED: lambda: Play().joining().send(STOP),
        },
    },
    State.DECIDING: {
        e.DecisionReady: {
            State.SYNCING: lambda: Play().deciding().planned(),
            State.JOINING: lambda: Play().deciding().later(11).planned(),
            State.LEAVING: lambda: stopping_while_deciding().later(11).planned(generation=2),
        },
        e.DecisionFailed: {State.LEAVING: lambda: Play().deciding().send(e.DecisionFailed(1, "no"))},
        Timer.DECISION: {State.LEAVING: lambda: until(Play().deciding(), c.Leave)},
        Timer.LEAVE: {State.LEAVING: lambda: until(stopping_while_deciding_late(), c.Leave)},
        e.Wake: {
            State.JOINING: lambda: Play().deciding().later(11).wake(),
            State.LEAVING: lambda: stopping_while_deciding().later(11).wake(),
        },
        e.CoordinatorAnswer: {State.LEAVING: lambda: search_denied(Play().deciding())},
        e.HeartbeatAnswer: {
            **heartbeats(Play.deciding),
            State.JOINING: lambda: heartbeat(Play().deciding(), REBALANCE),
            State.COALESCING: lambda: heartbeat(Play(coalesce_running_ms=500).deciding(), REBALANCE),
        },
        e.RequestFailed: {State.LEAVING: lambda: unsupported(Play().deciding())},
        e.OrdersInForce: {State.LEAVING: lambda: Play().deciding().send(LEAVE)},
        e.HandBackRemembered: {State.LEAVING: lambda: Play().deciding().send(HANDED_BACK)},
        e.StopRequested: {State.LEAVING: lambda: Play().deciding().send(STOP)},
    },
    State.SYNCING: {
        e.SyncAnswer: {
            State.STABLE: lambda: syncing(Play()).synced(),
            State.JOINING: lambda: syncing(Play()).synced(REBALANCE),
            State.LEAVING: lambda: syncing(Play(**IMPATIENT)).synced(STRANGE),
            State.WATCHING: lambda: syncing(Play()).synced(UNKNOWN),
            State.STOPPED: lambda: syncing(Play()).synced(FENCED),
        },
        e.CoordinatorAnswer: {
            State.LEAVING: lambda: search_denied(syncing(Play())),
            State.JOINING: lambda: searching(syncing(Play())).found(OTHER_NODE),
        },
        e.HeartbeatAnswer: heartbeats(syncing),
        e.RequestFailed: {
            State.JOINING: lambda: syncing(Play()).failed(c.Sync),
            State.LEAVING: lambda: syncing(Play()).failed(c.Sync, UNSUPPORTED),
        },
        Timer.LEAVE: {State.LEAVING: lambda: until(syncing(Play()).send(STOP), c.Leave)},
        e.OrdersInForce: {State.LEAVING: lambda: syncing(Play()).send(LEAVE)},
        e.HandBackRemembered: {State.LEAVING: lambda: syncing(Play()).send(HANDED_BACK)},
    },
    State.STABLE: {
        e.SyncAnswer: {
            State.JOINING: lambda: syncing(Play()).send(e.RebalanceOrdered("an operator wants it")).synced(),
            State.LEAVING: lambda: syncing(Play()).send(STOP).synced(),
            State.STOPPED: lambda: syncing(Play(**QUIET)).send(STOP).synced(),
        },
        e.HeartbeatAnswer: {
            **heartbeats(Play.stable),
            State.JOINING: lambda: heartbeat(Play().stable(), REBALANCE),
            State.COALESCING: lambda: coalescing(Play()),
        },
        e.CoordinatorAnswer: {State.LEAVING: lambda: search_denied(Play().stable())},
        e.RequestFailed: {State.LEAVING: lambda: unsupported(Play().stable())},
        e.RebalanceWanted: {State.JOINING: lambda: Play().stable().send(e.RebalanceWanted("a topic"))},
        e.ComparisonReady: {State.JOINING: lambda: Play().stable().send(e.ComparisonReady(1, worth_moving=True))},
        Timer.REBALANCE: {
            State.JOINING: lambda: until(
                Play()
                .stable()
                .send(e.RebalanceWanted("a topic"))
                .joined(member(ME), member("a"), generation=2)
                .planned(generation=2)
                .synced()
                .send(e.RebalanceWanted("another topic")),
                c.Join,
            )
        },
        Timer.FOLLOWUP: {State.JOINING: lambda: until(Play().deciding().planned(pending=True).synced(), c.Join)},
        Timer.LINGER: {State.LEAVING: lambda: until(Play(linger_ms=1_000).stable_alone(), c.Leave)},
        e.RebalanceOrdered: {State.JOINING: lambda: rejoining(Play())},
        e.HandBackRemembered: {State.LEAVING: lambda: Play().stable().send(HANDED_BACK)},
        e.OrdersInForce: {
            State.JOINING: lambda: Play().stable().send(PAUSE).send(e.RebalanceWanted("a topic")).send(NOTHING),
            State.LEAVING: lambda: leaving(Play()),
        },
        e.StepAsideWanted: {State.LEAVING: lambda: Play().stable().send(e.StepAsideWanted("no good"))},
        e.StopRequested: {
            State.LEAVING: lambda: Play().stable().send(STOP),
            State.STOPPED: lambda: Play(**QUIET).stable().send(STOP),
        },
    },
    State.COALESCING: {
        Timer.COALESCE: {
            State.JOINING: lambda: until(heartbeat(Play(coalesce_running_ms=500).stable(), REBALANCE), c.Join),
        },
        e.DescribeAnswer: {State.JOINING: lambda: coalescing(Play()).described(error=NOT_COORDINATOR)},
        e.Wake: {State.JOINING: lambda: coalescing(Play()).later(11).wake()},
        e.CoordinatorAnswer: {State.LEAVING: lambda: search_denied(coalescing(Play()))},
        e.HeartbeatAnswer: heartbeats(coalescing),
        e.RequestFailed: {
            State.JOINING: lambda: coalescing(Play()).failed(c.Describe),
            State.LEAVING: lambda: coalescing(Play()).failed(c.Describe, UNSUPPORTED),
        },
        e.OrdersInForce: {State.LEAVING: lambda: coalescing(Play()).send(LEAVE)},
        e.HandBackRemembered: {State.LEAVING: lambda: coalescing(Play()).send(HANDED_BACK)},
        e.StopRequested: {State.LEAVING: lambda: coalescing(Play()).send(STOP)},
    },
    State.LEAVING: {
        e.LeaveAnswer: {
            State.WATCHING: lambda: leaving(Play()).left(),
            State.STOPPED: lambda: Play().stable().send(STOP).left(),
            State.LEAVING: lambda: leaving(Play(**IMPATIENT)).left(STRANGE),
        },
        Timer.LEAVE: {
            State.WATCHING: lambda: leaving(Play()).wake(),
            State.STOPPED: lambda: Play().stable().send(STOP).wake(),
        },
        e.CoordinatorAnswer: {State.STOPPED: lambda: search_denied(leaving(Play()), c.Leave)},
        e.RequestFailed: {State.STOPPED: lambda: leaving(Play()).failed(c.Leave, UNSUPPORTED)},
        e.OrdersInForce: {
            State.WATCHING: lambda: Play(**STATIC).joining().send(LEAVE).send(e.OrdersInForce("again", "")),
            State.STOPPED: lambda: Play(**STATIC).joining().send(STOP).send(LEAVE),
        },
    },
    Step.GATHERING: {
        e.JoinAnswer: {Step.ROLLING: gathered, Step.BARRING: lambda: gathered(**STATIC)},
    },
    Step.GROWING: {
        e.DescribeAnswer: {Step.SHRINKING: shrinking},
        e.JoinAnswer: {Step.SHRINKING: refused_temporary},
    },
    Step.SHRINKING: {
        e.LeaveAnswer: {
            Step.PARKED: lambda: evicted(shrinking()),
            Step.PARKING: lambda: evicted(shrinking(**STATIC)),
        },
    },
    Step.ROLLING: {
        e.JoinAnswer: {
            Step.GROWING: growing,
            Step.CLEARING: lambda: given(given(dry_run_done(), BAD), GOOD),
            Step.PARKED: lambda: given(dry_run_done(), GOOD),
            **named(dry_run_done),
        },
    },
    Step.CLEARING: {
        e.LeaveAnswer: {
            Step.GROWING: lambda: evicted(given(given(gathered(), BAD), GOOD)),
            Step.PARKED: lambda: evicted(given(given(dry_run_done(), BAD), GOOD)),
            Step.ROLLING: a_bad_batch,
        },
    },
    Step.BARRING: {e.JoinAnswer: {Step.PARKING: parked, Step.GROWING: lambda: growing(**STATIC)}},
    Step.PARKING: {
        e.DescribeAnswer: {
            Step.PARKED: lambda: parked().wake().described("PreparingRebalance", *with_bellwether(GOOD)),
            Step.REPLACING: lambda: replacing()[0],
        },
        e.JoinAnswer: named(parked),
    },
    Step.REPLACING: {e.JoinAnswer: {Step.PARKING: replaced, **named(lambda: replacing()[0])}},
    Step.PARKED: {e.JoinAnswer: named(lambda: given(dry_run_done(), GOOD))},
    Step.WORKING: {
        e.SyncAnswer: {Step.HOLDING: dynamic_until_named},
        Timer.TAKEOVER: {Step.HOLDING: lambda: answered(given(dry_run_done(), GOOD), LEADER).wake()},
    },
    Step.REOPENING: {
        Timer.TAKEOVER: {Step.HOLDING: holding},
        e.JoinAnswer: named(reopening),
    },
    Step.HOLDING: {
        e.DescribeAnswer: {Step.RETURNING: returning},
        e.JoinAnswer: named(holding),
    },
    Step.RETURNING: {e.JoinAnswer: named(returning)},
}

DECLARED = [*edges(MEMBERSHIP), *edges(TAKEOVER)]


def name(edge: Edge[Any]) -> str:
    return f"{edge.state.name} {trigger_name(edge.on)} {edge.to.name}"


@pytest.mark.parametrize("edge", DECLARED, ids=name)
def test_every_declared_edge_is_taken_by_a_scenario(edge: Edge[Any]) -> None:
    assert edge in SCENARIOS[edge.state][edge.on][edge.to]().edges


@pytest.mark.parametrize("edge", DECLARED, ids=name)
def test_why_it_refuses_or_leaves_is_one_of_few_words(edge: Edge[Any]) -> None:
    """For labels of metrics: the sentence may name members."""
    notes = [command for command in SCENARIOS[edge.state][edge.on][edge.to]().seen if isinstance(command, c.Note)]
    codes = {note.code for note in notes if note.kind in (c.NoteKind.REFUSED, c.NoteKind.LEFT)}
    assert codes <= set(NotLeading)
    assert {note.code for note in notes if note.kind not in (c.NoteKind.REFUSED, c.NoteKind.LEFT)} <= {""}


def test_no_scenario_takes_an_edge_that_is_not_declared() -> None:
    assert set(edges(SCENARIOS)) == set(DECLARED)


# ---- an edge that is not declared ------------------------------------------------------------------------------------

LIVES: dict[State, Callable[[], Play]] = {
    State.WATCHING: lambda: Play().found(),
    State.APPROACHING: parked,
    State.JOINING: lambda: rejoining(Play()),
    State.DECIDING: lambda: Play().deciding(),
    State.SYNCING: lambda: syncing(Play()),
    State.STABLE: lambda: Play().stable(),
    State.COALESCING: lambda: coalescing(Play()),
    State.LEAVING: lambda: leaving(Play()),
}


def happens(play: Play) -> e.Event:
    """Something that changes each of these states."""
    match play.state:
        case State.WATCHING:
            return e.DescribeAnswer(play.requests[c.Describe], 0, "Empty")
        case State.SYNCING:
            return e.SyncAnswer(play.requests[c.Sync], 0)
        case State.LEAVING:
            return e.LeaveAnswer(play.requests[c.Leave], 0)
        case _:
            return STOP


def alert(commands: tuple[c.Command, ...]) -> str:
    (reason,) = [x.reason for x in commands if isinstance(x, c.Note) and x.kind is c.NoteKind.ALERT]
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
        assert [x for x in commands if isinstance(x, c.Leave)], "a member leads as soon as the broker has read it"
        assert play.state is State.LEAVING


def test_an_undeclared_edge_of_a_takeover_ends_it_and_leaves_nothing_behind() -> None:
    play = parked().wake()
    play.machine._approach._takeover._state.position._transitions = {}
    answer = e.DescribeAnswer(play.requests[c.Describe], 0, "PreparingRebalance", members=with_bellwether(GOOD))
    commands = play.machine.handle(answer, play.now)
    assert "in PARKING does not lead to PARKED" in alert(commands)
    assert [x.member_ids for x in commands if isinstance(x, c.Evict)] == [("blocker", "opener")]
    assert [x.instance_id for x in commands if isinstance(x, c.Leave)] == ["bellwether"]
