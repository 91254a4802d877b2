"""What the end of a member would cost, in seconds during which something that it has is without an owner: as the group
is, and with the guard or an evacuation. Pure.

    as it is      crash             session + heartbeat + restore(elsewhere)
                  restart, remove   the same, restart without restoring (its own disk); without the session where the
                                    member leaves the group when it stops
    with a guard                    GUARD_S + heartbeat + restore(elsewhere)
    evacuated                       heartbeat + restore(min(elsewhere, acceptable lag))

`elsewhere` is how many records the best copy outside of the member lacks, restore(n) is n / rate. All are upper bounds
of one partition or task, the worst one: others of the member wait at the same time. What was written since members have
told their lags is not in them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from bellwether_kafka.assignors.shared import EVERYTHING, Decision, GroupPlan, IntArray, Rule
from bellwether_kafka.assignors.streams.policies import STREAMS_HA

GUARD_S = 0.2  # from the end of a process to the removal of its members: docs/evidence/README.md#shortens-pauses
GUARD, EVACUATION = "guard", "evacuation"


class Ending(StrEnum):
    """How a member ends. RESTART: it is back before its session ends, with its disk. REMOVE: it stops for good."""

    RESTART = "restart"
    CRASH = "crash"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Pace:
    """What members are configured with, which is not on the wire, and how fast one copy restores (None: not known)."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    restore_records_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Outage:
    """`unowned_s`: until another member has it; `restoring_s`: until that owner has its state, None where nobody knows.
    `seconds` is the sum."""

    unowned_s: float
    restoring_s: float | None

    @property
    def seconds(self) -> float | None:
        return None if self.restoring_s is None else self.unowned_s + self.restoring_s


@dataclass(frozen=True, slots=True)
class AbsenceCost:
    """`items` are the partitions or tasks that the member has. `by` is what helps, "guard" or "evacuation", and
    `unhelped` why an evacuation would not. `restored` are the records that copies elsewhere read, before the member
    stops (evacuation) or after it; None where a lag is unknown. `beforehand_s`: how long an evacuation waits for them.
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
    ending: Ending, decision: Decision[GroupPlan], held: IntArray, member: int, pace: Pace = Pace()
) -> AbsenceCost:
    """Of the owner with this index, where `held` are the owners of all items now."""
    plan, owner = decision.plan, decision.plan.owners[member]
    outside = np.arange(len(plan.owners)) != member
    lacks = [None if lack < 0 else lack for lack in plan.state.lacking(outside)[held == member].tolist()]
    acceptable = plan.state.acceptable_lag
    unhelped = "" if ending is Ending.CRASH else _why_not_evacuated(decision, owner.key)
    evacuated = ending is not Ending.CRASH and not unhelped
    heartbeat_s = pace.heartbeat_interval_ms / 1000
    members_remain = ending is Ending.CRASH or plan.words.kind != "consumer" or owner.instance_id is not None
    detected_s, removed_s = (pace.session_timeout_ms / 1000, GUARD_S) if members_remain else (0.0, 0.0)
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


def dearest_crash(decision: Decision[GroupPlan], held: IntArray, pace: Pace = Pace()) -> AbsenceCost | None:
    """The crash that would cost most, by what is to be restored and then by items; None where nobody has anything."""
    owners, counts = np.unique(held[held >= 0], return_counts=True)
    if decision.plan.words.kind == "consumer":  # without state: it is dearest to lose who has most
        owners = owners[np.argsort(-counts, kind="stable")[:1]]
    costs = [absence_cost(Ending.CRASH, decision, held, owner, pace) for owner in owners.tolist()]
    unknown = float("inf")
    return max(costs, key=lambda c: (unknown if c.restored is None else c.restored, c.items), default=None)


def cost_document(cost: AbsenceCost) -> dict[str, Any]:
    """As JSON's values."""

    def outage(one: Outage) -> dict[str, Any]:
        return {"seconds": one.seconds, "unowned_s": one.unowned_s, "restoring_s": one.restoring_s}

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
    """As a part of a sentence, "" where it could be."""
    if decision.plan.words.kind == "streams" and decision.policy != STREAMS_HA:
        return f'the policy {decision.policy} ignores evacuations; set policy = "{STREAMS_HA}"'
    return decision.plan.infeasible(Rule("ban", EVERYTHING, f"member:{key}"), ())


def _outage(unowned_s: float, lacks: Sequence[int | None], pace: Pace) -> Outage:
    seconds = [_restoring_s(lack, pace) for lack in lacks]
    known = [each for each in seconds if each is not None]
    return Outage(unowned_s, max(known, default=0.0) if len(known) == len(seconds) else None)


def _restoring_s(lack: int | None, pace: Pace) -> float | None:
    if lack == 0:
        return 0.0
    rate = pace.restore_records_per_s
    return None if lack is None or not rate else lack / rate


def _in_turns(lacks: Sequence[int | None], at_once: int, pace: Pace) -> float | None:
    """How long copies need that are restored so many at a time, those that lack most first; each turn lasts as long as
    its first."""
    known = sorted((lack for lack in lacks if lack is not None), reverse=True)
    turns = [_restoring_s(lack, pace) for lack in known[:: max(1, at_once)]]
    seconds = [each for each in turns if each is not None]
    return sum(seconds, 0.0) if len(known) == len(lacks) and len(seconds) == len(turns) else None
