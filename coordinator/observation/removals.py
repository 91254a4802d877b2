"""Forecasts which members a take-over would remove from an observed group, and at what cost for them. Pure.

Brokers send the leader's id only to members, so the leader is unknown until Bellwether joins.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from bellwether_kafka.coordinator.membership import (
    STREAMS_PROTOCOL,
    Forecasts,
    GroupState,
    MembershipConfig,
    SizeLimit,
    blocked,
    tables,
)
from bellwether_kafka.coordinator.observation.observation import Observation, ObservedMember

MEASURED_AGAIN = "bellwether run measures that again before each attempt, and disturbs no member where it is too slow."
UNKNOWN_LEADER = "The leader is unknown until Bellwether joins"


@dataclass(frozen=True, slots=True)
class FirstSlot:
    """The members in the first slot of a table with `slots` slots, with the cost of removing each."""

    slots: int
    members: dict[str, str]


@dataclass(frozen=True, slots=True)
class Removals:
    """The forecast of a take-over. `leader` is "" if unknown. `removed` are the members removed with it, each with the
    cost; one of `perhaps` is removed too if Bellwether finds no member id that sorts first in time. `temporary` is the
    number of Bellwether's members that first make the table grow. If `begins` is false, no member is disturbed, and
    `reason` contains why and the remedy; `by_pace` is true if only the time that the broker takes to answer now keeps
    it from beginning."""

    leader: str
    removed: dict[str, str]
    perhaps: dict[str, str]
    temporary: int
    begins: bool
    reason: str
    by_pace: bool
    first_slots: tuple[FirstSlot, ...]

    def sentences(self) -> Iterator[str]:
        """Yields sentences: which members are removed, at what cost, and which are in the first slot of each table."""
        if not self.begins:
            now = " now" if self.by_pace else ""
            yield f"A take-over would not begin{now}: {self.reason}."
            if self.by_pace:
                yield MEASURED_AGAIN
        else:
            who = f"{self.leader} leads" if self.leader else UNKNOWN_LEADER
            more = "".join(f", and with it {member} ({cost})" for member, cost in self.removed.items())
            more = more or ", and no other member" * (not self.perhaps)
            yield f"{who}; a take-over removes the leader{more}."
            if self.perhaps:
                also = _named(self.perhaps)
                yield f"Where no member id of Bellwether's sorts first in time, it removes one more: {also}."
            if self.temporary:
                yield f"First {self.temporary} temporary members of Bellwether's make the broker's table grow."
        slots = [
            f"{_sizes([slot.slots for slot in same])} slots: {_named(members)}"
            for members, same in ((m, list(s)) for m, s in groupby(self.first_slots, lambda slot: slot.members))
        ]
        if any(slot.members for slot in self.first_slots):
            yield f"In the first slot of the broker's table of members, by its size: {'; '.join(slots)}."


def removals(
    seen: Observation, config: MembershipConfig, size_limit: SizeLimit, answer_time_ms: float | None = None
) -> Removals | None:
    """Returns the forecast, or None if there is none: the group has no member, is rebalancing, lists its members in an
    unknown order, or is one that Bellwether leads already or may not take over. `answer_time_ms`: how long the broker
    takes to answer DescribeGroups, None if that is not known."""
    ids = [member.member_id for member in seen.members]
    possible = tables(ids)
    at_rest = seen.state == GroupState.STABLE and seen.can_be_led and not seen.bellwether_members
    if not (ids and possible and at_rest) or config.adopt != "take-over" or config.takeover_obstacle is not None:
        return None
    tries = config.tries_max(answer_time_ms)
    foreseen = Forecasts().forecast(ids, possible, "", config.evictions_max, size_limit.members, tries)
    costs = {member.member_id: _cost(member, streams=seen.protocol == STREAMS_PROTOCOL) for member in seen.members}
    slots = (FirstSlot(size, {m: costs[m] for m in first}) for size, first in foreseen.first_slots().items())
    return Removals(
        leader=foreseen.leader,
        removed={m: costs[m] for m in foreseen.with_leader},
        perhaps={m: costs[m] for m in foreseen.perhaps} if foreseen.begins else {},
        temporary=foreseen.chosen.temporary if foreseen.begins else 0,
        begins=foreseen.begins,
        reason=blocked(foreseen, size_limit, answer_time_ms),
        by_pace=not foreseen.begins and replace(foreseen, tries=config.tries_max()).begins,
        first_slots=tuple(slots),
    )


def _cost(member: ObservedMember, *, streams: bool) -> str:
    """Returns what a member loses until it has rejoined under a new id."""
    if streams and member.active:
        tasks = f"{len(member.active)} active task{'s' * (len(member.active) != 1)}"
        return f"closes {tasks} dirty: without a commit, and under exactly-once without its state"
    if streams:
        return "has no active task"
    if not member.owned:
        return "has no partition"
    count = len(member.owned)
    return f"{count} partition{'s' * (count != 1)} without an owner until it is back"


def _named(members: dict[str, str]) -> str:
    return ", ".join(f"{member} ({cost})" for member, cost in members.items()) or "no member"


def _sizes(sizes: list[int]) -> str:
    return str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
