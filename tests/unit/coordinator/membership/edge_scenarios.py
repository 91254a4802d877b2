"""A scenario for every edge that the tables of the membership declare."""

from collections.abc import Callable
from typing import Any

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import State, Step, Timer
from tests.kit.membership import ME, OTHER_NODE, Play, member
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
from tests.unit.coordinator.membership.takeover.takeover_scenes import (
    BAD,
    FENCED,
    FOUR,
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
    paced,
    pacing,
    parked,
    shrinking,
    with_bellwether,
)

HANDED_BACK = membership.HandBackRemembered(60.0, "an earlier one", waits=True)


QUIET: dict[str, Any] = {**STATIC, "leave_on_stop": False}


SCENARIOS: dict[Any, dict[Any, dict[Any, Callable[[], Play]]]] = {
    State.WATCHING: {
        membership.CoordinatorAnswer: {State.STOPPED: lambda: Play().coordinator_found(error=INVALID)},
        membership.DescribeAnswer: {
            State.JOINING: lambda: Play().joining(),
            State.APPROACHING: lambda: has_waited(Play(adopt="succeed").coordinator_found()),
            State.WATCHING: lambda: Play().coordinator_found().described(error=UNKNOWN),
            State.STOPPED: lambda: Play().coordinator_found().described(error=INVALID),
        },
        membership.ComparisonReady: {State.APPROACHING: dry_run_done},
        membership.DeathsProven: {State.APPROACHING: before_removal},
        membership.StopRequested: {State.STOPPED: lambda: Play().send(STOP)},
    },
    State.APPROACHING: {
        membership.JoinAnswer: {
            State.JOINING: lambda: answered(given(dry_run_done(), GOOD), GOOD),
            State.LEAVING: lambda: given(dry_run_done(), GOOD).refused(UNKNOWN),
            State.WATCHING: lambda: dry_run_done().refused(LOADING),
            State.STOPPED: lambda: dry_run_done().refused(INVALID),
        },
        membership.SyncAnswer: {
            State.LEAVING: lambda: answered(given(dry_run_done(), GOOD), LEADER).synced(UNKNOWN),
            State.WATCHING: lambda: follower(instance_takeover()).synced(FENCED),
            State.STOPPED: lambda: answered(given(dry_run_done(), GOOD), LEADER).synced(FENCED),
        },
        membership.LeaveAnswer: {
            State.LEAVING: lambda: evicted(dynamic_until_named(), UNEXPECTED),
            State.WATCHING: lambda: evicted(follower(instance_takeover()).synced(), FENCED),
            State.STOPPED: lambda: evicted(dynamic_until_named(), FENCED),
        },
        membership.DescribeAnswer: {
            State.LEAVING: lambda: evicted(dynamic_until_named()).described("", error=NOT_COORDINATOR),
            State.WATCHING: lambda: removing(instance_takeover()).described("", error=FENCED),
            State.STOPPED: lambda: evicted(dynamic_until_named()).described("", error=FENCED),
        },
        membership.RequestFailed: {
            State.LEAVING: lambda: given(dry_run_done(), GOOD).failed(membership.Join),
            State.WATCHING: lambda: dry_run_done().failed(membership.Join),
        },
        membership.OrdersInForce: {
            State.LEAVING: lambda: parked().send(LEAVE),
            State.WATCHING: lambda: dry_run_done().send(LEAVE),
        },
        membership.HandBackRemembered: {
            State.LEAVING: lambda: parked().send(HANDED_BACK),
            State.WATCHING: lambda: dry_run_done().send(HANDED_BACK),
        },
        membership.StopRequested: {
            State.LEAVING: lambda: parked().send(STOP),
            State.STOPPED: lambda: dry_run_done().send(STOP),
        },
        Timer.TAKEOVER: {State.WATCHING: lambda: gathering().wake()},
    },
    State.JOINING: {
        membership.CoordinatorAnswer: {
            State.LEAVING: lambda: search_refused(rejoining(Play())),
            State.STOPPED: lambda: search_refused(Play().joining(), membership.Join),
        },
        membership.JoinAnswer: {
            State.DECIDING: lambda: Play().deciding(),
            State.SYNCING: lambda: Play().joining().joined(member(ME)),
            State.JOINING: lambda: Play().joining().refused(REBALANCE),
            State.LEAVING: lambda: Play().joining().joined(leader="somebody"),
            State.WATCHING: lambda: Play().joining().refused(UNKNOWN),
            State.STOPPED: lambda: Play().joining().refused(INVALID),
        },
        membership.HeartbeatAnswer: heartbeats(rejoining),
        membership.RequestFailed: {
            State.LEAVING: lambda: rejoining(Play()).failed(membership.Join, MALFORMED),
            State.WATCHING: lambda: Play().joining().failed(membership.Join, MALFORMED),
        },
        membership.OrdersInForce: {
            State.LEAVING: lambda: Play(**STATIC).joining().send(LEAVE),
            State.WATCHING: lambda: Play().joining().send(LEAVE),
        },
        membership.HandBackRemembered: {
            State.LEAVING: lambda: Play(**STATIC).joining().send(HANDED_BACK),
            State.WATCHING: lambda: Play().joining().send(HANDED_BACK),
        },
        Timer.LEAVE: {State.LEAVING: lambda: until(stopping_while_joining(), membership.Leave)},
        membership.StopRequested: {
            State.LEAVING: lambda: Play(**STATIC).joining().send(STOP),
            State.STOPPED: lambda: Play().joining().send(STOP),
        },
    },
    State.DECIDING: {
        membership.DecisionReady: {
            State.SYNCING: lambda: Play().deciding().planned(),
            State.JOINING: lambda: Play().deciding().later(11).planned(),
            State.LEAVING: lambda: stopping_while_deciding().later(11).planned(generation=2),
        },
        membership.DecisionFailed: {State.LEAVING: lambda: Play().deciding().send(membership.DecisionFailed(1, "no"))},
        Timer.DECISION: {State.LEAVING: lambda: until(Play().deciding(), membership.Leave)},
        Timer.LEAVE: {State.LEAVING: lambda: until(stopping_while_deciding_late(), membership.Leave)},
        membership.Wake: {
            State.JOINING: lambda: Play().deciding().later(11).wake(),
            State.LEAVING: lambda: stopping_while_deciding().later(11).wake(),
        },
        membership.CoordinatorAnswer: {State.LEAVING: lambda: search_refused(Play().deciding())},
        membership.HeartbeatAnswer: {
            **heartbeats(Play.deciding),
            State.JOINING: lambda: heartbeat(Play().deciding(), REBALANCE),
            State.COALESCING: lambda: heartbeat(Play(coalesce_running_ms=500).deciding(), REBALANCE),
        },
        membership.RequestFailed: {State.LEAVING: lambda: unsupported(Play(**IMPATIENT).deciding())},
        membership.OrdersInForce: {State.LEAVING: lambda: Play().deciding().send(LEAVE)},
        membership.HandBackRemembered: {State.LEAVING: lambda: Play().deciding().send(HANDED_BACK)},
        membership.StopRequested: {State.LEAVING: lambda: Play().deciding().send(STOP)},
    },
    State.SYNCING: {
        membership.SyncAnswer: {
            State.STABLE: lambda: syncing(Play()).synced(),
            State.JOINING: lambda: syncing(Play()).synced(REBALANCE),
            State.LEAVING: lambda: syncing(Play(**IMPATIENT)).synced(UNEXPECTED),
            State.WATCHING: lambda: syncing(Play()).synced(UNKNOWN),
            State.STOPPED: lambda: syncing(Play()).synced(FENCED),
        },
        membership.CoordinatorAnswer: {
            State.LEAVING: lambda: search_refused(syncing(Play())),
            State.JOINING: lambda: searching(syncing(Play())).coordinator_found(OTHER_NODE),
        },
        membership.HeartbeatAnswer: heartbeats(syncing),
        membership.RequestFailed: {
            State.JOINING: lambda: syncing(Play()).failed(membership.Sync),
            State.LEAVING: lambda: syncing(Play(**IMPATIENT)).failed(membership.Sync, UNSUPPORTED),
        },
        Timer.LEAVE: {State.LEAVING: lambda: until(syncing(Play()).send(STOP), membership.Leave)},
        membership.OrdersInForce: {State.LEAVING: lambda: syncing(Play()).send(LEAVE)},
        membership.HandBackRemembered: {State.LEAVING: lambda: syncing(Play()).send(HANDED_BACK)},
    },
    State.STABLE: {
        membership.SyncAnswer: {
            State.JOINING: lambda: syncing(Play()).send(membership.RebalanceOrdered("an operator wants it")).synced(),
            State.LEAVING: lambda: syncing(Play()).send(STOP).synced(),
            State.STOPPED: lambda: syncing(Play(**QUIET)).send(STOP).synced(),
        },
        membership.HeartbeatAnswer: {
            **heartbeats(Play.stable),
            State.JOINING: lambda: heartbeat(Play().stable(), REBALANCE),
            State.COALESCING: lambda: coalescing(Play()),
        },
        membership.CoordinatorAnswer: {State.LEAVING: lambda: search_refused(Play().stable())},
        membership.RequestFailed: {State.LEAVING: lambda: unsupported(Play(**IMPATIENT).stable())},
        membership.RebalanceWanted: {
            State.JOINING: lambda: Play().stable().send(membership.RebalanceWanted("a topic", "topics"))
        },
        membership.ComparisonReady: {
            State.JOINING: lambda: Play().stable().send(membership.ComparisonReady(1, worth_moving=True))
        },
        Timer.REBALANCE: {
            State.JOINING: lambda: until(
                Play()
                .stable()
                .send(membership.RebalanceWanted("a topic", "topics"))
                .joined(member(ME), member("a"), generation=2)
                .planned(generation=2)
                .synced()
                .send(membership.RebalanceWanted("another topic", "topics")),
                membership.Join,
            )
        },
        Timer.FOLLOWUP: {
            State.JOINING: lambda: until(Play().deciding().planned(pending=True).synced(), membership.Join)
        },
        Timer.LINGER: {State.LEAVING: lambda: until(Play(linger_ms=1_000).stable_alone(), membership.Leave)},
        membership.RebalanceOrdered: {State.JOINING: lambda: rejoining(Play())},
        membership.HandBackRemembered: {State.LEAVING: lambda: Play().stable().send(HANDED_BACK)},
        membership.OrdersInForce: {
            State.JOINING: lambda: (
                Play().stable().send(PAUSE).send(membership.RebalanceWanted("a topic", "topics")).send(NOTHING)
            ),
            State.LEAVING: lambda: leaving(Play()),
        },
        membership.StepAsideWanted: {
            State.LEAVING: lambda: Play().stable().send(membership.StepAsideWanted("no good"))
        },
        membership.StopRequested: {
            State.LEAVING: lambda: Play().stable().send(STOP),
            State.STOPPED: lambda: Play(**QUIET).stable().send(STOP),
        },
    },
    State.COALESCING: {
        Timer.COALESCE: {
            State.JOINING: lambda: until(heartbeat(Play(coalesce_running_ms=500).stable(), REBALANCE), membership.Join),
        },
        membership.DescribeAnswer: {State.JOINING: lambda: coalescing(Play()).described(error=NOT_COORDINATOR)},
        membership.Wake: {State.JOINING: lambda: coalescing(Play()).later(11).wake()},
        membership.CoordinatorAnswer: {State.LEAVING: lambda: search_refused(coalescing(Play()))},
        membership.HeartbeatAnswer: heartbeats(coalescing),
        membership.RequestFailed: {
            State.JOINING: lambda: coalescing(Play()).failed(membership.Describe),
            State.LEAVING: lambda: coalescing(Play(**IMPATIENT)).failed(membership.Describe, UNSUPPORTED),
        },
        membership.OrdersInForce: {State.LEAVING: lambda: coalescing(Play()).send(LEAVE)},
        membership.HandBackRemembered: {State.LEAVING: lambda: coalescing(Play()).send(HANDED_BACK)},
        membership.StopRequested: {State.LEAVING: lambda: coalescing(Play()).send(STOP)},
    },
    State.LEAVING: {
        membership.LeaveAnswer: {
            State.WATCHING: lambda: leaving(Play()).left(),
            State.STOPPED: lambda: Play().stable().send(STOP).left(),
        },
        Timer.LEAVE: {
            State.WATCHING: lambda: leaving(Play()).wake(),
            State.STOPPED: lambda: Play().stable().send(STOP).wake(),
        },
        membership.CoordinatorAnswer: {State.STOPPED: lambda: search_refused(leaving(Play()), membership.Leave)},
        membership.RequestFailed: {
            State.WATCHING: lambda: leaving(Play()).failed(membership.Leave, UNSUPPORTED),
            State.STOPPED: lambda: Play().stable().send(STOP).failed(membership.Leave, UNSUPPORTED),
        },
        membership.OrdersInForce: {
            State.WATCHING: lambda: Play(**STATIC).joining().send(LEAVE).send(membership.OrdersInForce("again", "")),
            State.STOPPED: lambda: Play(**STATIC).joining().send(STOP).send(LEAVE),
        },
    },
    Step.PACING: {
        membership.DescribeAnswer: {
            Step.BARRING: lambda: dry_run_done(**STATIC),
            Step.GATHERING: lambda: gathering(**STATIC),
        },
        membership.JoinAnswer: {
            Step.BARRING: lambda: paced(pacing(**STATIC), described_first=True),
            Step.GATHERING: lambda: paced(
                pacing(members=FOUR, size_limit=membership.SizeLimit(1_000), **STATIC), FOUR, described_first=True
            ),
        },
    },
    Step.GATHERING: {
        membership.JoinAnswer: {Step.ROLLING: gathered, Step.BARRING: lambda: gathered(**STATIC)},
    },
    Step.GROWING: {
        membership.DescribeAnswer: {Step.SHRINKING: shrinking},
        membership.JoinAnswer: {Step.SHRINKING: refused_temporary},
    },
    Step.SHRINKING: {
        membership.LeaveAnswer: {
            Step.PARKED: lambda: evicted(shrinking()),
            Step.PARKING: lambda: evicted(shrinking(**STATIC)),
        },
    },
    Step.ROLLING: {
        membership.JoinAnswer: {
            Step.GROWING: growing,
            Step.CLEARING: lambda: given(given(dry_run_done(), BAD), GOOD),
            Step.PARKED: lambda: given(dry_run_done(), GOOD),
            **named(dry_run_done),
        },
    },
    Step.CLEARING: {
        membership.LeaveAnswer: {
            Step.GROWING: lambda: evicted(given(given(gathered(), BAD), GOOD)),
            Step.PARKED: lambda: evicted(given(given(dry_run_done(), BAD), GOOD)),
        },
    },
    Step.BARRING: {membership.JoinAnswer: {Step.PARKING: parked, Step.GROWING: lambda: growing(**STATIC)}},
    Step.PARKING: {
        membership.DescribeAnswer: {
            Step.PARKED: lambda: parked().wake().described("PreparingRebalance", *with_bellwether(GOOD)),
            Step.REPLACING: lambda: replacing()[0],
        },
        membership.JoinAnswer: named(parked),
    },
    Step.REPLACING: {
        membership.DescribeAnswer: {
            Step.PARKED: lambda: replacing()[0].described("PreparingRebalance", *with_bellwether(GOOD)),
        },
        membership.JoinAnswer: {Step.PARKING: replaced, **named(lambda: replacing()[0])},
    },
    Step.PARKED: {membership.JoinAnswer: named(lambda: given(dry_run_done(), GOOD))},
    Step.WORKING: {
        membership.SyncAnswer: {Step.HOLDING: dynamic_until_named},
        Timer.TAKEOVER: {Step.HOLDING: lambda: answered(given(dry_run_done(), GOOD), LEADER).wake()},
    },
    Step.REOPENING: {
        Timer.TAKEOVER: {Step.HOLDING: holding},
        membership.JoinAnswer: named(reopening),
    },
    Step.HOLDING: {
        membership.DescribeAnswer: {Step.RETURNING: returning},
        membership.JoinAnswer: named(holding),
    },
    Step.RETURNING: {membership.JoinAnswer: named(returning)},
}
