"""Which of several sidecars under one group.instance.id is the active one of a group: a pure fold of their beats.

Time is counted in a sidecar's own regular beats as they come back through the topic, never by a clock. A sidecar has
fallen silent when the own beat has come back `BEATS_MISSED` times since its last one. So a topic that nobody can reach
raises no alarm, a paused process wakes up to the truth, and each reader of the same log comes to the same answer. The
sidecar of rank r among the living, by id, waits r beats longer, so that one goes first.

A false alarm does no harm: joining under the same instance id only fences the older process, in the same generation
and without a rebalance (docs/reference/broker-behaviour.md#static-membership).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bellwether_kafka.coordinator.control.records import Beat

BEATS_MISSED = 3
# Before a sidecar takes a group of which no beat speaks it waits for the beats of those that start with it.
BEATS_TO_SETTLE = 2
# A beat of a sidecar that is gone is withdrawn from the topic after this many of Bellwether's.
BEATS_TO_FORGET = 600


@dataclass(slots=True)
class _Heard:
    """The last beat of a sidecar; sets, because a sidecar may have thousands of groups."""

    sidecar: str
    leads: frozenset[str]
    claims: frozenset[str]
    stands_by: frozenset[str]
    hands_over: frozenset[str]
    at: int  # how often the own beat had come back then
    order: int


class Sidecars:
    """One sidecar's view of all. Feed it every beat in the order of the topic."""

    def __init__(self, own_id: str) -> None:
        self.own_id = own_id
        self._own = 0
        self._order = 0
        self._heard: dict[str, _Heard] = {}
        self._free_since: dict[str, int] = {}

    def heard(self, beat: Beat) -> None:
        self._order += 1
        if beat.sidecar == self.own_id and not beat.between:
            self._own += 1
        groups = (beat.leads, beat.claims, beat.stands_by, beat.hands_over)
        leads, claims, stands_by, gives = map(frozenset, groups)
        self._heard[beat.sidecar] = _Heard(beat.sidecar, leads, claims, stands_by, gives, self._own, self._order)

    def gone(self, sidecar: str) -> None:
        """Its beat was withdrawn: it has stopped in good order."""
        self._heard.pop(sidecar, None)

    def started(self) -> None:
        """All of the topic has been read: an older beat under Bellwether's own id was an earlier process of
        Bellwether's."""
        self._heard.pop(self.own_id, None)
        self._own = 0
        self._free_since.clear()
        for heard in self._heard.values():
            heard.at = 0

    def silence(self, sidecar: str) -> int:
        """Beats of this process since the other one was last heard."""
        return self._own - self._heard[sidecar].at

    def holder(self, group: str) -> str | None:
        """Another sidecar that leads or claims the group, the one that said so last; it may have fallen silent.

        One that hands the group over says so until it hears that it was fenced: the one that came since has the group.
        """
        found = [h for h in self._others() if group in h.leads or group in h.claims]
        return max(found, key=lambda h: (group not in h.hands_over, h.order)).sidecar if found else None

    def leader(self, group: str) -> str | None:
        """Another living sidecar that says it leads the group."""
        return next((h.sidecar for h in self._others() if group in h.leads and self._lives(h.sidecar)), None)

    def successors(self, group: str) -> list[str]:
        """Living sidecars that stand by for the group, by rank; this one not counted."""
        return sorted(h.sidecar for h in self._others() if group in h.stands_by and self._lives(h.sidecar))

    def living(self) -> list[str]:
        """Other sidecars that have been heard lately."""
        return sorted(h.sidecar for h in self._others() if self._lives(h.sidecar))

    def reason_to_take_over(self, group: str) -> str:
        """Why this standby should take the group over now; "" when it should not."""
        rank = sum(sidecar < self.own_id for sidecar in self.successors(group))
        holder = self.holder(group)
        if holder is None:
            due = max(BEATS_TO_SETTLE, self._free_since.setdefault(group, self._own)) + rank
            return "no instance of Bellwether leads it" if self._own >= due else ""
        self._free_since.pop(group, None)
        if group in self._heard[holder].hands_over:
            return f"{holder} hands it over" if self.silence(holder) >= rank else ""
        if self._own < BEATS_MISSED or self.silence(holder) < BEATS_MISSED + rank:
            return ""
        return f"the beat of {holder} has stopped"

    def must_yield(self, group: str, *, leading: bool, fenced: bool = False) -> str:
        """Which other living sidecar this active one must make way for; "" for none. A leader waits to be fenced."""
        if leading:
            return ""
        for heard in self._others():
            name = heard.sidecar
            if not self._lives(name) or group in heard.hands_over:
                continue
            if group in heard.leads or (group in heard.claims and (fenced or name < self.own_id)):
                return name
        return ""

    def forgotten(self) -> list[str]:
        """Sidecars so long silent that their beats may be withdrawn."""
        return [h.sidecar for h in self._others() if self._own - h.at >= BEATS_TO_FORGET]

    def _lives(self, sidecar: str) -> bool:
        return self.silence(sidecar) < BEATS_MISSED

    def _others(self) -> Iterator[_Heard]:
        return (h for name, h in self._heard.items() if name != self.own_id)
