"""Watches that every subscribed topic of a plain consumer group has an owner: asks for a plan, and steps aside where
that does not help. It takes the descriptions of groups at rest that the runtime has anyway."""

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from bellwether_kafka.assignors.consumer import PartitionPlan
from bellwether_kafka.coordinator.membership import (
    Event,
    MembershipView,
    Note,
    NoteKind,
    RebalanceWanted,
    ShownGroup,
    StepAsideWanted,
)
from bellwether_kafka.coordinator.planning import PlannedRebalance
from bellwether_kafka.coordinator.triggers.work import OwnerWork


class LedOwners(Protocol):
    """What is needed of `runtime.GroupRunner`."""

    @property
    def membership(self) -> MembershipView: ...
    def post(self, event: Event) -> None: ...


class OwnerWatch:
    """All plain consumer groups of a process. `led` is by group."""

    def __init__(self, led: Mapping[str, LedOwners], wall_clock: Callable[[], float] = time.time) -> None:
        self._led = led
        self._wall_clock = wall_clock
        self._owners: dict[str, OwnerWork] = {}

    def on_decision(self, planned: PlannedRebalance[PartitionPlan]) -> None:
        decision = planned.chosen.decision
        owners = self._owners.setdefault(decision.raw.group_id, OwnerWork())
        owners.planned(decision.cluster, int(self._wall_clock() * 1000))

    def on_note(self, group: str, note: Note) -> None:
        if note.kind in (NoteKind.LEFT, NoteKind.WATCHING):
            self._owners.pop(group, None)

    def on_shown(self, group: str, found: ShownGroup) -> None:
        """A group at rest. What is to be handed over has no owner for a moment, and says nothing."""
        owners = self._owners.get(group)
        if owners is None or self._led[group].membership.hands_over:
            return
        member_id = self._led[group].membership.member_id
        others = [member for member in found.members if member.member_id != member_id]
        unserved = owners.shown(others, int(self._wall_clock() * 1000))
        if unserved is not None:
            reason = unserved.reason
            self._led[group].post(StepAsideWanted(reason) if unserved.lasting else RebalanceWanted(reason))
