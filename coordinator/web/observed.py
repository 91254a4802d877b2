"""The present assignment of an observed group in the form of a picture, with the moves of the shadow plan. It consists
of plain values for JSON, which the status page draws like a rebalance. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, GroupPlan, Owner
from bellwether_kafka.coordinator.observation import (
    Observation,
    ObservedMember,
    SeenRebalance,
    Shadow,
    group_values,
)
from bellwether_kafka.coordinator.web.led_lags import LISTED_MAX, lags_by_name
from bellwether_kafka.coordinator.web.picture import (
    ITEMS_MAX,
    MOVES_MAX,
    NEUTRAL,
    STANDBY,
    Holder,
    Move,
    PictureItem,
    items_of,
    moves_from,
)

SHOWN_OF_A_MEMBER = ("member_id", "instance_id", "client_id", "client_host", "rack", "lag", "unknown_lags", "trouble")


@dataclass(frozen=True, slots=True)
class Present:
    """The fields are as in `Picture`, except that `holders` have their present items and `moves` are those of the
    shadow plan. Without a plan it is unknown which items are read from another rack, so all of them are neutral.

    `observed` is the observation as values for JSON, without the items of `holders`, and with `rebalances`, the newest
    first.
    """

    group: str
    kind: str
    protocol: str
    holders: tuple[Holder, ...]
    racks: tuple[str, ...]
    moves: tuple[Move, ...]
    truncated: bool
    observed: Mapping[str, Any]


def present(seen: Observation, rebalances: Sequence[SeenRebalance] = ()) -> Present:
    shadow, lags = seen.shadow, _lags(seen)
    owners = _owners(seen, shadow, lags) if shadow is not None else []
    shown = {member for holder in owners for member in holder.members}
    holders = [*owners, *(_alone(member, lags) for member in seen.members if member.member_id not in shown)]
    listed = _listed(holders)
    changed = _changed(shadow) if shadow is not None else np.empty(0, dtype=np.int64)
    racks = {holder.rack for holder in holders if holder.rack}
    tasks = any(member.active for member in seen.members)
    return Present(
        group=seen.group_id,
        kind=shadow.decision.plan.words.kind if shadow is not None else "streams" if tasks else "consumer",
        protocol=seen.assigned_with,
        holders=listed,
        racks=tuple(sorted(racks.union(shadow.decision.plan.cluster.racks) if shadow is not None else racks)),
        moves=moves_from(shadow.decision, shadow.present, changed[:MOVES_MAX]) if shadow is not None else (),
        truncated=sum(len(h.items) for h in listed) >= ITEMS_MAX or len(changed) > MOVES_MAX,
        observed=_document(seen, rebalances),
    )


def _owners(seen: Observation, shadow: Shadow, lags: Mapping[str, int]) -> list[Holder]:
    """Returns the members or processes of the plan with their present items."""
    plan, members = shadow.decision.plan, {member.member_id: member for member in seen.members}
    items = items_of(plan, shadow.present, np.zeros(len(shadow.present), dtype=np.bool_), lags)
    return [
        Holder(owner.name, owner.rack, owner.members, (*has, *_standbys(members, owner, plan)), owner.degraded)
        for owner, has in zip(plan.owners, items, strict=True)
    ]


def _standbys(members: Mapping[str, ObservedMember], owner: Owner, plan: GroupPlan) -> list[PictureItem]:
    """Returns the standbys of an owner. Those that the shadow plan keeps have the lag that the process reported."""
    copies = {
        str(copy.task): copy for copy in plan.state.copies if str(copy.process_id) == owner.name and copy.lag >= 0
    }
    tasks = [task for name in owner.members if name in members for task in members[name].standby]
    plain = (PictureItem(task, STANDBY) for task in tasks)
    return [
        replace(item, lag=copies[item.name].lag, lag_age_ms=copies[item.name].age_ms) if item.name in copies else item
        for item in plain
    ]


def _alone(member: ObservedMember, lags: Mapping[str, int]) -> Holder:
    """Returns a member that is not in the plan, with its assignment as far as it could be decoded."""
    active = member.active or [f"{topic}-{partition}" for topic, partition in member.owned]
    items = (
        *(PictureItem(name, NEUTRAL, lag=lags.get(name)) for name in active),
        *(PictureItem(task, STANDBY) for task in member.standby),
    )
    return Holder(member.member_id, member.rack, (member.member_id,), items, member.trouble or None)


def _listed(holders: Iterable[Holder]) -> tuple[Holder, ...]:
    """Returns the holders with at most ITEMS_MAX items in total."""
    left, listed = ITEMS_MAX, []
    for holder in holders:
        listed.append(holder if len(holder.items) <= left else replace(holder, items=holder.items[:left]))
        left -= len(listed[-1].items)
    return tuple(listed)


def _changed(shadow: Shadow) -> Any:
    return np.flatnonzero((shadow.present != shadow.decision.plan.owner) & (shadow.present != NOBODY))


def _lags(seen: Observation) -> Mapping[str, int]:
    if seen.shadow is None:
        pairs = ((f"{topic}-{p}", lag) for topic, lags in seen.lags.items() for p, lag in enumerate(lags))
        return {name: lag for name, lag in pairs if lag is not None}
    plan = seen.shadow.decision.plan
    tasks = [None if item == NOBODY else plan.state.task(item) or "" for item in plan.item_of.tolist()]
    return lags_by_name(plan.cluster, tasks, seen.lags)


def _document(seen: Observation, rebalances: Iterable[SeenRebalance]) -> dict[str, Any]:
    members = [{name: getattr(member, name) for name in SHOWN_OF_A_MEMBER} for member in seen.members]
    return group_values(seen, LISTED_MAX) | {
        "members": members,
        "rebalances": [asdict(rebalance) for rebalance in rebalances],
    }
