"""Why a leader declines to decide."""

from dataclasses import dataclass
from enum import Enum


class RefusalCause(Enum):
    """What must change before it is worth another try."""

    MEMBERS = "members"  # nobody can be read, or a mix of versions that no assignment serves
    TOPOLOGY = "topology"  # it contradicts the members: learn it again, or let a Java member lead
    TOPICS = "topics"  # a topic is missing or cannot be read, or partition counts contradict each other
    INTERNAL_TOPICS = "internal topics"  # one is missing or has another size than the application needs
    CONFIG = "configuration"  # Bellwether's is not the application's
    PLAN = "plan"  # no valid plan was found: a defect of an assignor or Bellwether's, or it came too late


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nothing may be sent: leave the group, and a member takes over. `reason` is a sentence for people."""

    cause: RefusalCause
    reason: str
    warnings: tuple[str, ...] = ()

    @property
    def final(self) -> bool:
        """No other plan for the same members and topics would do."""
        return self.cause is not RefusalCause.PLAN

    def error(self) -> "RefusalError":
        return RefusalError(self.cause, self.reason, self.warnings)


class RefusalError(Exception):
    """Carries a refusal to the function that returns it, or across threads and processes to the planner."""

    def __init__(self, cause: RefusalCause, reason: str, warnings: tuple[str, ...] = ()) -> None:
        super().__init__(cause, reason, warnings)
        self.refusal = Refusal(cause, reason, warnings)

    def __str__(self) -> str:
        return self.refusal.reason
