"""Handles answers to heartbeats, and may hold the rebalance that they announce open so that more members join it."""

import math
from dataclasses import dataclass

from bellwether_kafka.coordinator.membership.core import Core
from bellwether_kafka.coordinator.membership.error_codes import Action, Code, action_for
from bellwether_kafka.coordinator.membership.events import DescribeAnswer, HeartbeatAnswer
from bellwether_kafka.coordinator.membership.joining_leaving import Joining, Leaving
from bellwether_kafka.coordinator.membership.lead_rules import is_missing
from bellwether_kafka.coordinator.membership.recovery import Recovery
from bellwether_kafka.coordinator.membership.requests import NO_GENERATION, Kind, Timer
from bellwether_kafka.coordinator.membership.transitions import State

COALESCE_STEPS = 4
# If brokers do not wait for first members: long enough to let members that start together share one rebalance (thirty
# members within five seconds).
QUIET_MS_LEAST = 250
HELD_MS_LEAST = 200  # after Bellwether has learnt of the rebalance
LONG_S = 60.0  # of a rebalance; Kafka's default session, after which a dead member is removed, is 45 s


@dataclass(slots=True)
class HeadCount:
    """Counts members while the rebalance is held open. It ends when no member has joined for `quiet_s`, at the latest
    at `limit`. Times are in seconds."""

    quiet_s: float
    limit: float
    grown_at: float
    members: int | None = None

    @classmethod
    def since(cls, rested_at: float, now: float, quiet_ms: float, limit_ms: float) -> "HeadCount":
        """Starts a count. The first member may have joined at any time since the group was stable, and has waited since
        then."""
        waited_s = max(0.0, quiet_ms - HELD_MS_LEAST) / 1000
        return cls(quiet_ms / 1000, now + limit_ms / 1000, max(rested_at, now - waited_s))

    @property
    def due(self) -> float:
        """When to close the rebalance if no other member joins."""
        return min(self.grown_at + self.quiet_s, self.limit)

    def counted(self, members: int, now: float) -> bool:
        """Records a count of members; returns True if the rebalance should be closed now."""
        if self.members is not None and members > self.members:
            self.grown_at = now
        self.members = max(members, self.members or 0)
        return now >= self.due

    def next_count(self, now: float) -> float:
        """Returns when to count again: several times during the quiet time, the last time at its end."""
        step = now + self.quiet_s / COALESCE_STEPS
        return min(step, self.due) if self.due > now else min(step, self.limit)


@dataclass(slots=True)
class NextRebalance:
    core: Core
    joining: Joining
    leaving: Leaving
    recovery: Recovery
    _count: HeadCount | None = None  # None: only the time decides
    _after: int = NO_GENERATION  # the generation that the present rebalance ends
    _since: float = 0.0  # when Bellwether joined that rebalance; infinite once its length has been reported

    def heartbeat_answered(self, answer: HeartbeatAnswer) -> None:
        session = self.core.session
        # With ILLEGAL_GENERATION the broker still knows the member, and its session does not end while it waits in
        # JoinGroup.
        waits = answer.error == Code.ILLEGAL_GENERATION and self.core.state is State.JOINING
        if answer.error in (Code.NONE, Code.REBALANCE_IN_PROGRESS) or waits:
            session.alive_at = max(session.alive_at, session.heartbeat_sent_at)
        current = session.heartbeat_generation == self.core.requests.generation
        if action_for(answer.error) is Action.REJOIN and not current:
            return  # concerns the previous generation: the answer to JoinGroup came first
        if waits:
            # A coordinator that failed before the plan was written has the generation, and the leader, before this one.
            self.core.leadership.outdated = True
        match answer.error, self.core.state:
            case ((Code.NONE | Code.REBALANCE_IN_PROGRESS | Code.ILLEGAL_GENERATION), State.JOINING):
                self._report_length()
                self.joining.send_overdue()  # if overdue, its answer is lost and the rebalance has ended
            case Code.NONE, State.STABLE:
                session.rested_at = session.heartbeat_sent_at
                self.core.trouble_is_over()
            case Code.REBALANCE_IN_PROGRESS, (State.DECIDING | State.STABLE):
                self._called_back()
            case ((Code.NONE | Code.REBALANCE_IN_PROGRESS), _):
                pass  # Bellwether is rejoining already, or the answer to SyncGroup has the same error
            case Code.ILLEGAL_GENERATION, state if state not in (State.DECIDING, State.STABLE):
                pass
            case _:
                self.recovery.failed(Kind.HEARTBEAT, answer.error)

    def _report_length(self) -> None:
        """Alerts once to a rebalance that lasts for longer than the session of a dead member: one that is alive holds
        it up, and meanwhile no plan, probe or watch acts."""
        core = self.core
        if self._after != core.requests.generation:
            self._after, self._since = core.requests.generation, core.now
        lasts_s = core.now - self._since
        if lasts_s < LONG_S:
            return
        self._since = math.inf
        core.alert(
            f"the rebalance lasts for {lasts_s:.0f} s now, because a member that is alive has not joined it: it has not"
            " polled since, or a thread of Streams waits, such as for a topic that is missing; the broker waits for it"
            " as long as the largest max.poll.interval.ms, so look for it in the members' logs, or restart it"
        )

    def _called_back(self) -> None:
        """Rejoins, perhaps after a wait. The broker holds the rebalance open until every member has rejoined. If
        Bellwether was alone and rejoined at once, the first of fifty starting members would get a generation of its
        own."""
        core, config = self.core, self.core.config
        core.leadership.lists_app_topics = False
        core.sighting.shows(others=True)  # only another member can have opened this rebalance
        window_ms = self._quiet_ms() if core.alone else config.coalesce_running_ms
        if not window_ms or self.leaving.stopping:
            self.recovery.rejoin("a rebalance has begun")
            return
        core.timers.clear(Timer.DECISION, Timer.FOLLOWUP, Timer.REBALANCE, Timer.LINGER)
        core.go(State.COALESCING)
        core.reason = "a rebalance has begun"
        if core.alone:
            self._count = HeadCount.since(core.session.rested_at, core.now, window_ms, config.coalesce_ms_max)
            self.refresh()
        else:
            self._count = None
            core.set_timer(Timer.COALESCE, window_ms)

    def _quiet_ms(self) -> float:
        """Returns how long to wait for more members: no longer than the broker would have waited without Bellwether, if
        known."""
        most, waits = self.core.config.coalesce_ms, self.core.session.broker_wait_ms
        return most if waits is None else min(most, max(waits, QUIET_MS_LEAST))

    # ---- holding the rebalance open --------------------------------------------------------------------------------

    def refresh(self) -> None:
        core = self.core
        if self._count is None or core.now >= self._count.limit:
            self.recovery.rejoin(core.reason)
            return
        core.requests.describe()
        core.timers.set(Timer.COALESCE, self._count.next_count(core.now))

    def counted(self, answer: DescribeAnswer) -> None:
        core, count = self.core, self._count
        unseen = answer.error and not is_missing(answer)
        if unseen or count is None or count.counted(len(answer.members), core.now):
            self.recovery.rejoin(core.reason)
