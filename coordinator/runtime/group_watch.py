"""Looks after the groups to lead between rebalances: has triggers judge a picture of each group, makes the readings
that they want, and posts what they find to its membership.

No trigger waits for a reading: each is a task of its own, and is judged when it is there. Errors are logged once for
each reason, and a reading that fails keeps no other from being made.
"""

import asyncio
import zlib
from collections.abc import Coroutine, Mapping
from typing import Any, Protocol

import structlog

from bellwether_kafka.assignors.shared import RefusalError
from bellwether_kafka.coordinator.kafka.client import ClusterUnreachableError, OffsetsError
from bellwether_kafka.coordinator.kafka.wire import TransportError
from bellwether_kafka.coordinator.membership import Event, MembershipView, NotShownError, RebalanceWanted, State
from bellwether_kafka.coordinator.planning import Planned
from bellwether_kafka.coordinator.runtime.readings import GroupReader
from bellwether_kafka.coordinator.topology import TopicCreationError
from bellwether_kafka.coordinator.triggers import TRIGGERS, Finding, Picture, Reading
from bellwether_kafka.coordinator.watching import Troubles, every

TICK_S = 0.5
CONSUMERS_S = 0.9  # least time between two turns of plain consumers, of which nothing has to be known sooner
COMMITS_S = 10.0
COMMITS_AT_ONCE = 10  # groups in a turn; with more groups, each is read less often
HELD_BACK_S = 30.0  # how long a request that would stop an application is held back
BYTES_PER_SECOND_MAX = 1_000_000  # large groups have large descriptions, and are described less often

log = structlog.get_logger(__name__)

# What brokers or the network cause: the event and the level of its line. Anything else is a defect. A method of the
# logger would be bound to how logs are written at the import.
EXPECTED: tuple[tuple[type[Exception], str, str], ...] = (
    (OffsetsError, "offsets_unknown", "warning"),
    (TopicCreationError, "internal_topics_not_created", "warning"),
    (ClusterUnreachableError, "metadata_unknown", "warning"),
    (TimeoutError, "metadata_unknown", "warning"),
    (RefusalError, "racks_not_compared", "info"),
    (TransportError, "group_not_read", "info"),
    (NotShownError, "group_not_read", "info"),
)


class LedGroup(Protocol):
    """The part of `GroupRunner` that this module uses."""

    @property
    def membership(self) -> MembershipView: ...
    def post(self, event: Event) -> None: ...


