"""The states of a membership, the steps of a take-over, and every edge between them.

The machines follow these tables: an event is handled only in the states that list it, or in any state if it is one of
IN_ANY_STATE, and `Position.go`, the only statement that changes a state, takes only edges that are declared here. {} is
for an event that is handled and leads nowhere. docs/internals/states.md is generated from the tables.

An edge that is not declared is a bug in this program. `GroupMembership` never raises for it: it leaves the group with
an alert, so that a member leads.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from bellwether_kafka.coordinator.membership import events
from bellwether_kafka.coordinator.membership.requests import Timer

S = TypeVar("S", bound=Enum)
INTERNAL_ERROR = "internal error: "  # prefix of the alert about an undeclared edge; tests search for it


class UndeclaredEdgeError(Exception):
    """Raised when a machine is about to take an edge that its table does not have."""


Trigger = type[events.Event] | type[UndeclaredEdgeError] | Timer
# For each state and each trigger: the states that may follow, and why.
Transitions = Mapping[S, Mapping[Trigger, Mapping[S, str]]]


class State(Enum):
    """States of a membership; the values are their descriptions."""

    WATCHING = "not a member; the group is described from time to time and joined only when that disturbs no member"
    APPROACHING = "joins a group that a member leads, to take the lead: the steps of a take-over"
    JOINING = "joins the next generation; JoinGroup is under way, or about to be"
    DECIDING = "leads a generation that has no assignment yet"
    SYNCING = "has sent the assignment to the broker"
    STABLE = "leads"
    COALESCING = "a rebalance has begun, and Bellwether holds it open for a moment, so that more changes fit in"
    LEAVING = "has sent LeaveGroup, or is about to"
    STOPPED = "the end"


class Step(Enum):
    """Steps of a take-over; the values are their descriptions."""

    PACING = "measures how fast ids can be tried, while the group is Stable"
    GATHERING = "reserves ids for temporary members, while the group is Stable"
    GROWING = "temporary members join the rebalance, so that the broker's table of members grows"
    SHRINKING = "temporary members leave; the table does not shrink"
    ROLLING = "requests member ids until one sorts first"
    CLEARING = "gives ids back that are not needed"
    BARRING = "reserves the blocker, a pending id that holds the rebalance open"
    PARKING = "in the rebalance; Bellwether's own id has not been seen yet"
    REPLACING = "in the rebalance; joins again, to get another id under the same instance id"
    PARKED = "in the rebalance with an id that sorts first; waits for the end of the rebalance"
    WORKING = "has sent SyncGroup as a follower, because the leader's assignment must take effect first"
    REOPENING = "in a second rebalance with a blocker, which the other members join"
    HOLDING = "the leader has been removed, and Bellwether holds the rebalance open until that member is back"
    RETURNING = "waits for the answer to its last JoinGroup"


@dataclass(frozen=True, slots=True)
class Edge(Generic[S]):
    state: S
    on: Trigger
    to: S


OnEdge = Callable[[Edge[Any]], None]


def ignore_edge(_: Edge[Any]) -> None:
    pass


def trigger_name(on: Trigger) -> str:
    return f"timer {on.name}" if isinstance(on, Timer) else on.__name__


class Position(Generic[S]):
    """The current state of a machine. `trigger` is the event being handled, which its handler sets."""

    trigger: Trigger

    def __init__(self, transitions: Transitions[S], start: S, on_edge: OnEdge) -> None:
        self.state = start
        self.on_edge = on_edge
        self._transitions = transitions

    def go(self, to: S) -> None:
        edge = Edge(self.state, self.trigger, to)
        declared = to in self._transitions.get(self.state, {}).get(self.trigger, {})
        if not declared and self.trigger is not UndeclaredEdgeError:  # handling such an error may take any edge
            raise UndeclaredEdgeError(f"{trigger_name(edge.on)} in {self.state.name} does not lead to {to.name}")
        self.state = to
        self.on_edge(edge)


NOTHING_TO_LEAVE = "the error is fatal, and there is nothing to leave"
NEVER_WORKS = "the error is fatal"
TOO_LONG_UNEXPLAINED = "refusals or unexplained errors have lasted too long"
ORDER = "an operator has ordered Bellwether to leave"
ORDER_EARLY = "an operator has ordered Bellwether to leave, and there is nothing to leave"
HANDED_BACK = "an earlier process has handed the lead back, and nothing has shown yet that Bellwether may return"
HANDED_BACK_EARLY = f"{HANDED_BACK}: there is nothing to leave"
STOP = "Bellwether is shutting down"
STOP_SILENTLY = "Bellwether is shutting down, and its session keeps its membership"
STOP_LATE = "Bellwether is shutting down, and what it waited for has not come"
STOP_EARLY = "Bellwether is shutting down, and there is nothing to leave"
SESSION_OVER = "woke up after its session had expired"
FATAL_OR_FENCED = "the error is fatal, or its instance id has been taken: there is nothing to leave"
THROWN_OUT = {State.WATCHING: "another instance of Bellwether has its instance id", State.STOPPED: FATAL_OR_FENCED}
EXPELLED = {State.WATCHING: "no longer a member", State.STOPPED: FATAL_OR_FENCED}

IN_ANY_STATE: frozenset[Trigger] = frozenset(
    {
        events.StopRequested,
        events.OrdersInForce,
        events.ActiveRoleChanged,
        events.OffsetsFound,
        events.LeadRemembered,
        events.HandBackRemembered,
        events.SizeLimitRead,
    }
)
MEMBERSHIP: Transitions[State] = {
    State.WATCHING: {
        events.CoordinatorAnswer: {State.STOPPED: NOTHING_TO_LEAVE},
        events.DescribeAnswer: {
            State.JOINING: "the group is empty, or its instance is still a member",
            State.APPROACHING: "a rebalance waits for a member that does not come, perhaps the leader",
            State.WATCHING: "the broker answers that Bellwether is not a member, or is fenced",
            State.STOPPED: "Bellwether can never lead this group",
        },
        events.OffsetsRead: {},
        events.ComparisonFailed: {},
        events.ComparisonReady: {State.APPROACHING: "the dry run of a plan for a group that a member leads has ended"},
        events.DeathsProven: {State.APPROACHING: "dead members are about to be removed, perhaps the leader"},
        events.StopRequested: {State.STOPPED: STOP_EARLY},
    },
    State.APPROACHING: {
        events.JoinAnswer: {
            State.JOINING: "the answer names Bellwether as the leader; it is handled as in JOINING",
            State.LEAVING: "another member leads and may not be removed, or the broker refuses",
            State.WATCHING: "no id sorts first, or the broker refuses, before Bellwether is in the rebalance",
            State.STOPPED: FATAL_OR_FENCED,
        },
        events.SyncAnswer: {State.LEAVING: "refused as a follower", **THROWN_OUT},
        events.LeaveAnswer: {State.LEAVING: "the leader cannot be removed", **THROWN_OUT},
        events.DescribeAnswer: {State.LEAVING: "no member can be seen, or no id sorts first in time", **THROWN_OUT},
        events.RequestFailed: {
            State.LEAVING: "a request got no answer",
            State.WATCHING: "a request got no answer, before Bellwether is in the rebalance",
        },
        events.OrdersInForce: {State.LEAVING: ORDER, State.WATCHING: ORDER_EARLY},
        events.HandBackRemembered: {State.LEAVING: HANDED_BACK, State.WATCHING: HANDED_BACK_EARLY},
        events.StopRequested: {State.LEAVING: STOP, State.STOPPED: STOP_EARLY},
        Timer.TAKEOVER: {State.WATCHING: "the broker gives no ids to temporary members"},
    },
    State.JOINING: {
        events.CoordinatorAnswer: {State.LEAVING: NEVER_WORKS, State.STOPPED: NOTHING_TO_LEAVE},
        events.JoinAnswer: {
            State.DECIDING: "the answer names Bellwether as the leader of other members",
            State.SYNCING: "the answer names Bellwether as the leader of no other member, or of an unchanged group",
            State.JOINING: "the generation is outdated",
            State.LEAVING: "another member leads, the group is empty or has been converted, or Bellwether gives up",
            **EXPELLED,
        },
        events.HeartbeatAnswer: {State.LEAVING: TOO_LONG_UNEXPLAINED, **EXPELLED},
        events.RequestFailed: {
            State.LEAVING: "the answer to JoinGroup cannot be read, or no request can be made",
            State.WATCHING: "the answer to the first JoinGroup cannot be read, or no request can be made",
        },
        Timer.LEAVE: {State.LEAVING: STOP_LATE},
        events.OrdersInForce: {State.LEAVING: ORDER, State.WATCHING: ORDER_EARLY},
        events.HandBackRemembered: {State.LEAVING: HANDED_BACK, State.WATCHING: HANDED_BACK_EARLY},
        events.StopRequested: {State.LEAVING: STOP, State.STOPPED: STOP_EARLY},
    },
    State.DECIDING: {
        events.DecisionReady: {
            State.SYNCING: "the plan is ready",
            State.JOINING: "the plan comes after the session has expired",
            State.LEAVING: "the plan comes after the session has expired, while Bellwether is shutting down",
        },
        events.DecisionFailed: {State.LEAVING: "no plan may be sent"},
        events.RebalanceWanted: {},
        events.RebalanceOrdered: {},
        Timer.DECISION: {State.LEAVING: "no plan before the deadline"},
        Timer.LEAVE: {State.LEAVING: STOP_LATE},
        events.Wake: {State.JOINING: SESSION_OVER, State.LEAVING: "the session has expired during the shutdown"},
        events.CoordinatorAnswer: {State.LEAVING: NEVER_WORKS},
        events.HeartbeatAnswer: {
            State.JOINING: "a rebalance has begun",
            State.COALESCING: "a rebalance has begun, and more changes may follow",
            State.LEAVING: "the generation is outdated during the shutdown, or Bellwether gives up",
            **EXPELLED,
        },
        events.RequestFailed: {State.LEAVING: TOO_LONG_UNEXPLAINED},
        events.OrdersInForce: {State.LEAVING: ORDER},
        events.HandBackRemembered: {State.LEAVING: HANDED_BACK},
        events.StopRequested: {State.LEAVING: STOP},
    },
    State.SYNCING: {
        events.RebalanceWanted: {},
        events.RebalanceOrdered: {},
        events.SyncAnswer: {
            State.STABLE: "the broker has the plan",
            State.JOINING: "the generation is outdated, or it is unknown whether the broker has the plan",
            State.LEAVING: "the generation is outdated during the shutdown, or Bellwether gives up",
            **EXPELLED,
        },
        events.CoordinatorAnswer: {
            State.JOINING: "the coordinator node has moved: the next rebalance shows whether the broker has the plan",
            State.LEAVING: NEVER_WORKS,
        },
        events.HeartbeatAnswer: {State.LEAVING: TOO_LONG_UNEXPLAINED, **EXPELLED},
        events.RequestFailed: {
            State.JOINING: "it is unknown whether the broker has the plan: the next rebalance shows it",
            State.LEAVING: TOO_LONG_UNEXPLAINED,
        },
        Timer.LEAVE: {State.LEAVING: STOP_LATE},
        events.OrdersInForce: {State.LEAVING: ORDER},
        events.HandBackRemembered: {State.LEAVING: HANDED_BACK},
    },
    State.STABLE: {
        events.SyncAnswer: {
            State.JOINING: "another rebalance is needed",
            State.LEAVING: "no other member is in the group, or a stop has been requested meanwhile",
            State.STOPPED: "a stop has been requested meanwhile, and the session keeps the membership",
        },
        events.HeartbeatAnswer: {
            State.JOINING: "a rebalance has begun",
            State.COALESCING: "a rebalance has begun, and more changes may follow",
            State.LEAVING: TOO_LONG_UNEXPLAINED,
            **EXPELLED,
        },
        events.CoordinatorAnswer: {State.LEAVING: NEVER_WORKS},
        events.RequestFailed: {State.LEAVING: TOO_LONG_UNEXPLAINED},
        events.RebalanceWanted: {
            State.JOINING: "a rebalance is wanted, and the interval since the last one has passed"
        },
        events.ComparisonReady: {State.JOINING: "another plan is worth a rebalance"},
        Timer.REBALANCE: {State.JOINING: "a rebalance that is wanted may begin"},
        Timer.FOLLOWUP: {State.JOINING: "pending partitions are to be handed out"},
        Timer.LINGER: {State.LEAVING: "no other member has been in the group for long"},
        events.RebalanceOrdered: {State.JOINING: "an operator has ordered a rebalance"},
        events.OrdersInForce: {State.JOINING: "a pause has ended, and a rebalance is wanted", State.LEAVING: ORDER},
        events.HandBackRemembered: {State.LEAVING: HANDED_BACK},
        events.WorkSuspected: {},
        events.StepAsideWanted: {State.LEAVING: "a member should lead"},
        events.StopRequested: {State.LEAVING: STOP, State.STOPPED: STOP_SILENTLY},
    },
    State.COALESCING: {
        Timer.COALESCE: {State.JOINING: "the time to wait is over"},
        events.DescribeAnswer: {State.JOINING: "no member has come for a while, or members cannot be counted"},
        events.Wake: {State.JOINING: SESSION_OVER},
        events.CoordinatorAnswer: {State.LEAVING: NEVER_WORKS},
        events.HeartbeatAnswer: {State.LEAVING: TOO_LONG_UNEXPLAINED, **EXPELLED},
        events.RequestFailed: {State.JOINING: "members cannot be counted", State.LEAVING: TOO_LONG_UNEXPLAINED},
        events.OrdersInForce: {State.LEAVING: ORDER},
        events.HandBackRemembered: {State.LEAVING: HANDED_BACK},
        events.StopRequested: {State.LEAVING: STOP},
    },
    State.LEAVING: {
        events.LeaveAnswer: {
            State.WATCHING: "Bellwether has left the group",
            State.STOPPED: "Bellwether has left the group, and shuts down",
        },
        Timer.LEAVE: {
            State.WATCHING: "no answer in time: the session will end",
            State.STOPPED: "no answer in time: the session will end, and Bellwether shuts down",
        },
        events.CoordinatorAnswer: {State.STOPPED: NOTHING_TO_LEAVE},
        events.RequestFailed: {
            State.WATCHING: "the broker has no LeaveGroup that Bellwether can send",
            State.STOPPED: "the broker has no LeaveGroup that Bellwether can send, and Bellwether shuts down",
        },
        events.OrdersInForce: {
            State.WATCHING: "ordered again, and the broker has given it no id to leave with",
            State.STOPPED: "ordered again during the shutdown, and the broker has given it no id to leave with",
        },
    },
}

NO_OWN_LEAD = {
    Step.HOLDING: "another member leads a Streams application: it has been removed at once",
    Step.REOPENING: "another member leads a cooperative group: all join a second rebalance before it is removed",
    Step.WORKING: "another member leads an eager group: its assignment must take effect first",
}

GROW = "Bellwether has the id that holds the rebalance open"

TAKEOVER: Transitions[Step] = {
    Step.PACING: {
        event: {
            Step.GATHERING: "ids can be tried fast enough; the broker's table of members has to grow",
            Step.BARRING: "ids can be tried fast enough; Bellwether needs a blocker",
        }
        for event in (events.JoinAnswer, events.DescribeAnswer)
    },
    Step.GATHERING: {
        events.JoinAnswer: {
            Step.ROLLING: "all temporary members have ids; Bellwether needs its own",
            Step.BARRING: "all temporary members have ids; Bellwether needs a blocker",
        }
    },
    Step.GROWING: {
        events.DescribeAnswer: {Step.SHRINKING: "the broker lists all temporary members, or the time to wait is over"},
        events.JoinAnswer: {Step.SHRINKING: "the broker refuses a temporary member"},
    },
    Step.SHRINKING: {
        events.LeaveAnswer: {
            Step.PARKED: "temporary members have left, and Bellwether has an id that sorts first",
            Step.PARKING: "temporary members have left, and Bellwether joins under its instance id",
        }
    },
    Step.ROLLING: {
        events.JoinAnswer: {
            Step.CLEARING: "Bellwether gives back ids that it does not need",
            Step.GROWING: GROW,
            Step.PARKED: "the id sorts first",
            **NO_OWN_LEAD,
        }
    },
    Step.CLEARING: {
        events.LeaveAnswer: {
            Step.GROWING: GROW,
            Step.PARKED: "Bellwether has an id that sorts first",
        }
    },
    Step.BARRING: {events.JoinAnswer: {Step.GROWING: GROW, Step.PARKING: "the blocker is reserved"}},
    Step.PARKING: {
        events.DescribeAnswer: {
            Step.PARKED: "the id from the broker sorts first",
            Step.REPLACING: "the id from the broker does not sort first",
        },
        events.JoinAnswer: {**NO_OWN_LEAD},
    },
    Step.REPLACING: {
        events.DescribeAnswer: {Step.PARKED: "the new id from the broker sorts first"},
        events.JoinAnswer: {Step.PARKING: "the broker has replaced the old id", **NO_OWN_LEAD},
    },
    Step.PARKED: {events.JoinAnswer: {**NO_OWN_LEAD}},
    Step.WORKING: {
        events.SyncAnswer: {Step.HOLDING: "the leader's assignment is in effect: it has been removed"},
        Timer.TAKEOVER: {Step.HOLDING: "the leader's SyncGroup has not come in time: it has been removed"},
    },
    Step.REOPENING: {
        Timer.TAKEOVER: {Step.HOLDING: "the time for members to join has passed: the leader has been removed"},
        events.JoinAnswer: {**NO_OWN_LEAD},
    },
    Step.HOLDING: {
        events.DescribeAnswer: {
            Step.RETURNING: "the removed leader is back under another id, or the time to wait is over"
        },
        events.JoinAnswer: {**NO_OWN_LEAD},
    },
    Step.RETURNING: {events.JoinAnswer: {**NO_OWN_LEAD}},
}
