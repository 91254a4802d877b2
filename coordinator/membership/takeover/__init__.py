"""One attempt to join a running group and to take its lead, without I/O."""

from bellwether_kafka.coordinator.membership.takeover.state import Failed, Outcome, TakenOver
from bellwether_kafka.coordinator.membership.takeover.takeover import Takeover

__all__ = ["Failed", "Outcome", "TakenOver", "Takeover"]
