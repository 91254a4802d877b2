"""The table of triggers: every reason for a leader to ask for a rebalance, to hand the lead back or to alert.

A trigger is a function without I/O. It judges a picture with the state that it returned for the picture before, None at
first. It is evaluated again and again, so an event that is lost is found anew. Readings are made only while a trigger
wants them. What it asks for repeatedly is damped by its subject (`membership.Reactions`), which also keeps the least
interval between rebalances.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bellwether_kafka.coordinator.membership import State
from bellwether_kafka.coordinator.triggers.load import load, load_wants
from bellwether_kafka.coordinator.triggers.members import (
    duels,
    members,
    members_wants,
    owners,
    racks,
    racks_wants,
)
from bellwether_kafka.coordinator.triggers.picture import Findings, Picture, Reading
from bellwether_kafka.coordinator.triggers.probing import probing, probing_keeps, probing_wants
from bellwether_kafka.coordinator.triggers.work import work, work_wants

PREPARE_INTERVAL_S = 30.0

Judge = Callable[[Picture, Any], tuple[Any, Findings]]
Wants = Callable[[Picture, Any], Mapping[Reading, float]]


def _forgets(_state: object) -> None:
    return None


def _keeps(state: object) -> object:
    return state


def _quiet(_picture: Picture, state: object) -> tuple[object, Findings]:
    return state, ()


def _commits(picture: Picture, _state: object) -> tuple[None, Findings]:
    """Consumers that assign themselves partitions, or a mirror of another cluster, commit while the group has no
    members; the membership decides what follows."""
    return None, (picture.commits,) if picture.commits is not None and picture.member.watches_memberless else ()


def _topics_wants(picture: Picture, _state: object) -> Mapping[Reading, float]:
    """Internal topics are created before the first member comes."""
    return {Reading.TOPICS: PREPARE_INTERVAL_S} if picture.config is not None and picture.member.alone else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """`judge` gets a picture in one of `states`: each turn, after each plan, and when there is one of the readings that
    it `reads`. `wants` returns which readings are to be made, with the seconds between two. `keeps` returns what is
    kept of the state after Bellwether has left the group. `of_application`: it is of applications only, or of plain
    consumers only; None for both."""

    judge: Judge = _quiet
    wants: Wants | None = None
    keeps: Callable[[Any], object] = _forgets
    states: frozenset[State] = frozenset({State.STABLE})
    reads: frozenset[Reading] = frozenset()
    of_application: bool | None = None

    def judges(self, state: State, reading: Reading | None) -> bool:
        return state in self.states and (reading is None or reading in self.reads)


DESCRIBED = frozenset({Reading.DESCRIPTION})

TRIGGERS: dict[str, Trigger] = {
    "work": Trigger(judge=work, wants=work_wants, reads=frozenset({Reading.OFFSETS}), of_application=True),
    "probing": Trigger(
        judge=probing,
        wants=probing_wants,
        keeps=probing_keeps,
        reads=frozenset({Reading.END_SUMS}),
        of_application=True,
    ),
    "load": Trigger(judge=load, wants=load_wants, keeps=_keeps, reads=frozenset({Reading.MOVED})),
    "owners": Trigger(judge=owners, reads=DESCRIBED, of_application=False),
    "duels": Trigger(judge=duels, keeps=_keeps, reads=DESCRIBED),
    "members": Trigger(judge=members, wants=members_wants, keeps=_keeps, reads=DESCRIBED),
    "racks": Trigger(
        judge=racks,
        wants=racks_wants,
        reads=frozenset({Reading.RACKS}),
        states=frozenset({State.STABLE, State.JOINING}),
    ),
    "commits": Trigger(judge=_commits, reads=frozenset({Reading.COMMITS}), states=frozenset({State.WATCHING})),
    "topics": Trigger(wants=_topics_wants, of_application=True),
}
