"""Why an instance stays out of a group that it could lead: it is not allowed to, a setback is not over, or it has
handed the lead back and lacks the proof that it may return."""

import zlib
from dataclasses import dataclass

from bellwether_kafka.coordinator.membership.config import MembershipConfig
from bellwether_kafka.coordinator.membership.events import VACANT, DescribeAnswer, OrdersInForce
from bellwether_kafka.coordinator.membership.lead_rules import holds_instance, is_missing
from bellwether_kafka.coordinator.membership.role import NotLeading, Obstacle

DAY_S = 86_400.0
SAME_S = 1.0  # hand-backs this close are the same one, timed by two clocks


def spread(group_id: str) -> float:
    """Returns a factor from 0.8 to 1.2, fixed per group, so that hundreds of groups do not retry at the same time."""
    return 0.8 + 0.4 * (zlib.crc32(group_id.encode()) % 1000) / 1000


def backed_off_ms(base_ms: float, failures: int, max_ms: float) -> float:
    return min(base_ms * 2.0 ** min(failures, 20), max_ms)


def _readopt_s(config: MembershipConfig, failures: int) -> float:
    """Returns for how many seconds to stay out of a group after this many failures in a row."""
    return backed_off_ms(config.readopt_ms, failures, config.readopt_ms_max) * spread(config.group_id) / 1000


class JoinTiming:
    """Decides when a watched group may be joined: only when no member notices, and after a growing wait between
    failures."""

    def __init__(self, config: MembershipConfig) -> None:
        self._config = config
        self._after = float("-inf")
        self._failures = 0
        self.setback: Obstacle | None = None  # the last setback, until Bellwether has led again

    def set_back(self, now: float, why: Obstacle, wait_s_max: float = float("inf")) -> None:
        self.setback = why
        self._after = now + min(_readopt_s(self._config, self._failures), wait_s_max)
        self._failures += 1

    def wait_until(self, at: float) -> None:
        self._after = max(self._after, at)

    def may_try_in(self, now: float) -> float:
        """Returns the seconds until the wait after a setback is over, 0 if there is none."""
        return max(0.0, self._after - now)

    def succeeded(self) -> None:
        self._failures = 0
        self.setback = None

    def asked_for(self) -> None:
        """Ends the wait, because an operator has ended the order that kept Bellwether out."""
        self.succeeded()
        self._after = float("-inf")

    def may_join(self, answer: DescribeAnswer, now: float, *, awaits_members: bool) -> str:
        """Returns the reason to join, "" to go on watching. `awaits_members`: do not join before another member has
        come."""
        if self.may_try_in(now):
            return ""
        if holds_instance(answer, self._config):
            return "its instance is still a member"
        empty = is_missing(answer) or answer.state in VACANT or not answer.members
        return "the group is empty" if empty and not awaits_members and self._config.adopt_empty else ""


class Permission:
    """Whether this instance is allowed to lead. `active` is False while another instance with the same instance id is
    to lead. `orders` are those of operators that are in force."""

    def __init__(self, config: MembershipConfig) -> None:
        self._config = config
        self.active = not config.standby
        self.orders = OrdersInForce(leave="", pause="")
        self._fences = 0

    def changed(self, *, active: bool) -> bool:
        """Sets `active`; returns True if this instance has just become active."""
        if not active:
            self._fences = 0
        gained = active and not self.active
        self.active = active
        return gained

    def fenced(self, *, expected: bool) -> float:
        """Records that another instance has replaced this one. Returns the seconds to stay out: 0 if the change was
        announced."""
        unexpected, self.active = self.active and not expected, False
        if not unexpected:
            return 0.0
        self._fences += 1
        return _readopt_s(self._config, self._fences - 1)


@dataclass(slots=True)
class HandBacks:
    """Handing the lead back because members do not work by Bellwether's plan, and the conditions for a return.

    `reason` is that of the last hand-back. `waits` is True until the proof that Bellwether may return. Times are
    seconds of the membership's clock. At most one hand-back a day, so that a mistake of the watch on work cannot change
    the leader repeatedly.
    """

    config: MembershipConfig
    reason: str = ""
    waits: bool = False
    lacks: str = ""  # what the last dry run has shown against a return
    _at: float | None = None

    def refusal(self, now: float) -> str:
        """Returns why the group is not handed back now, as part of a sentence; "" if it is."""
        if self.config.hand_back == "alert":
            return 'hand_back = "alert" keeps the lead'
        if self._at is not None and now - self._at < DAY_S:
            return "it has been handed back once within 24 hours, and is not a second time"
        return ""

    def begins(self, now: float, reason: str) -> None:
        self._at, self.reason, self.waits, self.lacks = now, reason, True, ""

    def remembered(self, now: float, ago_s: float, reason: str, *, waits: bool) -> None:
        """Records that an earlier process of Bellwether, or another instance, handed the group back `ago_s` seconds
        ago. Ignores reports of a hand-back older than the last known one."""
        at = now - ago_s
        if self._at is not None and at < self._at - SAME_S:
            return
        self._at, self.reason = at, reason
        self.waits, self.lacks = waits, self.lacks if waits else ""

    def over(self) -> None:
        """Ends the wait: the proof has come, or an operator has ordered Bellwether to lead."""
        self.waits, self.lacks = False, ""

    @property
    def obstacle(self) -> Obstacle:
        """Why Bellwether stays out; valid while `waits`."""
        lacks = f"; it stays out because {self.lacks}" if self.lacks else ""
        return Obstacle(NotLeading.HANDED_BACK, f"Bellwether has handed the lead back: {self.reason}{lacks}")
