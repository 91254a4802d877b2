"""The command `bellwether init`: writes a configuration file for a cluster, from answers and from its groups."""

from bellwether_kafka.coordinator.cli.init.command import init
