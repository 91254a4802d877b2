"""Rebalances: those that Bellwether begins and how often it may, answers to heartbeats, and holding the rebalance that
they announce open so that more members join it.

What asks for a rebalance (members that came back with another subscription, metadata, racks, load, members without
work) may change to and fro: two processes under one instance id fence each other every ten seconds, a topic is deleted
and created in a loop. The group of a leader that follows each change is never at rest. So a subject is followed twice;
after that each time only after a wait that doubles, until it has been quiet.

Probes of warm-ups and questions whether members work are `PROGRESS`: each answer decides whether there is another, and
`triggers/probing.py` and `triggers/work.py` limit them. Operators' orders wait for nothing, but a reaction that follows
one waits for the usual interval.

A subject is a kind and never a sentence, in which a number may be another each time. Partitions that nobody reads are
work left undone, and scripts create topics one after another: `UNREAD` is followed more often, and never waits for
longer than a client's own metadata.max.age.ms.
"""

import math
from dataclasses import dataclass, field

from bellwether_kafka.coordinator.membership.core import Core
from bellwether_kafka.coordinator.membership.events import (
    DescribeAnswer,
    HeartbeatAnswer,
    RebalanceOrdered,
    RebalanceWanted,
)
from bellwether_kafka.coordinator.membership.joining_leaving import Joining, Leaving, Recovery
from bellwether_kafka.coordinator.membership.lead_rules import is_missing
from bellwether_kafka.coordinator.membership.permission import backed_off_ms
from bellwether_kafka.coordinator.membership.requests import NO_GENERATION, Kind, Timer
from bellwether_kafka.coordinator.membership.role import Action, Code, action_for
from bellwether_kafka.coordinator.membership.transitions import State

PROGRESS = "progress"
UNREAD = "unread partitions"
DAMPED_S, DAMPED_S_MAX = 300.0, 3_600.0
QUIET_S = 600.0
ORDERED = ""  # the subject of orders that came while a plan was on its way
COALESCE_STEPS = 4
# If brokers do not wait for first members: long enough to let members that start together share one rebalance (thirty
# members within five seconds).
QUIET_MS_LEAST = 250
HELD_MS_LEAST = 200  # after Bellwether has learnt of the rebalance
LONG_S = 60.0  # of a rebalance; Kafka's default session, after which a dead member is removed, is 45 s


@dataclass(frozen=True, slots=True)
class Damping:
    """`followed`: reactions in a row after the usual interval. The wait after the next one is `first_s`, and doubles up
    to `max_s`."""

    followed: int
    first_s: float
    max_s: float

    def wait_s(self, times: int) -> float:
        """Returns how long to wait after so many reactions in a row."""
        return 0.0 if times < self.followed else min(self.first_s * 2.0 ** min(times - self.followed, 10), self.max_s)


USUAL = Damping(followed=2, first_s=DAMPED_S, max_s=DAMPED_S_MAX)
BY_SUBJECT = {UNREAD: Damping(followed=6, first_s=20.0, max_s=DAMPED_S)}


@dataclass(slots=True)
class Reactions:
    """The reactions in one group, by subject. `interval_s` is the usual interval. Times are seconds of the membership's
    clock."""

    interval_s: float
    _began_at: float = float("-inf")
    _last: dict[str, tuple[int, float]] = field(default_factory=dict)  # how many in a row, and when the last one was

    def due(self, subject: str) -> float:
        """Returns from when on the subject may be followed."""
        times, at = self._last.get(subject, (0, float("-inf")))
        return max(self._began_at + self.interval_s, at + _wait_s(subject, times))

    def is_damped(self, subject: str) -> bool:
        """Returns whether it is followed so rarely that users should know."""
        return _wait_s(subject, self._last.get(subject, (0, 0.0))[0]) >= DAMPED_S

    def began(self, now: float, *subjects: str) -> None:
        """Records a rebalance that was begun for these subjects, or by an order."""
        self._began_at = now
        for subject in subjects:
            times, at = self._last.get(subject, (0, now))
            again = now - at <= _quiet_s(subject, times)
            self._last[subject] = (times + 1 if again else 1), now
        self._last.pop(PROGRESS, None)
        quiet = [each for each, (times, at) in self._last.items() if now - at > _quiet_s(each, times)]
        for subject in quiet:
            del self._last[subject]


