"""Promise P7: the lead is handed back once in a day, and taken again only with a proof
(docs/internals/reliability.md#promises).

What an instance may know is what it saw itself, or what an earlier process has written to the control topic, which is
read a while after the start.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import NoteKind
from tests.simulation.brokers.group_states import STABLE

if TYPE_CHECKING:
    from tests.simulation.instance import Instance
    from tests.simulation.world import World

DRY_RUN = -1  # the generation of a plan that is only compared

DAY_S = 86_400.0
READ_S = 3.0  # from the start of a process until it has read what was kept
LED_S_MAX = READ_S + 3.0  # for so long a process that has not read it may lead, and leave
BEGINNING = "handed back: "


@dataclass(slots=True)
class Kept:
    """Of the last hand-back. `proven`: a dry run has shown since that the plan would differ no more."""

    at: float
    reason: str
    proven: bool = False
    led_since: float | None = None


class HandBackChecks:
    """By the name of the instance, over all of its processes."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self._kept: dict[str, Kept] = {}

    def noted(self, instance: "Instance", note: membership.Note) -> None:
        if note.kind is not NoteKind.ALERT or not note.reason.startswith(BEGINNING):
            return
        now, last = self.world.clock.now, self._kept.get(instance.name)
        if last is not None and now - last.at < DAY_S:
            self.world.violate(f"{instance.name} hands the lead back a second time, {now - last.at:.0f} s later")
        self._kept[instance.name] = Kept(now, note.reason.removeprefix(BEGINNING))

    def handled(self, instance: "Instance", event: membership.Event) -> None:
        kept = self._kept.get(instance.name)
        shown = isinstance(event, membership.ComparisonReady) and event.generation == DRY_RUN and not event.worth_moving
        if kept is not None and shown:
            kept.proven = True

    def step(self) -> None:
        group, now = self.world.broker.group, self.world.clock.now
        for instance in self.world.instances:
            kept = self._kept.get(instance.name)
            if kept is None or kept.proven:
                continue
            up = instance.machine is not None and self.world.broker.at_work and now >= instance.paused_until
            others = group.state == STABLE and len(group.member_entries) > 1
            if not (
                up and others and group.leader in group.member_entries and group.leader == instance.membership.member_id
            ):
                kept.led_since = None
                continue
            kept.led_since = now if kept.led_since is None else kept.led_since
            if now - kept.led_since > LED_S_MAX:
                self.world.violate(f"{instance.name} has handed the lead back, and leads again without a proof")
