"""The guard beside one instance of an application: runs or watches its process, evacuates it before it is stopped, and
removes its members when it has ended. It starts fast and stays small: it imports no librdkafka, numpy or typer."""

from bellwether_kafka.coordinator.guard.arguments import GRACE_S, GRACE_S_MAX, GuardArguments, guard, run_guard
