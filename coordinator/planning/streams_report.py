"""A round of a Streams application in words and numbers: why it happened, what it changed, what is still to come. Log
lines, metrics and tables are made of this. Pure.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors.streams import CopyLag, ProcessSummary, StreamsDecision
from bellwether_kafka.coordinator.planning.causes import Cause, Kind

NAMES_SHOWN = 4
ID_CHARS = 8


@dataclass(frozen=True, slots=True)
class WorstLag:
    """The copy of a subtopology that is furthest behind, among its standbys or among its warm-ups. `age_ms` is None
    where its process has reported nothing: then it restores everything."""

    subtopology: int
    warmup: bool
    lag: int
    age_ms: int | None


@dataclass(frozen=True, slots=True)
class Report:
    """`standby_lag` is the largest among standbys that are not warm-ups, in records, and `standby_lag_age_ms` the age
    of the report it comes from; both None where nothing is known. `cross_rack` counts source partitions of active tasks
    without a replica in the rack of their process. `probing_at_ms` is Kafka's own tick (epoch), None: not needed."""

    processes: tuple[ProcessSummary, ...]
    threads: int
    tasks: int
    warmups: tuple[CopyLag, ...]
    standbys: int
    lags: tuple[WorstLag, ...]
    standby_lag: int | None
    standby_lag_age_ms: int | None
    withheld: int
    cross_rack: int
    probing_at_ms: int | None

    @property
    def tasks_max(self) -> int:
        return max((p.active_stateful + p.active_stateless for p in self.processes), default=0)

    @property
    def tasks_min(self) -> int:
        return min((p.active_stateful + p.active_stateless for p in self.processes), default=0)


def report(decision: StreamsDecision) -> Report:
    """One round in numbers."""
    copies = decision.copy_lags()
    lags = worst_lags(copies)
    worst = max((lag for lag in lags if not lag.warmup), key=lambda found: found.lag, default=None)
    return Report(
        processes=decision.processes(),
        threads=int(decision.view.capacity.sum()),
        tasks=decision.view.tasks.size,
        warmups=tuple(copy for copy in copies if copy.warmup),
        standbys=sum(not copy.warmup for copy in copies),
        lags=lags,
        standby_lag=None if worst is None else worst.lag,
        standby_lag_age_ms=None if worst is None else worst.age_ms,
        withheld=int(decision.withheld.sum()),
        cross_rack=_cross_rack(decision),
        probing_at_ms=decision.probing_at_ms,
    )


def worst_lags(copies: Iterable[CopyLag]) -> tuple[WorstLag, ...]:
    """One for each subtopology with standbys, and one for each with warm-ups, as far as anything is known of them."""
    found: dict[tuple[int, bool], CopyLag] = {}
    for copy in copies:
        key = copy.task.subtopology, copy.warmup
        if copy.lag >= 0 and (key not in found or copy.lag > found[key].lag):
            found[key] = copy
    return tuple(WorstLag(*key, found[key].lag, found[key].age_ms) for key in sorted(found))


def streams_cause(previous: StreamsDecision | None, decision: StreamsDecision) -> Cause:
    """Why the round happened; `previous` is the last decision that was delivered to the same group."""
    if decision.shutdown:
        return Cause(Kind.SUBSCRIPTIONS, "a member asks to shut the application down")
    if previous is None:
        return Cause(Kind.FIRST, f"first plan, for {_counted(decision.view.size, 'process', 'processes')}")
    had, has = _threads(previous), _threads(decision)
    came, went = sorted(has.keys() - had.keys()), sorted(had.keys() - has.keys())
    if came or went:
        kind = Kind.EXCHANGED if came and went else Kind.JOINED if came else Kind.LEFT
        said = [f"{_listed({has[m] for m in came})} joined"] * bool(came)
        said += [f"{_listed({had[m] for m in went})} left or died"] * bool(went)
        return Cause(kind, ", ".join(said), (*came, *went))
    outside = _outsiders(decision) - _outsiders(previous), _outsiders(previous) - _outsiders(decision)
    if any(outside):
        said = [
            f"{_counted(len(ids), 'member', 'members')} without tasks {what}"
            for ids, what in zip(outside, ("joined", "left"), strict=True)
            if ids
        ]
        return Cause(Kind.EXCHANGED if all(outside) else Kind.JOINED if outside[0] else Kind.LEFT, ", ".join(said))
    resized = [
        t
        for t in decision.topology.source_topics
        if t in decision.cluster.index and _count(previous, t) != _count(decision, t)
    ]
    if resized:
        return Cause(Kind.METADATA, f"partitions changed of {', '.join(resized[:NAMES_SHOWN])}")
    if previous.followup:
        waiting = _counted(int(previous.withheld.sum()), "task", "tasks")
        return Cause(Kind.WITHHELD, f"{waiting} given up by the former owner can be handed out")
    if previous.probing_at_ms is not None:
        return Cause(Kind.PROBE, "a probe, to see which warm-ups have caught up")
    return Cause(Kind.AGAIN, "a member asked again, nothing changed")


def short(process_id: object) -> str:
    """What people can tell processes apart by."""
    return str(process_id)[:ID_CHARS]


def _threads(decision: StreamsDecision) -> dict[str, str]:
    """Member id -> short process id."""
    return {member: short(p.process_id) for p in decision.view.processes for member in p.members}


def _outsiders(decision: StreamsDecision) -> set[str]:
    """Members that are no threads, because nobody can read what they say."""
    return {decision.raw.others[row].member_id for row in decision.process_map.outsiders}


def _count(decision: StreamsDecision, topic: str) -> int:
    cluster = decision.cluster
    return int(cluster.counts[cluster.index[topic]]) if topic in cluster.index else 0


def _cross_rack(decision: StreamsDecision) -> int:
    view, table = decision.view, decision.view.tasks
    placed = np.flatnonzero(decision.plan.active >= 0)
    rack = view.rack[decision.plan.active[placed]]
    placed, rack = placed[rack >= 0], rack[rack >= 0]
    return int(table.source_remote[table.source_signature[placed], rack].sum()) if len(placed) else 0


def _listed(processes: set[str]) -> str:
    names = sorted(processes)
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    noun = "process" if len(names) == 1 else "processes"
    return f"{noun} {', '.join(names[:NAMES_SHOWN])}{more}"


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
