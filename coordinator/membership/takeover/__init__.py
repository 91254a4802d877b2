"""Coming into a running group and leading it: one attempt, without I/O."""

from bellwether_kafka.coordinator.membership.takeover.state import Failed, Led, Outcome
from bellwether_kafka.coordinator.membership.takeover.takeover import Takeover

__all__ = ["Failed", "Led", "Outcome", "Takeover"]
