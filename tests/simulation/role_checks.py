"""Promise P6: what a sidecar says of its role is what the broker would say (docs/reference/reliability.md#promises).

A sidecar can know no more than brokers have told it. So a wrong role counts once it has lasted for two heartbeats and
an answer that was given since has arrived; whoever has heard nothing for a session timeout may not say that it leads.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bellwether_kafka.coordinator.membership import NotLeading
from bellwether_kafka.coordinator.membership import events as e
from bellwether_kafka.coordinator.membership.errors import Action, Code, action_for
from bellwether_kafka.coordinator.membership.transitions import State
from tests.simulation.brokers.group_model import PREPARING, STABLE

if TYPE_CHECKING:
    from tests.simulation.sidecar import Sidecar
    from tests.simulation.world import World

WAY_S = 1.0  # there and back, and a little
NOBODY = (NotLeading.EMPTY, NotLeading.UNKNOWN_GROUP)
SOMEBODY = (NotLeading.LEADER_STAYS, NotLeading.UNDECLARED, NotLeading.BLOCKED)  # leads, and we do not
SOON = (NotLeading.JOINING, NotLeading.TAKING_OVER)
TELLING = e.JoinAnswer | e.SyncAnswer | e.HeartbeatAnswer | e.DescribeAnswer
UNTOLD = (Action.RETRY, Action.FIND, Action.USE_MEMBER_ID)  # these errors say nothing about the group


@dataclass(slots=True)
class Contact:
    """Of one process: when it began or woke up, when the last answer came that says something about the group, and what
    has been wrong since when."""

    process: int
    heard_at: float
    wrong: str = ""
    wrong_since: float = 0.0
    told: bool = False  # an answer has come that was given while it was wrong

    def hear(self, answer: Any, now: float) -> None:
        if not isinstance(answer, TELLING):
            return
        if answer.error != Code.GROUP_ID_NOT_FOUND and action_for(answer.error) in UNTOLD and answer.error:
            return
        self.heard_at = now
        self.told = self.told or (bool(self.wrong) and now > self.wrong_since + WAY_S)


class RoleChecks:
    """`longest` is what was wrong for longest, in seconds, by what it was."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.longest: dict[str, float] = {}
        self._contacts: dict[str, Contact] = {}

    def heard(self, sidecar: "Sidecar", answer: Any) -> None:
        contact = self._contacts.get(sidecar.name)
        if contact is not None and contact.process == sidecar.process:
            contact.hear(answer, self.world.clock.now)

    def step(self) -> None:
        for sidecar in self.world.sidecars:
            self._look_at(sidecar)

    def _look_at(self, sidecar: "Sidecar") -> None:
        now = self.world.clock.now
        if sidecar.machine is None or now < sidecar.paused_until:
            self._contacts.pop(sidecar.name, None)
            return
        contact = self._contacts.get(sidecar.name)
        if contact is None or contact.process != sidecar.process:
            contact = self._contacts[sidecar.name] = Contact(sidecar.process, now)
        self._silence(sidecar, contact)
        wrong, limit_s = self._wrong(sidecar)
        if wrong != contact.wrong:
            contact.wrong, contact.wrong_since, contact.told = wrong, now, False
        lasted_s = now - contact.wrong_since
        if not wrong or not contact.told:
            return
        self.longest[wrong] = max(lasted_s, self.longest.get(wrong, 0.0))
        if lasted_s > limit_s and now > contact.heard_at:
            self.world.violate(f"{sidecar.name} {wrong} for {lasted_s:.1f} s; it says {self._said(sidecar)}")

    def _silence(self, sidecar: "Sidecar", contact: Contact) -> None:
        config = self.world.config
        silent_s = self.world.clock.now - contact.heard_at
        limit_s = (config.session_timeout_ms + config.heartbeat_interval_ms) / 1000 + WAY_S
        if sidecar.role.leading and silent_s > limit_s:
            self.world.violate(f"{sidecar.name} says that it leads, and has heard nothing for {silent_s:.1f} s")

    def _said(self, sidecar: "Sidecar") -> str:
        role = sidecar.role
        return "that it leads" if role.reason is None else f"{role.reason.value} ({role.detail})"

    # ---- what is wrong ---------------------------------------------------------------------------------------------

    def _wrong(self, sidecar: "Sidecar") -> tuple[str, float]:
        """What a role contradicts, "" for nothing, and for how many seconds it may."""
        config = self.world.config
        heartbeats_s = 2 * config.heartbeat_interval_ms / 1000 + WAY_S
        if not self.world.broker.at_work or sidecar.role.reason is NotLeading.LEAVING:
            return "", 0.0
        if sidecar.membership.state is State.WATCHING:
            look_s = config.watch_interval_ms / 1000 + WAY_S
            return self._wrong_watching(sidecar), max(heartbeats_s, look_s)
        return self._wrong_inside(sidecar), heartbeats_s

    def _wrong_inside(self, sidecar: "Sidecar") -> str:
        group, role = self.world.broker.group, sidecar.role
        if role.reason is NotLeading.UNKNOWN_GROUP and self.world.committed:
            return "does not know a group that has offsets"
        leads = group.leader in group.seats and group.leader == sidecar.membership.member_id
        if not leads:
            return "does not lead" if role.leading or role.reason in NOBODY else ""
        if group.state == PREPARING and role.reason in SOON:
            return ""  # who leads is not known before the round has ended
        if group.state != STABLE:
            return "" if role.leading or role.reason in NOBODY else "leads"
        if len(group.seats) == 1:
            return "" if role.reason in NOBODY else "is alone"
        return "" if role.leading else "leads"

    def _wrong_watching(self, sidecar: "Sidecar") -> str:
        group, role = self.world.broker.group, sidecar.role
        ours = self.world.config.instance_id  # without one, a second sidecar is a member like any other
        others = any(ours is None or seat.instance_id != ours for seat in group.seats.values())
        if role.reason in NOBODY and others:
            return "watches a group of others"
        if role.reason in SOMEBODY and not others:
            return "watches a group without others"
        return "says that it leads while it watches" if role.leading else ""
