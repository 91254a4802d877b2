"""The conclusions of a watch on the work of a group."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HandBack:
    """The plan does harm, so a member should lead. `reason` is part of a sentence."""

    reason: str


@dataclass(frozen=True, slots=True)
class Alert:
    """Members do not work as before, without proof that the plan is the cause."""

    reason: str


Verdict = HandBack | Alert
