"""The reasons for which a leader refuses to decide."""

from dataclasses import dataclass
from enum import Enum


class RefusalCause(Enum):
    """What must change before another attempt can succeed."""

    MEMBERS = "members"  # no member can be read, or no assignment serves all their versions
    TOPOLOGY = "topology"  # it contradicts the members: read it again, or let a Java member lead
    TOPICS = "topics"  # a topic is missing or cannot be read, or partition counts contradict each other
    INTERNAL_TOPICS = "internal topics"  # one is missing or does not have the size that the application needs
    CONFIG = "configuration"  # Bellwether's configuration differs from the application's
    PLAN = "plan"  # no valid plan, by a defect of an assignor or of Bellwether, or the plan came too late


@dataclass(frozen=True, slots=True)
class Refusal:
    """The decision to send nothing: Bellwether leaves the group, and a member takes over. `reason` is a sentence for
    operators."""

    cause: RefusalCause
    reason: str
    warnings: tuple[str, ...] = ()

    @property
    def final(self) -> bool:
        """Whether no other plan for the same members and topics could succeed."""
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
