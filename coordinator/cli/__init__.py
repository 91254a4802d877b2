"""The command `bellwether`."""

from bellwether_kafka.coordinator.cli.main import main
from bellwether_kafka.coordinator.cli.output import ranges
