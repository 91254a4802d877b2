"""Polls metadata, and decides by a pure function when new ones are worth a rebalance
(docs/internals/reliability.md#duties-of-a-leader).

Growth and new topics count at once. A topic that is gone or has fewer partitions counts when two consecutive reads show
it, because one stale broker may answer so. Replica racks are compared by the rule of Kafka 4.4 (KAFKA-20778) and count
only when they have differed for a hold-down time, so that a rolling restart of brokers causes no rebalance. A topic
that cannot be read does not count as gone.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace

import numpy as np
import structlog

from bellwether_kafka.assignors.shared import ClusterView, IntArray
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.kafka.client.cluster import ClusterReader, ClusterUnreachableError
from bellwether_kafka.coordinator.kafka.client.metadata import MetadataRead, ReplicaSet, cluster_view
from bellwether_kafka.coordinator.membership import UNREAD
from bellwether_kafka.coordinator.names import listed

NAMES_SHOWN = 3
JITTER = 0.2

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WatchRules:
    """`hold_down_ms`: how long racks must differ. `repeat_ms`: when an unchanged reason is reported again."""

    hold_down_ms: int = 60_000
    repeat_ms: int = 60_000


DEFAULT_RULES = WatchRules()


@dataclass(frozen=True, slots=True)
class Change:
    """Why a group should rebalance, as a sentence, and of which kind that is (see `Reactions`)."""

    reason: str
    subject: str


@dataclass(frozen=True, slots=True, eq=False)
class WatchState:
    """The metadata a group was planned with, and the changes suspected since. Times are seconds on the monotonic clock.

    `counts`: planned partitions by topic (0 for a missing one). `frozen`: topics that could not be read then. `kept`:
    topics without a subscriber; only their loss counts, because no plan can react to another size. `placed`: the read
    to compare racks with, None until there is one. `objection` returns what speaks against a rebalance with the present
    topics, "" if nothing.
    """

    counts: dict[str, int]
    topics: frozenset[str]
    frozen: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    objection: Callable[[ClusterView], str] | None = None
    rack_aware: bool = False
    placed: MetadataRead | None = None
    suspects: frozenset[str] = frozenset()
    racks_differ_since: float | None = None
    reported: tuple[str, ...] = ()
    reported_at: float = float("-inf")


def planned_with(
    view: ClusterView,
    topics: Collection[str],
    *,
    rack_aware: bool,
    read: MetadataRead | None = None,
    kept: Collection[str] = (),
    objection: Callable[[ClusterView], str] | None = None,
) -> WatchState:
    """Returns the state after a plan was sent. Changes are relative to the view that the plan was made with."""
    followed = frozenset(topics) | frozenset(kept)
    counts = {topic: int(view.counts[i]) for topic, i in view.index.items() if topic in followed}
    return WatchState(
        counts=counts,
        topics=followed,
        frozen=view.unreadable & followed,
        kept=frozenset(kept) - frozenset(topics),
        objection=objection,
        rack_aware=rack_aware,
        placed=read,
    )


def material_change(
    state: WatchState, read: MetadataRead, now: float, rules: WatchRules
) -> tuple[Change | None, WatchState]:
    """Returns why the group should rebalance, None if it should not, and the state for the next call."""
    counts = read.count_of
    unread: list[str] = []
    reasons: list[str] = []
    suspects: set[str] = set()
    for topic in sorted(state.topics - read.unreadable):
        before, after = state.counts.get(topic, 0), counts.get(topic, 0)
        if topic in state.kept and before and after:
            continue
        if topic in state.frozen and after:
            unread.append(f"topic {topic} can be read again, with {after} partitions")
        elif after > before:
            how = f"grew from {before} to" if before else "appeared with"
            unread.append(f"topic {topic} {how} {after} partitions")
        elif after < before and topic in state.suspects:
            how = f"went from {before} to {after} partitions" if after else "is gone"
            reasons.append(f"topic {topic} {how}")
        elif after < before:
            suspects.add(topic)
    still_small = {t for t in state.suspects if counts.get(t, 0) < state.counts.get(t, 0)}
    state = replace(state, suspects=frozenset(suspects | still_small))
    state, racks = _rack_reason(state, read, now, rules)
    subject = UNREAD if unread else "topics" if reasons else "racks of replicas"
    reason, state = _reported_once(state, (*unread, *reasons, *racks), now, rules)
    return None if reason is None else Change(reason, subject), state


def racks_equivalent(old: MetadataRead, a: ReplicaSet, new: MetadataRead, b: ReplicaSet) -> bool:
    """Returns whether two placements have equivalent racks, by Kafka 4.4's rule (KAFKA-20778): each online replica of
    one read has its rack among the online racks of the other, or is offline in the other; and vice versa."""
    return _covered(old, a[1], new, b[1]) and _covered(new, b[1], old, a[1])


def _covered(here: MetadataRead, mine: tuple[int, ...], there: MetadataRead, theirs: tuple[int, ...]) -> bool:
    racks = {there.racks.get(b) for b in theirs if b in there.online}
    offline = {b for b in theirs if b not in there.online}
    return all(here.racks.get(b) in racks or b in offline for b in mine if b in here.online)


def topics_with_new_racks(old: MetadataRead, new: MetadataRead) -> tuple[str, ...]:
    """Returns the topics, present in both reads, with a partition whose replica racks are no longer equivalent. The
    rule is applied once for each distinct pair of placements, of which there are few."""
    before, after = old.codes_of, new.codes_of
    verdict: dict[tuple[int, int], bool] = {}
    changed: list[str] = []
    for topic in sorted(before.keys() & after.keys()):
        for pair in _distinct_pairs(before[topic], after[topic]):
            if pair not in verdict:
                verdict[pair] = racks_equivalent(old, old.placements[pair[0]], new, new.placements[pair[1]])
            if not verdict[pair]:
                changed.append(topic)
                break
    return tuple(changed)


def _distinct_pairs(old: IntArray, new: IntArray) -> list[tuple[int, int]]:
    shared = min(len(old), len(new))
    joined = np.unique((old[:shared].astype(np.int64) << 32) | new[:shared])
    return list(zip((joined >> 32).tolist(), (joined & 0xFFFFFFFF).tolist(), strict=True))


def _rack_reason(state: WatchState, read: MetadataRead, now: float, rules: WatchRules) -> tuple[WatchState, list[str]]:
    if not state.rack_aware:
        return state, []
    if state.placed is None:
        return replace(state, placed=read), []
    changed = topics_with_new_racks(state.placed, read)
    if not changed:
        return replace(state, racks_differ_since=None), []
    since = now if state.racks_differ_since is None else state.racks_differ_since
    state = replace(state, racks_differ_since=since)
    if (now - since) * 1000 < rules.hold_down_ms:
        return state, []
    return state, [f"the racks of replicas changed for {listed(changed, NAMES_SHOWN)}"]


def _reported_once(
    state: WatchState, reasons: tuple[str, ...], now: float, rules: WatchRules
) -> tuple[str | None, WatchState]:
    if not reasons:
        return None, replace(state, reported=(), reported_at=float("-inf"))
    if reasons == state.reported and (now - state.reported_at) * 1000 < rules.repeat_ms:
        return None, state
    return "; ".join(reasons), replace(state, reported=reasons, reported_at=now)


class MetadataWatch:
    """Polls the topics of every followed group and reports when a group should rebalance
    (docs/internals/reliability.md#duties-of-a-leader).

    `on_change(group_id, reason, subject)` runs on the event loop; see `Change`. The interval is `interval_ms` with a
    jitter of a tenth either way, so that instances do not poll in step (`seed` makes it repeatable).
    """

    def __init__(
        self,
        reader: ClusterReader,
        on_change: Callable[[str, str, str], None],
        *,
        interval_ms: int = 10_000,
        rules: WatchRules = DEFAULT_RULES,
        seed: int | None = None,
        clock: Callable[[], float] = clocks.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._reader = reader
        self._on_change = on_change
        self._interval_s = interval_ms / 1000
        self._rules = rules
        self._random = random.Random(random.getrandbits(64) if seed is None else seed)  # noqa: S311 - spreads polls
        self._clock = clock
        self._sleep = sleep
        self._groups: dict[str, WatchState] = {}

    def follow(
        self,
        group_id: str,
        topics: Collection[str],
        view: ClusterView,
        *,
        rack_aware: bool,
        kept: Collection[str] = (),
        objection: Callable[[ClusterView], str] | None = None,
    ) -> None:
        """Call this after each plan that was sent. `topics` is the union of all subscriptions, `view` the view used for
        the plan.

        `rack_aware`: a member has a rack, so changes of replica racks matter. `kept`: topics without a subscriber that
        must not get lost. `objection` returns why a rebalance with the present topics would do more harm than good, ""
        if it would not.
        """
        last = self._reader.last_read
        read = last if last is not None and last.read_at == view.read_at and last.topics == view.topics else None
        state = planned_with(view, topics, rack_aware=rack_aware, read=read, kept=kept, objection=objection)
        self._groups[group_id] = state

    def forget(self, group_id: str) -> None:
        """Call this when the group is no longer led."""
        self._groups.pop(group_id, None)

    async def run(self) -> None:
        """Polls until cancelled. Silent brokers and defects of Bellwether are logged and do not end it."""
        while True:
            await self._sleep(self._interval_s * (1 + JITTER * (self._random.random() - 0.5)))
            try:
                await self.poll()
            except Exception:
                log.exception("metadata_watch_crashed")

    async def poll(self) -> None:
        """Reads all followed topics once and calls `on_change` for each group that should rebalance."""
        topics = frozenset().union(*(state.topics for state in self._groups.values()))
        if not topics:
            return
        try:
            await self._reader.read(topics)
        except ClusterUnreachableError as error:
            log.warning("metadata_watch_failed", reason=str(error))
            return
        for group_id, state in list(self._groups.items()):
            read = await self._reader.read(state.topics, age_ms_max=int(self._interval_s * 1000))
            if self._groups.get(group_id) is not state:
                continue  # a newer plan was sent in between
            change, self._groups[group_id] = material_change(state, read, self._clock(), self._rules)
            if change is None:
                continue
            objection = state.objection(cluster_view(read)) if state.objection is not None else ""
            if objection:
                log.warning("change_not_followed", group=group_id, change=change.reason, reason=objection)
            else:
                self._on_change(group_id, change.reason, change.subject)
