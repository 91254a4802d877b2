"""Promise P6: what an instance says of its role is what the broker would say (docs/internals/reliability.md#promises).

An instance knows no more than brokers have answered. So a wrong role counts once it has lasted for two heartbeats and
an answer that was given since has arrived; an instance without an answer for a session timeout may not say that it
leads.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import Code, NotLeading, State
from tests.simulation.brokers.group_states import PREPARING, STABLE

if TYPE_CHECKING:
    from tests.simulation.instance import Instance
    from tests.simulation.world import World

WAY_S = 1.0  # there and back, and a little
NOBODY = (NotLeading.EMPTY, NotLeading.UNKNOWN_GROUP)
ANOTHER_LEADS = (NotLeading.MEMBER_LEADS, NotLeading.UNDECLARED, NotLeading.BLOCKED)  # leads, and Bellwether does not
SOON = (NotLeading.JOINING, NotLeading.TAKING_OVER)
REPORTING = membership.JoinAnswer | membership.SyncAnswer | membership.HeartbeatAnswer | membership.DescribeAnswer
UNTOLD = (  # these errors say nothing about the group
    Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_COORDINATOR,
    Code.MEMBER_ID_REQUIRED,
)


@dataclass(slots=True)
class Contact:
    """Of one process: when it began or woke up, when the last answer came that says something about the group, and what
    has been wrong since when."""

    process: int
    received_at: float
    wrong: str = ""
    wrong_since: float = 0.0
    reported: bool = False  # an answer has come that was given while it was wrong

    def receive(self, answer: Any, now: float) -> None:
        if not isinstance(answer, REPORTING):
            return
        if answer.error in UNTOLD:
            return
        self.received_at = now
        self.reported = self.reported or (bool(self.wrong) and now > self.wrong_since + WAY_S)


class RoleChecks:
    """`longest` is what was wrong for longest, in seconds, by what it was."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.longest: dict[str, float] = {}
        self._contacts: dict[str, Contact] = {}

    def received(self, instance: "Instance", answer: Any) -> None:
        contact = self._contacts.get(instance.name)
        if contact is not None and contact.process == instance.process:
            contact.receive(answer, self.world.clock.now)

    def step(self) -> None:
        for instance in self.world.instances:
            self._refresh_at(instance)

    def _refresh_at(self, instance: "Instance") -> None:
        now = self.world.clock.now
        if instance.machine is None or now < instance.paused_until:
            self._contacts.pop(instance.name, None)
            return
        contact = self._contacts.get(instance.name)
        if contact is None or contact.process != instance.process:
            contact = self._contacts[instance.name] = Contact(instance.process, now)
        self._silence(instance, contact)
        wrong, limit_s = self._wrong(instance)
        if wrong != contact.wrong:
            contact.wrong, contact.wrong_since, contact.reported = wrong, now, False
        lasted_s = now - contact.wrong_since
        if not wrong or not contact.reported:
            return
        self.longest[wrong] = max(lasted_s, self.longest.get(wrong, 0.0))
        if lasted_s > limit_s and now > contact.received_at:
            self.world.violate(f"{instance.name} {wrong} for {lasted_s:.1f} s; it says {self._message(instance)}")

    def _silence(self, instance: "Instance", contact: Contact) -> None:
        config = self.world.config
        silent_s = self.world.clock.now - contact.received_at
        limit_s = (config.session_timeout_ms + config.heartbeat_interval_ms) / 1000 + WAY_S
        if instance.role.leading and silent_s > limit_s:
            self.world.violate(f"{instance.name} says that it leads, and has heard nothing for {silent_s:.1f} s")

    def _message(self, instance: "Instance") -> str:
        role = instance.role
        return "that it leads" if role.reason is None else f"{role.reason.value} ({role.detail})"

    # ---- what is wrong -----------------------------------------------------------------------------------------------

    def _wrong(self, instance: "Instance") -> tuple[str, float]:
        """What a role contradicts, "" for nothing, and for how many seconds it may."""
        config = self.world.config
        heartbeats_s = 2 * config.heartbeat_interval_ms / 1000 + WAY_S
        if not self.world.broker.at_work or instance.role.reason is NotLeading.LEAVING:
            return "", 0.0
        if instance.membership.state is State.WATCHING:
            refresh_s = config.watch_interval_ms / 1000 + WAY_S
            return self._wrong_watching(instance), max(heartbeats_s, refresh_s)
        return self._wrong_inside(instance), heartbeats_s

    def _wrong_inside(self, instance: "Instance") -> str:
        group, role = self.world.broker.group, instance.role
        if role.reason is NotLeading.UNKNOWN_GROUP and self.world.committed:
            return "does not know a group that has offsets"
        leads = group.leader in group.member_entries and group.leader == instance.membership.member_id
        if not leads:
            return "does not lead" if role.leading or role.reason in NOBODY else ""
        if group.state == PREPARING and role.reason in SOON:
            return ""  # who leads is not known before the rebalance has ended
        if group.state != STABLE:
            return "" if role.leading or role.reason in NOBODY else "leads"
        if len(group.member_entries) == 1:
            return "" if role.reason in NOBODY else "is alone"
        return "" if role.leading else "leads"

    def _wrong_watching(self, instance: "Instance") -> str:
        group, role = self.world.broker.group, instance.role
        others = any(not self.world.is_own(member_id) for member_id in group.member_entries)  # than instances of ours
        if role.reason in NOBODY and others:
            return "watches a group of others"
        # While a rebalance is under way, brokers do not tell that a member without an instance id is one of ours.
        told_apart = self.world.config.instance_id is not None or not group.member_entries
        if role.reason in ANOTHER_LEADS and not others and told_apart:
            return "watches a group without others"
        return "says that it leads while it watches" if role.leading else ""
