"""The guard beside one instance: runs or watches its process, empties it before it is stopped, and ends its memberships
when it is gone. Small and quick to start: no librdkafka, no numpy, no typer."""

from bellwether_kafka.coordinator.guard.arguments import GuardArguments, guard, run_guard
from bellwether_kafka.coordinator.guard.options import GRACE_S
