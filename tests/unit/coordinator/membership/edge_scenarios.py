"""A scenario for every edge that the tables of the membership declare."""

from collections.abc import Callable
from typing import Any

from bellwether_kafka.coordinator.membership import State
from bellwether_kafka.coordinator.membership import commands as c
from bellwether_kafka.coordinator.membership import events as e
from bellwether_kafka.coordinator.membership.requests import Timer
from bellwether_kafka.coordinator.membership.transitions import Step
from tests.unit.coordinator.membership.beginnings import (
    IMPATIENT,
    INVALID,
    LEAVE,
    LOADING,
    MALFORMED,
    NOT_COORDINATOR,
    NOTHING,
    PAUSE,
    REBALANCE,
    STATIC,
    STOP,
    UNEXPECTED,
    UNSUPPORTED,
    a_bad_batch,
    coalescing,
    follower,
    heartbeat,
    heartbeats,
    holding,
    instance_takeover,
    leaving,
    named,
    refused_temporary,
    rejoining,
    removing,
    reopening,
    replaced,
    replacing,
    returning,
    search_refused,
    searching,
    stopping_while_deciding,
    stopping_while_deciding_late,
    stopping_while_joining,
    syncing,
    unsupported,
    until,
)
from tests.unit.coordinator.membership.playbook import ME, OTHER_NODE, Play, member
from tests.unit.coordinator.membership.takeover.takeover_scenes import (
    BAD,
    FENCED,
    GOOD,
    LEADER,
    UNKNOWN,
    answered,
    before_removal,
    dry_run_done,
    dynamic_until_named,
    evicted,
    gathered,
    gathering,
    given,
    growing,
    has_waited,
    parked,
    shrinking,
    with_bellwether,
)

HANDED_BACK = e.HandBackRemembered(60.0, "an earlier one", waits=True)


QUIET: dict[str, Any] = {**STATIC, "leave_on_stop": False}


