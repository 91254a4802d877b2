"""Why a leader declines to decide."""

from enum import Enum


class Cause(Enum):
    """Why we do not decide; what must change before it is worth another try."""

    MEMBERS = "members"  # nobody can be read, or a mix of versions that no assignment serves
    TOPOLOGY = "topology"  # it contradicts the members: learn it again, or let a Java member lead
    TOPICS = "topics"  # a source topic is missing or cannot be read, or partition counts contradict each other
    INTERNAL_TOPICS = "internal topics"  # one is missing or has another size than the application needs
    CONFIG = "configuration"  # ours is not the application's
    PLAN = "plan"  # no valid plan was found: a defect of an assignor or ours


class RefusalError(Exception):
    """Inside a decision: it ends here. The public function turns it into a StepAside."""

    def __init__(self, cause: Cause, reason: str) -> None:
        super().__init__(reason)
        self.cause = cause
        self.reason = reason
