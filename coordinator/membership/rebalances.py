"""Rounds that we begin: when one that is wanted may begin, and the one that hands out withheld partitions."""

from bellwether_kafka.coordinator.membership.core import Core
from bellwether_kafka.coordinator.membership.events import RebalanceWanted, RoundOrdered
from bellwether_kafka.coordinator.membership.recovery import Recovery
from bellwether_kafka.coordinator.membership.requests import Timer
from bellwether_kafka.coordinator.membership.rules import backed_off_ms


class Rebalances:
    def __init__(self, core: Core, recovery: Recovery) -> None:
        self._core = core
        self._recovery = recovery
        self._paused = ""  # by an operator's order
        self._began_at = float("-inf")

    def pause(self, order: str) -> None:
        self._paused = order
        if order:
            self._core.timers.clear(Timer.REBALANCE)

    def want(self, reason: str) -> None:
        """In STABLE; never in quick repetition."""
        core = self._core
        if core.alone:
            return
        core.leadership.wanted = reason
        if self._paused:
            return
        due = self._began_at + core.config.rebalance_interval_ms_min / 1000
        if core.now >= due:
            self.begin()
        else:
            core.timers.set(Timer.REBALANCE, due)

    def wanted(self, event: RebalanceWanted) -> None:
        self.want(event.reason)

    def want_what_is_wanted(self) -> None:
        if self._core.leadership.wanted:
            self.want(self._core.leadership.wanted)

    def want_later(self, event: RebalanceWanted | RoundOrdered) -> None:
        """While a plan is on its way: kept until it has been delivered."""
        self._core.leadership.wanted = event.reason

    def begin(self) -> None:
        self._began_at = self._core.now
        self._recovery.rejoin(self._core.leadership.wanted)

    def ordered(self, event: RoundOrdered) -> None:
        if not self._core.alone:
            self._recovery.rejoin(event.reason)

    def plan_followup(self) -> None:
        """Nobody else starts the round that hands out withheld partitions if their loser is an absent member; each one
        in a row waits twice as long, because that member may never come (reference §3.6)."""
        core, config, leadership = self._core, self._core.config, self._core.leadership
        if not leadership.withheld:
            leadership.followups = 0
            return
        core.set_timer(Timer.FOLLOWUP, backed_off_ms(config.followup_ms, leadership.followups, config.followup_ms_max))
        core.heartbeat()

    def begin_followup(self) -> None:
        self._core.leadership.followups += 1
        self._recovery.rejoin("hand out partitions that were withheld")