SCENARIOS: dict[Any, dict[Any, dict[Any, Callable[[], Play]]]] = {
    State.WATCHING: {
        e.CoordinatorAnswer: {State.STOPPED: lambda: Play().coordinator_found(error=INVALID)},
        e.DescribeAnswer: {
            State.JOINING: lambda: Play().joining(),
            State.APPROACHING: lambda: has_waited(Play(adopt="succeed").coordinator_found()),
            State.WATCHING: lambda: Play().coordinator_found().described(error=UNKNOWN),
            State.STOPPED: lambda: Play().coordinator_found().described(error=INVALID),
        },
        e.ComparisonReady: {State.APPROACHING: dry_run_done},
        e.DeathsProven: {State.APPROACHING: before_removal},
        e.StopRequested: {State.STOPPED: lambda: Play().send(STOP)},
    },
    State.APPROACHING: {
        e.JoinAnswer: {
            State.JOINING: lambda: answered(given(dry_run_done(), GOOD), GOOD),
            State.LEAVING: lambda: given(dry_run_done(), GOOD).refused(UNKNOWN),
            State.WATCHING: lambda: dry_run_done().refused(LOADING),
            State.STOPPED: lambda: dry_run_done().refused(INVALID),
        },
        e.SyncAnswer: {
            State.LEAVING: lambda: answered(given(dry_run_done(), GOOD), LEADER).synced(UNKNOWN),
            State.WATCHING: lambda: follower(instance_takeover()).synced(FENCED),
            State.STOPPED: lambda: answered(given(dry_run_done(), GOOD), LEADER).synced(FENCED),
        },
        e.LeaveAnswer: {
            State.LEAVING: lambda: evicted(dynamic_until_named(), UNEXPECTED),
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
            State.LEAVING: lambda: search_refused(rejoining(Play())),
            State.STOPPED: lambda: search_refused(Play().joining(), c.Join),
        },
        e.JoinAnswer: {
            State.DECIDING: lambda: Play().deciding(),
            State.SYNCING: lambda: Play().joining().joined(member(ME)),
            State.JOINING: lambda: Play().joining().refused(REBALANCE),
            State.LEAVING: lambda: Play().joining().joined(leader="somebody"),
            State.WATCHING: lambda: Play().joining().refused(UNKNOWN),
            State.STOPPED: lambda: Play().joining().refused(INVALID),
        },
        e.HeartbeatAnswer: heartbeats(rejoining),
        e.RequestFailed: {
            State.LEAVING: lambda: rejoining(Play()).failed(c.Join, MALFORMED),
            State.WATCHING: lambda: Play().joining().failed(c.Join, MALFORMED),
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
        e.CoordinatorAnswer: {State.LEAVING: lambda: search_refused(Play().deciding())},
        e.HeartbeatAnswer: {
            **heartbeats(Play.deciding),
            State.JOINING: lambda: heartbeat(Play().deciding(), REBALANCE),
            State.COALESCING: lambda: heartbeat(Play(coalesce_running_ms=500).deciding(), REBALANCE),
        },
        e.RequestFailed: {State.LEAVING: lambda: unsupported(Play(**IMPATIENT).deciding())},
        e.OrdersInForce: {State.LEAVING: lambda: Play().deciding().send(LEAVE)},
        e.HandBackRemembered: {State.LEAVING: lambda: Play().deciding().send(HANDED_BACK)},
        e.StopRequested: {State.LEAVING: lambda: Play().deciding().send(STOP)},
    },
    State.SYNCING: {
        e.SyncAnswer: {
            State.STABLE: lambda: syncing(Play()).synced(),
            State.JOINING: lambda: syncing(Play()).synced(REBALANCE),
            State.LEAVING: lambda: syncing(Play(**IMPATIENT)).synced(UNEXPECTED),
            State.WATCHING: lambda: syncing(Play()).synced(UNKNOWN),
            State.STOPPED: lambda: syncing(Play()).synced(FENCED),
        },
        e.CoordinatorAnswer: {
            State.LEAVING: lambda: search_refused(syncing(Play())),
            State.JOINING: lambda: searching(syncing(Play())).coordinator_found(OTHER_NODE),
        },
        e.HeartbeatAnswer: heartbeats(syncing),
        e.RequestFailed: {
            State.JOINING: lambda: syncing(Play()).failed(c.Sync),
            State.LEAVING: lambda: syncing(Play(**IMPATIENT)).failed(c.Sync, UNSUPPORTED),
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
        e.CoordinatorAnswer: {State.LEAVING: lambda: search_refused(Play().stable())},
        e.RequestFailed: {State.LEAVING: lambda: unsupported(Play(**IMPATIENT).stable())},
        e.RebalanceWanted: {State.JOINING: lambda: Play().stable().send(e.RebalanceWanted("a topic", "topics"))},
        e.ComparisonReady: {State.JOINING: lambda: Play().stable().send(e.ComparisonReady(1, worth_moving=True))},
        Timer.REBALANCE: {
            State.JOINING: lambda: until(
                Play()
                .stable()
                .send(e.RebalanceWanted("a topic", "topics"))
                .joined(member(ME), member("a"), generation=2)
                .planned(generation=2)
                .synced()
                .send(e.RebalanceWanted("another topic", "topics")),
                c.Join,
            )
        },
        Timer.FOLLOWUP: {State.JOINING: lambda: until(Play().deciding().planned(pending=True).synced(), c.Join)},
        Timer.LINGER: {State.LEAVING: lambda: until(Play(linger_ms=1_000).stable_alone(), c.Leave)},
        e.RebalanceOrdered: {State.JOINING: lambda: rejoining(Play())},
        e.HandBackRemembered: {State.LEAVING: lambda: Play().stable().send(HANDED_BACK)},
        e.OrdersInForce: {
            State.JOINING: lambda: (
                Play().stable().send(PAUSE).send(e.RebalanceWanted("a topic", "topics")).send(NOTHING)
            ),
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
        e.CoordinatorAnswer: {State.LEAVING: lambda: search_refused(coalescing(Play()))},
        e.HeartbeatAnswer: heartbeats(coalescing),
        e.RequestFailed: {
            State.JOINING: lambda: coalescing(Play()).failed(c.Describe),
            State.LEAVING: lambda: coalescing(Play(**IMPATIENT)).failed(c.Describe, UNSUPPORTED),
        },
        e.OrdersInForce: {State.LEAVING: lambda: coalescing(Play()).send(LEAVE)},
        e.HandBackRemembered: {State.LEAVING: lambda: coalescing(Play()).send(HANDED_BACK)},
        e.StopRequested: {State.LEAVING: lambda: coalescing(Play()).send(STOP)},
    },
    State.LEAVING: {
        e.LeaveAnswer: {
            State.WATCHING: lambda: leaving(Play()).left(),
            State.STOPPED: lambda: Play().stable().send(STOP).left(),
        },
        Timer.LEAVE: {
            State.WATCHING: lambda: leaving(Play()).wake(),
            State.STOPPED: lambda: Play().stable().send(STOP).wake(),
        },
        e.CoordinatorAnswer: {State.STOPPED: lambda: search_refused(leaving(Play()), c.Leave)},
        e.RequestFailed: {
            State.WATCHING: lambda: leaving(Play()).failed(c.Leave, UNSUPPORTED),
            State.STOPPED: lambda: Play().stable().send(STOP).failed(c.Leave, UNSUPPORTED),
        },
        e.OrdersInForce: {
            State.WATCHING: lambda: Play(**STATIC).joining().send(LEAVE).send(e.OrdersInForce("again", "")),
            State.STOPPED: lambda: Play(**STATIC).joining().send(STOP).send(LEAVE),
        },
    },
    Step.PACING: {
        e.LeaveAnswer: {
            Step.BARRING: lambda: dry_run_done(**STATIC),
            Step.GATHERING: lambda: gathering(**STATIC),
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
    Step.REPLACING: {
        e.DescribeAnswer: {
            Step.PARKED: lambda: replacing()[0].described("PreparingRebalance", *with_bellwether(GOOD)),
        },
        e.JoinAnswer: {Step.PARKING: replaced, **named(lambda: replacing()[0])},
    },
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
