"""The command `bellwether`."""

from bellwether_kafka.coordinator.cli.main import main
