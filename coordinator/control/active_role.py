"""Decides which of several instances with the same group.instance.id is active for a group. A pure fold of heartbeats.

An instance measures time by its own regular heartbeats read back from the topic, not by a clock. Another instance is
silent once `HEARTBEATS_MISSED` own heartbeats were read since its last one. Hence an unreachable topic causes no
take-over, a paused process first reads what it missed, and all readers of the log reach the same result. The instance
of rank r among the living, by id, waits r heartbeats longer, so that one of them is first.

A needless take-over is harmless: joining under the same instance id only fences the older process, in the same
generation and without a rebalance (docs/internals/broker-behaviour.md#static-membership).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bellwether_kafka.coordinator.control.records import InstanceHeartbeat

HEARTBEATS_MISSED = 3
# Before an instance takes a group that no heartbeat names, it waits for the heartbeats of instances that start with it.
HEARTBEATS_TO_SETTLE = 2
# The last heartbeat of a silent instance is removed from the topic after this many heartbeats of this instance.
HEARTBEATS_TO_FORGET = 600


@dataclass(slots=True)
class _LastHeartbeat:
    """The last heartbeat of an instance, with sets for fast look-up, since it may have thousands of groups."""

    instance: str
    leads: frozenset[str]
    claims: frozenset[str]
    standby_for: frozenset[str]
    hands_over: frozenset[str]
    serves: frozenset[str]  # without those that it would lead
    at: int  # the number of own heartbeats read before it
    order: int

    def sets(self) -> tuple[frozenset[str], ...]:
        return self.leads, self.claims, self.standby_for, self.hands_over, self.serves


class Instances:
    """One instance's view of all instances. It must get all heartbeats in the order of the topic."""

    def __init__(self, own_id: str) -> None:
        self.own_id = own_id
        self._own = 0
        self._order = 0
        self._last: dict[str, _LastHeartbeat] = {}
        self._free_since: dict[str, int] = {}

    def received(self, heartbeat: InstanceHeartbeat) -> frozenset[str]:
        """Takes a heartbeat. Returns the groups of which another instance now says something else. An own regular one
        may change something for every group: it is how time passes."""
        self._order += 1
        name = heartbeat.instance
        if name == self.own_id and not heartbeat.between:
            self._own += 1
        before = self._last.get(name)
        back = before is not None and not self._lives(name)
        now = self._last[name] = _LastHeartbeat(
            instance=heartbeat.instance,
            leads=frozenset(heartbeat.leads),
            claims=frozenset(heartbeat.claims),
            standby_for=frozenset(heartbeat.standby_for),
            hands_over=frozenset(heartbeat.hands_over),
            serves=frozenset(heartbeat.serves) - frozenset(heartbeat.groups),
            at=self._own,
            order=self._order,
        )
        if name == self.own_id:
            return frozenset()
        if before is None or back:
            return frozenset[str]().union(*now.sets(), *(before.sets() if before is not None else ()))
        return frozenset[str]().union(*(a ^ b for a, b in zip(now.sets(), before.sets(), strict=True)))

    def gone(self, instance: str) -> frozenset[str]:
        """Forgets an instance that stopped in an orderly way: its heartbeat was withdrawn. Returns its groups."""
        last = self._last.pop(instance, None)
        return frozenset[str]().union(*last.sets()) if last is not None else frozenset()

    def started(self) -> None:
        """Starts to count, after the whole topic was read. Heartbeats read so far under the own id are of an earlier
        process and are dropped."""
        self._last.pop(self.own_id, None)
        self._own = 0
        self._free_since.clear()
        for last in self._last.values():
            last.at = 0

    def silence(self, instance: str) -> int:
        """Returns the number of own heartbeats read since the last one of the other instance."""
        return self._own - self._last[instance].at

    def holder(self, group: str) -> str | None:
        """Returns the other instance that leads or claims the group by the latest heartbeat. It may be silent.

        One that hands the group over is chosen last: it reports this until it is fenced, while another may already have
        the group.
        """
        holders = [h for h in self._others() if group in h.leads or group in h.claims]
        return max(holders, key=lambda h: (group not in h.hands_over, h.order)).instance if holders else None

    def leader(self, group: str) -> str | None:
        """Returns another living instance that leads the group, if there is one."""
        return next((h.instance for h in self._others() if group in h.leads and self._lives(h.instance)), None)

    def successors(self, group: str) -> list[str]:
        """Returns the other living standbys of the group, by rank."""
        return sorted(h.instance for h in self._others() if group in h.standby_for and self._lives(h.instance))

    def is_first_to_serve(self, group: str) -> bool:
        """Returns whether no other living instance with a smaller id has served the group."""
        serving = (h.instance for h in self._others() if group in h.serves and self._lives(h.instance))
        return all(self.own_id < instance for instance in serving)

    def living(self) -> list[str]:
        """Returns the other living instances."""
        return sorted(h.instance for h in self._others() if self._lives(h.instance))

    def reason_to_take_over(self, group: str) -> str:
        """Returns why this standby should take the group over now, "" if it should not."""
        rank = sum(instance < self.own_id for instance in self.successors(group))
        holder = self.holder(group)
        if holder is None:
            due = max(HEARTBEATS_TO_SETTLE, self._free_since.setdefault(group, self._own)) + rank
            return "no instance of Bellwether leads it" if self._own >= due else ""
        self._free_since.pop(group, None)
        if group in self._last[holder].hands_over:
            return f"{holder} hands it over" if self.silence(holder) >= rank else ""
        if self._own < HEARTBEATS_MISSED or self.silence(holder) < HEARTBEATS_MISSED + rank:
            return ""
        return f"the heartbeat of {holder} has stopped"

    def must_yield(self, group: str, *, leading: bool, fenced: bool = False) -> str:
        """Returns the other living instance to which this active one must yield, "" if none. A leader never yields; it
        is fenced instead."""
        if leading:
            return ""
        for last in self._others():
            name = last.instance
            if not self._lives(name) or group in last.hands_over:
                continue
            if group in last.leads or (group in last.claims and (fenced or name < self.own_id)):
                return name
        return ""

    def forgotten(self) -> list[str]:
        """Returns the instances whose heartbeats may be withdrawn because they have been silent for long."""
        return [h.instance for h in self._others() if self._own - h.at >= HEARTBEATS_TO_FORGET]

    def _lives(self, instance: str) -> bool:
        return self.silence(instance) < HEARTBEATS_MISSED

    def _others(self) -> Iterator[_LastHeartbeat]:
        return (h for name, h in self._last.items() if name != self.own_id)
