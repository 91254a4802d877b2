"""How often a leader begins a rebalance for the same reason: the only limit on all of a leader's reactions. Pure.

What asks for a rebalance (members that came back with another subscription, metadata, racks, load, members without
work) may change to and fro: two processes under one instance id fence each other every ten seconds, a topic is deleted
and created in a loop. The group of a leader that follows each change is never at rest. So a subject is followed twice;
after that each time only after a wait that doubles, until it has been quiet.

Probes of warm-ups and questions whether members work are `PROGRESS`: each answer decides whether there is another, and
`triggers/probing.py` and `triggers/work` limit them. Operators' orders wait for nothing, but a reaction that follows
one waits for the usual interval.
"""

from dataclasses import dataclass, field

PROGRESS = "progress"
FOLLOWED = 2  # reactions in a row after the usual interval
DAMPED_S, DAMPED_S_MAX = 300.0, 3_600.0
QUIET_S = 600.0


@dataclass(slots=True)
class Reactions:
    """The reactions in one group, by subject. `interval_s` is the usual interval. Times are seconds of the membership's
    clock."""

    interval_s: float
    _began_at: float = float("-inf")
    _last: dict[str, tuple[int, float]] = field(default_factory=dict)  # how many in a row, and when the last one was

    def due(self, subject: str) -> float:
        """Returns from when on the subject may be followed."""
        times, at = self._last.get(subject, (0, float("-inf")))
        return max(self._began_at + self.interval_s, at + _wait_s(times))

    def is_damped(self, subject: str) -> bool:
        return bool(_wait_s(self._last.get(subject, (0, 0.0))[0]))

    def began(self, now: float, *subjects: str) -> None:
        """Records a rebalance that was begun for these subjects, or by an order."""
        self._began_at = now
        for subject in subjects:
            times, at = self._last.get(subject, (0, now))
            again = now - at <= max(QUIET_S, 2 * _wait_s(times))
            self._last[subject] = (times + 1 if again else 1), now
        self._last.pop(PROGRESS, None)
        quiet = [each for each, (times, at) in self._last.items() if now - at > max(QUIET_S, 2 * _wait_s(times))]
        for subject in quiet:
            del self._last[subject]


def _wait_s(times: int) -> float:
    """Returns how long to wait after so many reactions in a row."""
    return min(DAMPED_S * 2.0 ** min(times - FOLLOWED, 10), DAMPED_S_MAX) if times >= FOLLOWED else 0.0
