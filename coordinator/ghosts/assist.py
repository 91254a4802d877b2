"""Frees one group of ghosts and of a wedged rebalance: reads it with DescribeGroups and removes members with
LeaveGroup.

Works beside a leader membership of Bellwether or without any membership (mode `assist`). A leader learns nothing while
its JoinGroup is parked, and a ghost prolongs that wait. DescribeGroups lists a new member at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import structlog

from bellwether_kafka.coordinator import clocks, membership
from bellwether_kafka.coordinator.ghosts.coexistence import Rebalancing, troubles
from bellwether_kafka.coordinator.ghosts.proof import Ghost, GhostFinder, GhostOptions, Proof
from bellwether_kafka.coordinator.groups import Describer
from bellwether_kafka.coordinator.kafka.wire import RemovedMembers, TransportError, grant
from bellwether_kafka.coordinator.membership import Code, DescribeAnswer, Note, NoteKind
from bellwether_kafka.coordinator.watching import Troubles

# During a rebalance each refresh may find the ghost that holds it up; in a stable group it only has to find new members
# soon enough.
WAITING_INTERVAL_S = 0.25
RESTING_INTERVAL_S = 0.5
# DescribeGroups of a stable group returns every subscription and assignment, so large groups are polled less often.
BYTES_PER_SECOND_MAX = 1_000_000
INTERVAL_S_MAX = 5.0
TROUBLE_INTERVAL_S = 1.0

RemovalObserver = Callable[[str, Proof], None]
BeforeRemoval = Callable[[DescribeAnswer, tuple[str, ...]], Awaitable[bool]]  # the answer, and the members to remove

log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class _Statement:
    """An announced end of members' processes. Those in `left` are still to be removed. Static members are replaced by
    their successors. `done` is called once when none are left."""

    reason: str
    left: set[str]
    static: frozenset[str]
    done: Callable[[], None]


class GhostObservers(Protocol):
    """The observers of what the watches see and do."""

    @property
    def on_note(self) -> Sequence[Callable[[str, Note], None]]: ...
    @property
    def on_ghost(self) -> Sequence[RemovalObserver]: ...
    @property
    def on_seen(self) -> Sequence[Callable[[str, DescribeAnswer], None]]: ...


class LedMembership(Protocol):
    """The part of `runtime.GroupRunner` that a watch uses."""

    @property
    def membership(self) -> membership.MembershipView: ...


class GhostWatch:
    """Watches one group; `run` ends only when it is cancelled. Neither brokers, the network nor a defect of Bellwether
    ends it.

    The membership of a leader (`led`) saves requests: while it is Stable in the generation that was last described, the
    members are the same. It also shows whether Bellwether's own requests fail without an explanation.
    """

    def __init__(
        self,
        group_id: str,
        describer: Describer,
        options: GhostOptions,
        led: LedMembership | None,
        observers: GhostObservers,
        before_removal: BeforeRemoval | None = None,
    ) -> None:
        self.group_id = group_id
        self._options = options
        self._finder = GhostFinder(group_id, client_ids_unique=options.client_ids_unique)
        self._rebalancing = Rebalancing()
        self._describer = describer
        self._led = led
        self._observers = observers
        self._before_removal = before_removal
        self._generation_seen: int | None = None
        self._poll_requested = asyncio.Event()
        self._statements: list[_Statement] = []  # kept until they are done: a broker may fail meanwhile
        self._stated = asyncio.Event()
        self._troubles = Troubles()

    def poll_now(self) -> None:
        """Call it at every event of Bellwether's membership: the group may not be stable any more."""
        self._poll_requested.set()

    def stopped(
        self, members: Sequence[str], static: Sequence[str], reason: str, done: Callable[[], None] = lambda: None
    ) -> None:
        """Takes an announcement that the process of these members has ended. They are removed once Bellwether has
        joined the group, if it is to lead it. Static members are removed only in that case. `done` is called when they
        are gone."""
        self._statements.append(_Statement(reason, {*members, *static}, frozenset(static), done))
        self._generation_seen = None
        self._stated.set()
        self._poll_requested.set()

    async def run(self) -> None:
        while True:
            try:
                pause_s = await self._turn()
            except Exception:
                log.exception("ghost_watch_failed", group=self.group_id)
                pause_s = INTERVAL_S_MAX
            await self._sleep(pause_s)

    async def _sleep(self, pause_s: float) -> None:
        """Sleeps, but wakes when the end of a process is announced."""
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._stated.wait()

    async def _turn(self) -> float:
        """Makes one refresh. Returns the seconds until the next."""
        self._stated.clear()
        settled = self._settled()
        if settled is not None and settled == self._generation_seen:
            await self._next_event()
            return 0.0
        self._generation_seen = None
        began = clocks.monotonic()
        seen = await self._describe()
        if seen is None:
            return TROUBLE_INTERVAL_S
        if membership.assigned_by_broker(seen):
            self._warn_once(
                "its broker assigns by itself (KIP-848 or another new protocol): there is nothing to assist"
            )
            return INTERVAL_S_MAX
        await self._act(seen)
        rests = seen.state == membership.GroupState.STABLE and not self._statements
        self._generation_seen = settled if rests else None
        return max(0.0, _interval_s(seen) - (clocks.monotonic() - began))

    async def _next_event(self) -> None:
        """Waits for an event of Bellwether's membership, for at most `INTERVAL_S_MAX`."""
        self._poll_requested.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(INTERVAL_S_MAX):
                await self._poll_requested.wait()

    @property
    def _member(self) -> membership.MembershipView | None:
        return self._led.membership if self._led is not None else None

    def _settled(self) -> int | None:
        """Returns the generation of a stable group that Bellwether leads, else None."""
        member = self._member
        return member.generation if member is not None and member.state is membership.State.STABLE else None

    async def _act(self, seen: DescribeAnswer) -> None:
        ghosts = self._finder.refresh(seen, clocks.monotonic())
        for observer in self._observers.on_seen:
            observer(self.group_id, seen)
        if self._options.remove:
            for warning in self._finder.warnings():
                self._note(Note(NoteKind.ALERT, warning))
            if ghosts:
                await self._remove_ghosts(ghosts, seen)
        if self._statements:
            await self._remove_stopped(seen)
        await self._unwedge(seen)

    async def _unwedge(self, seen: DescribeAnswer) -> None:
        member, options = self._member, self._options
        self._rebalancing, trouble = troubles(
            seen,
            self._rebalancing,
            clocks.monotonic(),
            own=member.member_id if member is not None else "",
            unclear_since=member.unclear_since if member is not None else None,
            exactly_once=options.exactly_once,
            evicts=options.evict_malformed,
        )
        for alert in trouble.alerts:
            self._note(Note(NoteKind.ALERT, alert))
        suspect = trouble.evict
        if suspect is not None and await self._remove({suspect.member_id: "its subscription does not parse"}):
            removed = f"removed {suspect.member_id} ({suspect.client_host}) so that the rebalance can end"
            self._note(Note(NoteKind.ALERT, removed))

    async def _remove(self, reasons: Mapping[str, str]) -> RemovedMembers | None:
        try:
            answer = await self._describer.remove_from(self.group_id, reasons)
        except TransportError as error:
            why = str(error)
        else:
            if not answer.error:
                return answer
            why = membership.name_of(answer.error)
        self._warn_once(f"the broker did not remove {', '.join(reasons)}: {why}")
        return None

    async def _remove_ghosts(self, ghosts: Sequence[Ghost], seen: DescribeAnswer) -> None:
        await self._comes_before(seen, [ghost.member_id for ghost in ghosts])
        answer = await self._remove({ghost.member_id: f"ghost: {ghost.reason}" for ghost in ghosts})
        if answer is None:
            return
        gone = [ghost for ghost in ghosts if answer.errors.get(ghost.member_id) == Code.NONE]
        # A ghost whose session has just ended is gone too, but Bellwether did not remove it.
        self._finder.removed(gone, clocks.monotonic())
        for ghost in gone:
            self._note(Note(NoteKind.GHOST, f"removed {ghost.member_id}: {ghost.reason}"))
            for observer in self._observers.on_ghost:
                observer(self.group_id, ghost.proof)

    async def _comes_before(self, seen: DescribeAnswer, dead: Sequence[str]) -> bool:
        return self._before_removal is not None and await self._before_removal(seen, tuple(dead))

    async def _remove_stopped(self, seen: DescribeAnswer) -> None:
        """Removes members whose end was announced, unless they have left or are back under another member id. What a
        broker did not remove is left for the next turn."""
        statements, shown = tuple(self._statements), [member.member_id for member in seen.members]
        for statement in statements:
            statement.left.intersection_update(shown)
        dead = [member_id for member_id in shown if any(member_id in statement.left for statement in statements)]
        if dead:
            in_front = await self._comes_before(seen, dead)
            for statement in statements:
                if not in_front:
                    statement.left -= statement.static
            await self._remove_stated(statements)
        for statement in statements:
            if not statement.left:
                self._statements.remove(statement)
                statement.done()

    async def _remove_stated(self, statements: Sequence[_Statement]) -> None:
        reasons = {member_id: statement.reason for statement in statements for member_id in sorted(statement.left)}
        answer = await self._remove(reasons) if reasons else None
        if answer is None:
            return
        gone = [m for m in reasons if answer.errors.get(m, Code.NONE) in (Code.NONE, Code.UNKNOWN_MEMBER_ID)]
        for statement in statements:
            statement.left.difference_update(gone)
        if gone:
            self._note(Note(NoteKind.GHOST, f"removed {', '.join(gone)}: {reasons[gone[0]]}"))

    async def _describe(self) -> DescribeAnswer | None:
        """Describes the group. Returns None on failure."""
        try:
            answer = await self._describer.describe_group(self.group_id)
        except TransportError as error:
            self._warn_once(str(error))
            return None
        if answer.error not in (Code.NONE, Code.GROUP_ID_NOT_FOUND):
            self._warn_once(_why(answer.error, self.group_id))
            return None
        if not membership.assigned_by_broker(answer):
            self._troubles.over()
        return answer

    def _warn_once(self, why: str) -> None:
        self._troubles.report(log.warning, "ghosts_not_watched", why, group=self.group_id)

    def _note(self, note: Note) -> None:
        level = log.warning if note.kind is NoteKind.ALERT else log.info
        level("ghosts", group=self.group_id, what=note.kind.name, reason=note.reason)
        for observer in self._observers.on_note:
            observer(self.group_id, note)


def ghost_watches(
    options: Mapping[str, GhostOptions],
    describer: Describer,
    led: Mapping[str, LedMembership],
    observers: GhostObservers,
    before_removal: Mapping[str, BeforeRemoval],
) -> dict[str, GhostWatch]:
    """Returns a watch for each group with options, with Bellwether's membership if there is one. `before_removal`, by
    group, is awaited before members are removed."""
    return {
        group: GhostWatch(group, describer, chosen, led.get(group), observers, before_removal.get(group))
        for group, chosen in options.items()
    }


def _why(error: int, group_id: str) -> str:
    if error == Code.GROUP_AUTHORIZATION_FAILED:
        return f"Bellwether may neither see its members nor remove any; {grant('READ', 'Group', group_id)}"
    return membership.name_of(error)


def _interval_s(seen: DescribeAnswer) -> float:
    if seen.state in membership.REBALANCING:
        return WAITING_INTERVAL_S
    size = sum(len(m.metadata) + len(m.assignment) for m in seen.members)
    return min(max(RESTING_INTERVAL_S, size / BYTES_PER_SECOND_MAX), INTERVAL_S_MAX)
