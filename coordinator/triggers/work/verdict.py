"""What a watch on the work of a group concludes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HandBack:
    """A member should lead: the plan does harm. `reason` is a sentence part for people."""

    reason: str


@dataclass(frozen=True, slots=True)
class Alert:
    """Members do not work as they did, and nothing proves that the plan is to blame."""

    reason: str


Verdict = HandBack | Alert
