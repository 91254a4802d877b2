"""Checks that every subscribed topic of a plain consumer group has an owner: requests a plan, and hands the group back
if that does not help. Uses the descriptions of stable groups that the runtime reads anyway."""

from collections.abc import Callable, Mapping
from typing import Protocol

from bellwether_kafka.assignors.consumer import PartitionPlan
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.membership import (
    Event,
    MembershipView,
    Note,
    NoteKind,
    RebalanceWanted,
    ShownGroup,
    StepAsideWanted,
)
from bellwether_kafka.coordinator.planning import Planned
from bellwether_kafka.coordinator.triggers.work import OwnerWork


class LedOwners(Protocol):
    """The part of `runtime.GroupRunner` that this module uses."""

    @property
    def membership(self) -> MembershipView: ...
    def post(self, event: Event) -> None: ...


class OwnerWatch:
    """Watches all plain consumer groups of a process. `led` is by group."""

    def __init__(self, led: Mapping[str, LedOwners], clock: Callable[[], float] = clocks.monotonic) -> None:
        self._led = led
        self._clock = clock
        self._owners: dict[str, OwnerWork] = {}

    def on_decision(self, planned: Planned[PartitionPlan]) -> None:
        decision = planned.decision
        owners = self._owners.setdefault(decision.raw.group_id, OwnerWork())
        owners.planned(decision.cluster, int(self._clock() * 1000))

    def on_note(self, group: str, note: Note) -> None:
        if note.kind in (NoteKind.LEFT, NoteKind.WATCHING):
            self._owners.pop(group, None)

    def on_shown(self, group: str, described: ShownGroup) -> None:
        """Checks a stable group. Ignored while partitions are pending, because they have no owner for a moment."""
        owners = self._owners.get(group)
        if owners is None or self._led[group].membership.hands_over:
            return
        member_id = self._led[group].membership.member_id
        others = [member for member in described.members if member.member_id != member_id]
        unserved = owners.shown(others, int(self._clock() * 1000))
        if unserved is not None:
            reason = unserved.reason
            self._led[group].post(StepAsideWanted(reason) if unserved.lasting else RebalanceWanted(reason, "owners"))
