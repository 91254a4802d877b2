"""Estimates for how many seconds partitions or tasks would lack a running owner if a member stopped: without help, with
the guard, and after an evacuation. Pure.

    as it is      crash             session + heartbeat + restore(elsewhere)
                  restart, remove   the same, restart without restoring (its own disk); without the session where the
                                    member leaves the group when it stops
    with a guard                    GUARD_S + heartbeat + restore(elsewhere)
    evacuated                       heartbeat + restore(min(elsewhere, acceptable lag))

`elsewhere` is the number of records that the best copy on another member lacks; restore(n) is n / rate. Each estimate
is an upper bound for the worst partition or task, since all wait at the same time. Records written after members
reported their lags are not counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict

import numpy as np

from bellwether_kafka.assignors.shared import EVERYTHING, Decision, GroupPlan, IntArray, Rule
from bellwether_kafka.assignors.streams.policies import STREAMS_HA

GUARD_S = 0.2  # from the end of a process to the removal of its members: docs/evidence/README.md#shortens-pauses
GUARD, EVACUATION = "guard", "evacuation"


class Ending(StrEnum):
    """How a member stops. RESTART: it returns with its disk before its session times out. REMOVE: it never returns."""

    RESTART = "restart"
    CRASH = "crash"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Pace:
    """Settings of the members, which brokers do not show, and how fast one copy restores (None if unknown)."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    restore_records_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Outage:
    """`unowned_s` is the time until another member owns the item; `restoring_s` the time until that member has its
    state, None if unknown. `seconds` is the sum."""

    unowned_s: float
    restoring_s: float | None

    @property
    def seconds(self) -> float | None:
        return None if self.restoring_s is None else self.unowned_s + self.restoring_s


@dataclass(frozen=True, slots=True)
class AbsenceCost:
    """The cost of one member's end. `items` is the number of its partitions or tasks. `by` is the remedy that `helped`
    assumes, "guard" or "evacuation"; `unhelped` is why an evacuation is impossible. `restored` is the number of records
    that other copies read, before the member stops (evacuation) or afterwards; None if a lag is unknown. `beforehand_s`
    is how long an evacuation waits for them.
    """

    ending: Ending
    member: str
    items: int
    as_it_is: Outage
    helped: Outage
    by: str
    unhelped: str = ""
    restored: int | None = 0
    beforehand_s: float | None = None


def absence_cost(
    ending: Ending, decision: Decision[GroupPlan], present: IntArray, member: int, pace: Pace = Pace()
) -> AbsenceCost:
    """Returns the cost for the owner with index `member`. `present` are the owners of all items."""
    plan, owner = decision.plan, decision.plan.owners[member]
    outside = np.arange(len(plan.owners)) != member
    lacks = [None if lack < 0 else lack for lack in plan.state.lacking(outside)[present == member].tolist()]
    acceptable = plan.state.acceptable_lag
    unhelped = "" if ending is Ending.CRASH else _why_not_evacuated(decision, owner.key)
    evacuated = ending is not Ending.CRASH and not unhelped
    heartbeat_s = pace.heartbeat_interval_ms / 1000
    members_remain = ending is Ending.CRASH or plan.words.kind != "consumer" or owner.instance_id is not None
    detected_s = pace.session_timeout_ms / 1000 if members_remain else 0.0
    removed_s = min(detected_s, GUARD_S) if owner.instance_id is None else detected_s  # no guard removes static members
    on_its_disk = ending is Ending.RESTART and members_remain
    as_it_is = _outage(detected_s + heartbeat_s, [0] if on_its_disk else lacks, pace)
    near = [acceptable if lack is None else min(lack, acceptable) for lack in lacks]
    helped = _outage(heartbeat_s, near, pace) if evacuated else _outage(removed_s + heartbeat_s, lacks, pace)
    late = [lack for lack in lacks if lack is None or lack > acceptable]
    return AbsenceCost(
        ending,
        owner.name,
        len(lacks),
        as_it_is,
        helped,
        EVACUATION if evacuated else GUARD,
        unhelped,
        None if None in lacks else sum(filter(None, lacks)),
        _in_turns(late, plan.state.warmups_at_once, pace) if evacuated else None,
    )


def costliest_crash(decision: Decision[GroupPlan], present: IntArray, pace: Pace = Pace()) -> AbsenceCost | None:
    """Returns the crash with the most records to restore, then with the most items; None if no item has an owner."""
    owners, counts = np.unique(present[present >= 0], return_counts=True)
    if decision.plan.words.kind == "consumer":  # without state, losing the owner of most items costs most
        owners = owners[np.argsort(-counts, kind="stable")[:1]]
    costs = [absence_cost(Ending.CRASH, decision, present, owner, pace) for owner in owners.tolist()]
    unknown = float("inf")
    return max(costs, key=lambda c: (unknown if c.restored is None else c.restored, c.items), default=None)


class OutageDocument(TypedDict):
    """`Outage` in JSON."""

    seconds: float | None
    unowned_s: float
    restoring_s: float | None


class AbsenceDocument(TypedDict):
    """`AbsenceCost` in JSON."""

    ending: str
    member: str
    items: int
    as_it_is: OutageDocument
    helped: OutageDocument
    by: str
    unhelped: str
    restored: int | None
    beforehand_s: float | None


def cost_document(cost: AbsenceCost) -> AbsenceDocument:
    """Returns the cost as values for JSON."""

    def outage(case: Outage) -> OutageDocument:
        return {"seconds": case.seconds, "unowned_s": case.unowned_s, "restoring_s": case.restoring_s}

    return {
        "ending": cost.ending.value,
        "member": cost.member,
        "items": cost.items,
        "as_it_is": outage(cost.as_it_is),
        "helped": outage(cost.helped),
        "by": cost.by,
        "unhelped": cost.unhelped,
        "restored": cost.restored,
        "beforehand_s": cost.beforehand_s,
    }


def _why_not_evacuated(decision: Decision[GroupPlan], key: str) -> str:
    """Returns why the owner cannot be evacuated, as part of a sentence; "" if it can."""
    if decision.plan.words.kind == "streams" and decision.policy != STREAMS_HA:
        return f'the policy {decision.policy} ignores evacuations; set policy = "{STREAMS_HA}"'
    return decision.plan.infeasible(Rule("ban", EVERYTHING, f"member:{key}"), ())


def _outage(unowned_s: float, lacks: Sequence[int | None], pace: Pace) -> Outage:
    seconds = [_restoring_s(lack, pace) for lack in lacks]
    restoring = [each for each in seconds if each is not None]
    return Outage(unowned_s, max(restoring, default=0.0) if len(restoring) == len(seconds) else None)


def _restoring_s(lack: int | None, pace: Pace) -> float | None:
    if lack == 0:
        return 0.0
    rate = pace.restore_records_per_s
    return None if lack is None or not rate else lack / rate


def _in_turns(lacks: Sequence[int | None], at_once: int, pace: Pace) -> float | None:
    """Returns how many seconds it takes to restore copies, `at_once` at a time and the largest first. Each batch takes
    as long as its first copy. None if a lag or the rate is unknown."""
    lags = sorted((lack for lack in lacks if lack is not None), reverse=True)
    turns = [_restoring_s(lack, pace) for lack in lags[:: max(1, at_once)]]
    seconds = [each for each in turns if each is not None]
    return sum(seconds, 0.0) if len(lags) == len(lacks) and len(seconds) == len(turns) else None
