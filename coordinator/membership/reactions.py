"""How often a leader begins a rebalance for the same reason: the only limit on all of a leader's reactions. Pure.

What asks for a rebalance (members that came back with another subscription, metadata, racks, load, members without
work) may change to and fro: two processes under one instance id fence each other every ten seconds, a topic is deleted
and created in a loop. The group of a leader that follows each change is never at rest. So a subject is followed twice;
after that each time only after a wait that doubles, until it has been quiet.

Probes of warm-ups and questions whether members work are `PROGRESS`: each answer decides whether there is another, and
`triggers/probing.py` and `triggers/work.py` limit them. Operators' orders wait for nothing, but a reaction that follows
one waits for the usual interval.

A subject is a kind and never a sentence, in which a number may be another each time. Partitions that nobody reads are
work left undone, and scripts create topics one after another: `UNREAD` is followed more often, and never waits for
longer than a client's own metadata.max.age.ms.
"""

from dataclasses import dataclass, field

PROGRESS = "progress"
UNREAD = "unread partitions"
DAMPED_S, DAMPED_S_MAX = 300.0, 3_600.0
QUIET_S = 600.0


@dataclass(frozen=True, slots=True)
class Damping:
    """`followed`: reactions in a row after the usual interval. The wait after the next one is `first_s`, and doubles up
    to `max_s`."""

    followed: int
    first_s: float
    max_s: float

    def wait_s(self, times: int) -> float:
        """Returns how long to wait after so many reactions in a row."""
        return 0.0 if times < self.followed else min(self.first_s * 2.0 ** min(times - self.followed, 10), self.max_s)


USUAL = Damping(followed=2, first_s=DAMPED_S, max_s=DAMPED_S_MAX)
BY_SUBJECT = {UNREAD: Damping(followed=6, first_s=20.0, max_s=DAMPED_S)}


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
        return max(self._began_at + self.interval_s, at + _wait_s(subject, times))

    def is_damped(self, subject: str) -> bool:
        """Returns whether it is followed so rarely that users should know."""
        return _wait_s(subject, self._last.get(subject, (0, 0.0))[0]) >= DAMPED_S

    def began(self, now: float, *subjects: str) -> None:
        """Records a rebalance that was begun for these subjects, or by an order."""
        self._began_at = now
        for subject in subjects:
            times, at = self._last.get(subject, (0, now))
            again = now - at <= _quiet_s(subject, times)
            self._last[subject] = (times + 1 if again else 1), now
        self._last.pop(PROGRESS, None)
        quiet = [each for each, (times, at) in self._last.items() if now - at > _quiet_s(each, times)]
        for subject in quiet:
            del self._last[subject]


def _wait_s(subject: str, times: int) -> float:
    """Returns how long to wait after so many reactions in a row."""
    return BY_SUBJECT.get(subject, USUAL).wait_s(times)


def _quiet_s(subject: str, times: int) -> float:
    """Returns after how long without a reaction its row has ended."""
    return max(QUIET_S, 2 * _wait_s(subject, times))
