"""Outcomes of scenarios."""

from dataclasses import dataclass

LEADERS = ("java", "kafka", "streams-ha")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One scenario under one leader. `failure` is "" where it passed; `file` says what the topology file is made of."""

    scenario: str
    leader: str
    failure: str
    seconds: float
    generations: int
    rebalances: int
    led: int
    file: str
    load: float = 0.0  # of the machine over the last five minutes of it; 0: not known
    others: str = ""  # generations that a member led, and why