def _wait_s(subject: str, times: int) -> float:
    """Returns how long to wait after so many reactions in a row."""
    return BY_SUBJECT.get(subject, USUAL).wait_s(times)


def _quiet_s(subject: str, times: int) -> float:
    """Returns after how long without a reaction its row has ended."""
    return max(QUIET_S, 2 * _wait_s(subject, times))


@dataclass(slots=True)
class GroupRebalances:
    """The rebalances that Bellwether begins. `Reactions` says when."""

    core: Core
    recovery: Recovery
    reactions: Reactions = field(init=False)
    _damped: set[str] = field(default_factory=set)  # subjects whose wait has been alerted to

    def __post_init__(self) -> None:
        self.reactions = Reactions(self.core.config.rebalance_interval_ms_min / 1000)

    def pause(self) -> None:
        self.core.timers.clear(Timer.REBALANCE)

    def want(self, reason: str, subject: str) -> None:
        """Begins a rebalance now, or when its subject may be followed again. Called in STABLE."""
        if not self.core.alone:
            self.core.leadership.wanted[subject] = reason
            self.want_what_is_wanted()

    def wanted(self, event: RebalanceWanted) -> None:
        if self.core.state is State.STABLE:
            self.want(event.reason, event.subject)
        else:
            self._want_later(event.subject, event.reason)

    def want_what_is_wanted(self) -> None:
        core, wanted = self.core, self.core.leadership.wanted
        if not wanted or core.alone or (core.permission.orders.pause and ORDERED not in wanted):
            return
        due = min(map(self.reactions.due, wanted))
        if core.now >= due or ORDERED in wanted:
            self.begin()
            return
        core.timers.set(Timer.REBALANCE, due)
        for subject, reason in wanted.items():
            self._report_damping(subject, reason)

    def _report_damping(self, subject: str, reason: str) -> None:
        """Alerts once to a subject that is to be followed more rarely from now on."""
        if not self.reactions.is_damped(subject):
            self._damped.discard(subject)
        elif subject not in self._damped:
            self._damped.add(subject)
            wait_s = self.reactions.due(subject) - self.core.now
            self.core.alert(f"{reason}: this comes again and again, so the next rebalance for it is in {wait_s:.0f} s")

    def _want_later(self, subject: str, reason: str) -> None:
        """Keeps the wish until the plan on its way has been delivered."""
        self.core.leadership.wanted[subject] = reason

    def begin(self) -> None:
        wanted = self.core.leadership.wanted
        self.reactions.began(self.core.now, *(subject for subject in wanted if subject != ORDERED))
        self.recovery.rejoin("; ".join(dict.fromkeys(wanted.values())))

    def ordered(self, event: RebalanceOrdered) -> None:
        if self.core.state is not State.STABLE:
            self._want_later(ORDERED, event.reason)
        elif not self.core.alone:
            self.reactions.began(self.core.now)
            self.recovery.rejoin(event.reason)

    def plan_followup(self) -> None:
        """Sets the timer for the rebalance that hands out pending partitions: no member starts it if the member that
        has to revoke them is absent. The wait doubles for each such rebalance in a row, because that member may never
        come back (docs/internals/assignors.md#cooperative-rebalancing)."""
        core, config, leadership = self.core, self.core.config, self.core.leadership
        if not leadership.pending:
            leadership.followups = 0
            if leadership.called_at < math.inf:
                core.heartbeat()
            return
        core.set_timer(Timer.FOLLOWUP, backed_off_ms(config.followup_ms, leadership.followups, config.followup_ms_max))
        core.heartbeat()

    def begin_followup(self) -> None:
        self.core.leadership.followups += 1
        self.recovery.rejoin("hand out pending partitions")


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
