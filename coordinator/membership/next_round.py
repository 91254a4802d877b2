"""Heartbeats' answers, and the round that they call us into, which we may hold open for more members to come."""

from collections.abc import Callable
from dataclasses import dataclass

from bellwether_kafka.coordinator.membership.config import MembershipConfig
from bellwether_kafka.coordinator.membership.core import Core
from bellwether_kafka.coordinator.membership.errors import Action, Code, action_for
from bellwether_kafka.coordinator.membership.events import DescribeAnswer, HeartbeatAnswer
from bellwether_kafka.coordinator.membership.joining import Joining
from bellwether_kafka.coordinator.membership.leaving import Leaving
from bellwether_kafka.coordinator.membership.recovery import Recovery
from bellwether_kafka.coordinator.membership.requests import Kind, Timer
from bellwether_kafka.coordinator.membership.rules import is_missing
from bellwether_kafka.coordinator.membership.transitions import State

COALESCE_STEPS = 4


@dataclass(slots=True)
class HeadCount:
    """Members that have come while the join round is held open. Times in seconds.

    The round ends when nobody has come for `quiet_s`, at the latest at `limit`.
    """

    quiet_s: float
    limit: float
    grown_at: float
    members: int | None = None

    @classmethod
    def begin(cls, now: float, config: MembershipConfig) -> "HeadCount":
        return cls(quiet_s=config.coalesce_ms / 1000, limit=now + config.coalesce_ms_max / 1000, grown_at=now)

    def counted(self, members: int, now: float) -> bool:
        """Takes a head count; True when the round should be closed now."""
        if self.members is not None and members > self.members:
            self.grown_at = now
        self.members = max(members, self.members or 0)
        return now >= min(self.grown_at + self.quiet_s, self.limit)

    def next_at(self, now: float) -> float:
        step = now + self.quiet_s / COALESCE_STEPS
        return min(step, self.limit)


class NextRound:
    def __init__(self, core: Core, joining: Joining, leaving: Leaving, recovery: Recovery) -> None:
        self._core = core
        self._leaving = leaving
        self._recovery = recovery
        self._count: HeadCount | None = None  # None: members are not counted, the time alone decides
        # What a heartbeat's answer leads to, by state. Where 22 or 27 has no line we are on our way back, or the answer
        # to our SyncGroup says the same.
        self._reactions: dict[int, dict[State, Callable[[], None]]] = {
            Code.NONE: {State.JOINING: joining.send_overdue, State.STABLE: core.trouble_is_over},
            Code.REBALANCE_IN_PROGRESS: {
                State.JOINING: joining.send_overdue,
                State.DECIDING: self._called_back,
                State.STABLE: self._called_back,
            },
            Code.ILLEGAL_GENERATION: {State.DECIDING: self._generation_is_void, State.STABLE: self._generation_is_void},
        }

    def heartbeat_answered(self, answer: HeartbeatAnswer) -> None:
        session = self._core.session
        if answer.error in (Code.NONE, Code.REBALANCE_IN_PROGRESS):
            session.confirmed()
        current = session.heartbeat_generation == self._core.requests.generation
        if action_for(answer.error) is Action.REJOIN and not current:
            return  # of the generation before: the broker's answer to our JoinGroup has overtaken it
        if answer.error in self._reactions:
            react = self._reactions[answer.error].get(self._core.state)
            if react is not None:
                react()
        else:
            self._recovery.failed(Kind.HEARTBEAT, answer.error)

    def _generation_is_void(self) -> None:
        self._recovery.failed(Kind.HEARTBEAT, Code.ILLEGAL_GENERATION)

    def _called_back(self) -> None:
        """The broker holds the round open until every member is back, and we are one of them. If we were alone we would
        close it at once and give the first of fifty starting members a generation of its own."""
        core, config = self._core, self._core.config
        core.leadership.lists_app_topics = False
        window_ms = config.coalesce_ms if core.alone else config.coalesce_running_ms
        if window_ms <= 0 or self._leaving.stopping:
            self._recovery.rejoin("a rebalance has begun")
            return
        core.timers.clear(Timer.DECISION, Timer.FOLLOWUP, Timer.REBALANCE, Timer.LINGER)
        core.go(State.COALESCING)
        core.reason = "a rebalance has begun"
        if core.alone:
            self._count = HeadCount.begin(core.now, config)
            self.look()
        else:
            self._count = None
            core.set_timer(Timer.COALESCE, window_ms)

    # ---- holding the round open ------------------------------------------------------------------------------------

    def look(self) -> None:
        core = self._core
        if self._count is None or core.now >= self._count.limit:
            self._recovery.rejoin(core.reason)
            return
        core.requests.describe()
        core.timers.set(Timer.COALESCE, self._count.next_at(core.now))

    def counted(self, answer: DescribeAnswer) -> None:
        core, count = self._core, self._count
        unseen = answer.error and not is_missing(answer)
        if unseen or count is None or count.counted(len(answer.members), core.now):
            self._recovery.rejoin(core.reason)
