"""What `bellwether top` shows of a group: one line from what brokers show and what sidecars tell. Pure.

Brokers do not say who leads a classic group nor which generation it has; a sidecar that leads it does, on its page.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bellwether_kafka.coordinator.observation import Observation

BROKER, MEMBER, US, NOBODY = "its broker", "a member", "bellwether", "nobody"


@dataclass(frozen=True, slots=True)
class Told:
    """What sidecars say, by group: those that lead, with generations; the newest round of each."""

    leads: Mapping[str, int] = field(default_factory=dict)
    rounds: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, groups: Iterable[Mapping[str, Any]], lines: Iterable[Mapping[str, Any]]) -> "Told":
        """From the answers of /api/groups and /decisions of all sidecars together."""
        leads = {str(one["group"]): int(one["generation"]) for one in groups if one["leading"]}
        rounds: dict[str, Mapping[str, Any]] = {}
        for line in lines:
            known = rounds.get(line["group"])
            if known is None or line["decided_at_ms"] > known["decided_at_ms"]:
                rounds[line["group"]] = line
        return cls(leads, rounds)


@dataclass(frozen=True, slots=True)
class Row:
    """One group. `members` without sidecars; what nobody could tell is None. `cross_rack` and `could_be` (what our plan
    would make of it) count partitions read from another rack; `moved` what the last round moved."""

    group: str
    kind: str
    state: str
    leader: str
    generation: int | None
    members: int
    lag: int | None
    cross_rack: int | None
    could_be: int | None
    unowned: int | None
    cause: str
    moved: int | None
    cause_at_ms: int | None


def row_of(seen: Observation, told: Told, instance_ids: Sequence[str | None]) -> Row:
    """`instance_ids` are those of sidecars."""
    ours = [m for m in seen.members if m.instance_id is not None and m.instance_id in instance_ids]
    shadow, last = seen.shadow, told.rounds.get(seen.group_id)
    return Row(
        group=seen.group_id,
        kind=seen.kind,
        state=seen.state,
        leader=_leader(seen, told, sidecars=len(ours)),
        generation=told.leads.get(seen.group_id),
        members=len(seen.members) - len(ours),
        lag=seen.lag,
        cross_rack=shadow.current.cross_rack if shadow is not None else None,
        could_be=shadow.planned.cross_rack if shadow is not None else None,
        unowned=shadow.current.unowned if shadow is not None else None,
        cause=str(last["cause"]) if last is not None else seen.trouble,
        moved=int(last["moved"]) if last is not None else None,
        cause_at_ms=int(last["decided_at_ms"]) if last is not None else None,
    )


def ordered(rows: Iterable[Row]) -> list[Row]:
    """The one that is furthest behind first; unknown lags last."""
    return sorted(rows, key=lambda row: (-(row.lag if row.lag is not None else -1), row.group))


def _leader(seen: Observation, told: Told, *, sidecars: int) -> str:
    if seen.kind in ("consumer", "streams"):
        return BROKER
    if not seen.members:
        return NOBODY
    # A sidecar that does not lead leaves at once, so one that is a member leads.
    return US if seen.group_id in told.leads or sidecars else MEMBER