class GroupWatch:
    """Watches one group. For one event loop."""

    def __init__(self, reader: GroupReader) -> None:
        self.group_id = reader.group_id
        self.tasks: set[asyncio.Task[None]] = set()
        self._reader = reader
        of_application = reader.application is not None
        self._triggers = {
            name: each for name, each in TRIGGERS.items() if each.of_application in (None, of_application)
        }
        self._rests_s = 0.0 if of_application else CONSUMERS_S
        self._turned_at = float("-inf")
        self._delivered: list[tuple[Planned[Any], float]] = []  # and not judged yet
        self._states: dict[str, Any] = {}
        self._read_at: dict[Reading, float] = {}
        self._reading: set[Reading] = set()
        self._held_back_at = float("-inf")
        self._troubles = Troubles()

    def on_decision(self, planned: Planned[Any]) -> None:
        """Takes a plan that the broker has accepted; an observer of decisions."""
        self._delivered.append((planned, self._reader.clock()))

    def turn(self, led: LedGroup) -> None:
        """Judges every plan that was delivered, once the group is stable, and what else is due. Starts the readings
        that are wanted, but for COMMITS."""
        self._turned_at = self._reader.clock()
        if led.membership.state in (State.WATCHING, State.STOPPED):
            self._leave()
        if led.membership.state is State.STABLE:
            delivered, self._delivered = self._delivered, []
            for planned, at in delivered:
                self._plan(led, planned, at)
        picture = self._picture(led)
        self._judge(led, picture)
        for reading, every_s in self._wanted(picture).items():
            if self._is_due(reading, every_s):
                self._start(reading, led)

    @property
    def due(self) -> bool:
        return self._reader.clock() - self._turned_at >= self._rests_s

    def commits_unread_s(self, led: LedGroup) -> float:
        """Returns the seconds since the offsets were read of a group that is watched while it has no members; 0 for
        other groups."""
        if led.membership.watches_memberless:
            return self._unread_s(Reading.COMMITS)
        self._reader.forget_commits()
        self._read_at.pop(Reading.COMMITS, None)
        return 0.0

    def read_commits(self, led: LedGroup) -> None:
        self._start(Reading.COMMITS, led)

    def close(self) -> None:
        for task in self.tasks:
            task.cancel()

    # ---- triggers ----------------------------------------------------------------------------------------------------

    def _plan(self, led: LedGroup, planned: Planned[Any], at: float) -> None:
        if getattr(planned.decision.plan, "shutdown", False):
            self._leave()
        else:
            self._reader.planned = planned
            self._judge(led, self._picture(led, at))

    def _leave(self) -> None:
        self._reader.planned = None
        self._delivered.clear()
        kept = ((name, TRIGGERS[name].keeps(state)) for name, state in self._states.items())
        self._states = {name: state for name, state in kept if state is not None}

    def _picture(self, led: LedGroup, now: float | None = None, **fresh: Any) -> Picture:
        reader = self._reader
        racks, kind = reader.planner.racks, reader.application
        return Picture(
            member=led.membership,
            now=reader.clock() if now is None else now,
            wall_ms=int(reader.wall_clock() * 1000),
            policy=reader.planner.kind.policy,
            planned=reader.planned,
            config=None if kind is None else kind.config,
            uses_racks=reader.planner.kind.uses_racks(led.membership.protocol),
            racks=racks.version if racks.rules else None,
            needs_hosts=racks.rules.need_hosts,
            **fresh,
        )

    def _judge(self, led: LedGroup, picture: Picture, reading: Reading | None = None) -> None:
        """Posts what triggers find, requests for a rebalance last: a membership that rejoins takes nothing else. A
        trigger with a defect keeps no other from being judged."""
        findings = list[Finding]()
        for name, trigger in self._triggers.items():
            if not trigger.judges(picture.member.state, reading):
                continue
            try:
                self._states[name], more = trigger.judge(picture, self._states.get(name))
            except Exception:
                log.exception("trigger_failed", group=self.group_id, trigger=name)
                continue
            findings += more
        for finding in sorted(findings, key=lambda each: isinstance(each, RebalanceWanted)):
            if isinstance(finding, RebalanceWanted) and self._reader.application is not None:
                self._run(self._post_unless_harmful(led, finding, picture))
            else:
                led.post(finding)

    async def _post_unless_harmful(self, led: LedGroup, wanted: RebalanceWanted, picture: Picture) -> None:
        """Holds a request back while any rebalance would stop the application."""
        now = self._reader.clock()
        if picture.decision is None or now - self._held_back_at < HELD_BACK_S:
            return
        try:
            objection = await self._reader.objection(picture.decision)
        except Exception as error:  # noqa: BLE001 - it is logged
            self._failed("objection", error)
            return
        if objection:
            self._held_back_at = now
            log.warning("request_held_back", group=self.group_id, request=wanted.reason, reason=objection)
        elif led.membership.generation == picture.member.generation:
            led.post(wanted)

    # ---- readings ----------------------------------------------------------------------------------------------------

    def _wanted(self, picture: Picture) -> dict[Reading, float]:
        """Returns the readings that triggers want now, each with the least seconds between two."""
        wanted = dict[Reading, float]()
        for name, trigger in self._triggers.items():
            if trigger.wants is not None and trigger.judges(picture.member.state, None):
                for reading, every_s in trigger.wants(picture, self._states.get(name)).items():
                    wanted[reading] = min(every_s, wanted.get(reading, every_s))
        return wanted

    def _unread_s(self, reading: Reading) -> float:
        return self._reader.clock() - self._read_at.get(reading, float("-inf"))

    def _is_due(self, reading: Reading, every_s: float) -> bool:
        """Descriptions are spread over an interval from the first ones on, and large ones are made less often."""
        if reading is Reading.DESCRIPTION:
            share = zlib.crc32(self.group_id.encode()) % 1000 / 1000
            self._read_at.setdefault(reading, self._reader.clock() - share * every_s)
            every_s = max(every_s, self._reader.described_bytes / BYTES_PER_SECOND_MAX)
        return self._unread_s(reading) >= every_s

    def _start(self, reading: Reading, led: LedGroup) -> None:
        if reading in self._reading:
            return  # the one before still waits for brokers
        self._reading.add(reading)
        self._read_at[reading] = self._reader.clock()
        self._run(self._read(reading, led))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _read(self, reading: Reading, led: LedGroup) -> None:
        planned, generation = self._reader.planned, led.membership.generation
        try:
            fresh = await self._reader.read(reading, led.membership)
        except Exception as error:  # noqa: BLE001 - it is logged
            self._failed(reading.value, error)
            fresh = {"unanswered": reading}
        else:
            self._troubles.over(reading.value)
            if planned is not self._reader.planned or generation != led.membership.generation:
                return  # there is a new plan
        finally:
            self._reading.discard(reading)
        if fresh:
            self._judge(led, self._picture(led, **fresh), reading)

    def _failed(self, what: str, error: Exception) -> None:
        for kind, event, level in EXPECTED:
            if isinstance(error, kind):
                reason = str(error) or "no answer in time"
                self._troubles.report(getattr(log, level), event, reason, of=what, group=self.group_id, reading=what)
                return
        log.error("reading_failed", group=self.group_id, reading=what, exc_info=error)


class GroupWatches:
    """The watches on all groups to lead of one process."""

    def __init__(self, watches: Mapping[str, GroupWatch], led: Mapping[str, LedGroup]) -> None:
        self._watches = watches
        self._led = led

    async def run(self) -> None:
        """Runs until cancelled. Logs its own errors and goes on."""
        try:
            await every(TICK_S, self.turn, log, "groups_not_watched")
        finally:
            for watch in self._watches.values():
                watch.close()

    async def turn(self) -> None:
        """Takes a turn of every group. Reads the offsets of those without members that have waited longest."""
        for group, watch in self._watches.items():
            if watch.due:
                self.look(group)
        unread_s = {group: watch.commits_unread_s(self._led[group]) for group, watch in self._watches.items()}
        due = sorted((group for group, s in unread_s.items() if s >= COMMITS_S), key=lambda g: -unread_s[g])
        for group in due[:COMMITS_AT_ONCE]:
            self._watches[group].read_commits(self._led[group])

    def look(self, group: str) -> None:
        """Takes a turn of one group, at once: brokers list a new member as soon as its JoinGroup has begun a
        rebalance."""
        try:
            self._watches[group].turn(self._led[group])
        except Exception:
            log.exception("group_not_watched", group=group)
