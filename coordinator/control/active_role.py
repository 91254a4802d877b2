"""Which of several instances under one group.instance.id is the active one of a group: a pure fold of their heartbeats.

Time is counted in an instance's own regular heartbeats as they come back through the topic, never by a clock. An
instance has fallen silent when the own heartbeat has come back `HEARTBEATS_MISSED` times since its last one. So a topic
that nobody can reach raises no alarm, a paused process wakes up to the truth, and each reader of the same log comes to
the same answer. The instance of rank r among the living, by id, waits r heartbeats longer, so that one goes first.

A false alarm does no harm: joining under the same instance id only fences the older process, in the same generation
and without a rebalance (docs/reference/broker-behaviour.md#static-membership).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bellwether_kafka.coordinator.control.records import InstanceHeartbeat

HEARTBEATS_MISSED = 3
# Before an instance takes a group of which no heartbeat speaks it waits for the heartbeats of those that start with it.
HEARTBEATS_TO_SETTLE = 2
# A heartbeat of an instance that is gone is withdrawn from the topic after this many of Bellwether's.
HEARTBEATS_TO_FORGET = 600


@dataclass(slots=True)
class _Heard:
    """The last heartbeat of an instance; sets, because an instance may have thousands of groups."""

    instance: str
    leads: frozenset[str]
    claims: frozenset[str]
    standby_for: frozenset[str]
    hands_over: frozenset[str]
    at: int  # how often the own heartbeat had come back then
    order: int


class Instances:
    """One instance's view of all. Feed it every heartbeat in the order of the topic."""

    def __init__(self, own_id: str) -> None:
        self.own_id = own_id
        self._own = 0
        self._order = 0
        self._heard: dict[str, _Heard] = {}
        self._free_since: dict[str, int] = {}

    def heard(self, heartbeat: InstanceHeartbeat) -> None:
        self._order += 1
        if heartbeat.instance == self.own_id and not heartbeat.between:
            self._own += 1
        groups = (heartbeat.leads, heartbeat.claims, heartbeat.standby_for, heartbeat.hands_over)
        leads, claims, standby_for, gives = map(frozenset, groups)
        self._heard[heartbeat.instance] = _Heard(
            heartbeat.instance, leads, claims, standby_for, gives, self._own, self._order
        )

    def gone(self, instance: str) -> None:
        """Its heartbeat was withdrawn: it has stopped in good order."""
        self._heard.pop(instance, None)

    def started(self) -> None:
        """All of the topic has been read: an older heartbeat under Bellwether's own id was an earlier process of
        Bellwether's."""
        self._heard.pop(self.own_id, None)
        self._own = 0
        self._free_since.clear()
        for heard in self._heard.values():
            heard.at = 0

    def silence(self, instance: str) -> int:
        """Beats of this process since the other one was last heard."""
        return self._own - self._heard[instance].at

    def holder(self, group: str) -> str | None:
        """Another instance that leads or claims the group, the one that said so last; it may have fallen silent.

        One that hands the group over says so until it hears that it was fenced: the one that came since has the group.
        """
        found = [h for h in self._others() if group in h.leads or group in h.claims]
        return max(found, key=lambda h: (group not in h.hands_over, h.order)).instance if found else None

    def leader(self, group: str) -> str | None:
        """Another living instance that says it leads the group."""
        return next((h.instance for h in self._others() if group in h.leads and self._lives(h.instance)), None)

    def successors(self, group: str) -> list[str]:
        """Living instances that stand by for the group, by rank; this one not counted."""
        return sorted(h.instance for h in self._others() if group in h.standby_for and self._lives(h.instance))

    def living(self) -> list[str]:
        """Other instances that have been heard lately."""
        return sorted(h.instance for h in self._others() if self._lives(h.instance))

    def reason_to_take_over(self, group: str) -> str:
        """Why this standby should take the group over now; "" when it should not."""
        rank = sum(instance < self.own_id for instance in self.successors(group))
        holder = self.holder(group)
        if holder is None:
            due = max(HEARTBEATS_TO_SETTLE, self._free_since.setdefault(group, self._own)) + rank
            return "no instance of Bellwether leads it" if self._own >= due else ""
        self._free_since.pop(group, None)
        if group in self._heard[holder].hands_over:
            return f"{holder} hands it over" if self.silence(holder) >= rank else ""
        if self._own < HEARTBEATS_MISSED or self.silence(holder) < HEARTBEATS_MISSED + rank:
            return ""
        return f"the heartbeat of {holder} has stopped"

    def must_yield(self, group: str, *, leading: bool, fenced: bool = False) -> str:
        """Which other living instance this active one must make way for; "" for none. A leader waits to be fenced."""
        if leading:
            return ""
        for heard in self._others():
            name = heard.instance
            if not self._lives(name) or group in heard.hands_over:
                continue
            if group in heard.leads or (group in heard.claims and (fenced or name < self.own_id)):
                return name
        return ""

    def forgotten(self) -> list[str]:
        """Instances so long silent that their heartbeats may be withdrawn."""
        return [h.instance for h in self._others() if self._own - h.at >= HEARTBEATS_TO_FORGET]

    def _lives(self, instance: str) -> bool:
        return self.silence(instance) < HEARTBEATS_MISSED

    def _others(self) -> Iterator[_Heard]:
        return (h for name, h in self._heard.items() if name != self.own_id)
