"""Whether Bellwether leads a group and, if not, why, since when, and when it tries again.

`/api`, `/readyz`, metrics, page, `top` and logs all report this value. It follows only from the brokers' latest
answers: a leader that has received none for a session timeout no longer leads, because the broker has expelled it by
then.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple


class NotLeading(StrEnum):
    """Why Bellwether does not lead a group that is configured to be led."""

    STARTING = "starting"
    UNREACHABLE = "unreachable"
    EMPTY = "empty"
    UNKNOWN_GROUP = "unknown_group"
    NO_SUBSCRIBERS = "no_subscribers"
    JOINING = "joining"
    TAKING_OVER = "taking_over"
    REBALANCING = "rebalancing"
    MEMBER_LEADS = "member_leads"
    UNDECLARED = "undeclared"
    BLOCKED = "blocked"
    NO_PLAN = "no_plan"
    SET_BACK = "set_back"
    HANDED_BACK = "handed_back"
    LEAVING = "leaving"
    ORDERED_OUT = "ordered_out"
    STANDBY = "standby"
    FENCED = "fenced"
    CONVERTED = "converted"
    UNFIT = "unfit"
    DENIED = "denied"
    STOPPED = "stopped"
    FAILED = "failed"


REMEDIES: Mapping[NotLeading, str] = {
    NotLeading.STARTING: "Wait: the group has not been described yet.",
    NotLeading.UNREACHABLE: "Check the brokers, the network and bootstrap.servers; Bellwether keeps trying.",
    NotLeading.EMPTY: "Nothing to do: Bellwether leads once members join.",
    NotLeading.UNKNOWN_GROUP: "Check the name of the group; if its application is yet to start, nothing is to be done.",
    NotLeading.NO_SUBSCRIBERS: "If its members subscribe (no assign()), set subscribes = true; else Bellwether joins"
    " once members do.",
    NotLeading.JOINING: "Wait: the broker holds the rebalance open until its members are back.",
    NotLeading.TAKING_OVER: "Wait: this takes seconds.",
    NotLeading.REBALANCING: "Wait: Bellwether takes a group over when it is Stable.",
    NotLeading.MEMBER_LEADS: (
        'With adopt = "when-empty", set "succeed" or "take-over"; otherwise restart the instances one after another, as'
        " `bellwether doctor` says."
    ),
    NotLeading.UNDECLARED: "Add the declaration that is named to the group's settings.",
    NotLeading.BLOCKED: "Do what the reason says, or stop all members for a moment.",
    NotLeading.NO_PLAN: "Fix what the reason names; `bellwether doctor` has the details. Bellwether keeps trying.",
    NotLeading.SET_BACK: "Wait: Bellwether tries again by itself, at the time of the next attempt; `bellwether leave`"
    " and then `bellwether resume` have it try at once.",
    NotLeading.HANDED_BACK: "Compare the topology file with `Topology.describe()`. Bellwether returns when its own plan"
    " would differ no more, or after `bellwether leave` and `bellwether resume`.",
    NotLeading.LEAVING: "Wait: a member takes over.",
    NotLeading.ORDERED_OUT: "End the order with `bellwether resume`.",
    NotLeading.STANDBY: "Nothing to do: another instance leads the group, and this one takes over when it stops.",
    NotLeading.FENCED: "Give each process an instance_id of its own, or set standby = true; then restart this one.",
    NotLeading.CONVERTED: 'Set group.protocol=classic in its members, or mode = "observe" in the group\'s settings.',
    NotLeading.UNFIT: "Correct the setting that the reason names, then restart.",
    NotLeading.DENIED: "Do what the reason says: grant the ACL, correct the credentials or make room; Bellwether keeps"
    " trying.",
    NotLeading.STOPPED: "Start Bellwether again.",
    NotLeading.FAILED: "Report the error in the log, then restart.",
}


class Obstacle(NamedTuple):
    """What keeps Bellwether from leading: the reason, and a sentence that explains it."""

    reason: NotLeading
    sentence: str


@dataclass(frozen=True, slots=True)
class Role:
    """Whether Bellwether leads. `reason` is None while it does. `detail` explains the reason. `since` and
    `next_attempt` are seconds on the machine's clock. `next_attempt` is None if no attempt is due: Bellwether leads, an
    attempt is under way, or something else must change first."""

    reason: NotLeading | None = NotLeading.STARTING
    detail: str = "the group has not been described yet"
    since: float = 0.0
    next_attempt: float | None = None

    @property
    def leading(self) -> bool:
        return self.reason is None

    @property
    def remedy(self) -> str:
        return REMEDIES[self.reason] if self.reason is not None else ""

    def followed_by(self, now: "Role") -> "Role":
        """Returns `now`, but with the `since` of this role if the reason has not changed."""
        return replace(now, since=self.since) if now.reason is self.reason else now
