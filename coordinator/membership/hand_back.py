"""Handing the lead back because members do not work by Bellwether's plan, and what must hold before it returns.

At most once in a day, so that a mistake of the watch on work cannot make a group change its leader again and again.
After it Bellwether stays out until a rehearsal has shown that its own plan would not differ from what members hold.
Times are seconds of the membership's clock.
"""

from dataclasses import dataclass

from bellwether_kafka.coordinator.membership.config import MembershipConfig
from bellwether_kafka.coordinator.membership.role import NotLeading, Obstacle

DAY_S = 86_400.0


@dataclass(slots=True)
class HandBacks:
    """One group's. `waits` for the proof that Bellwether may return; `reason` is that of the last hand-back."""

    config: MembershipConfig
    reason: str = ""
    waits: bool = False
    lacks: str = ""  # what the last rehearsal has shown against a return
    _at: float | None = None

    def refusal(self, now: float) -> str:
        """Why the group is not handed back now, as a sentence part; "" where it is."""
        if self.config.hand_back == "alert":
            return 'hand_back = "alert" keeps the lead'
        if self._at is not None and now - self._at < DAY_S:
            return "it has been handed back once within 24 hours, and is not a second time"
        return ""

    def begins(self, now: float, reason: str) -> None:
        self._at, self.reason, self.waits, self.lacks = now, reason, True, ""

    def remembered(self, now: float, ago_s: float, reason: str, *, waits: bool) -> None:
        """An earlier process of Bellwether's handed the group back so long ago."""
        if self._at is None or self._at < now - ago_s:
            self._at, self.reason = now - ago_s, reason
            self.waits = self.waits or waits

    def over(self) -> None:
        """The proof is there, an operator has asked for the lead, or Bellwether leads again."""
        self.waits, self.lacks = False, ""

    @property
    def obstacle(self) -> Obstacle:
        """Why Bellwether stays out, while `waits`."""
        lacks = f"; it stays out because {self.lacks}" if self.lacks else ""
        return Obstacle(NotLeading.HANDED_BACK, f"Bellwether has handed the lead back: {self.reason}{lacks}")
