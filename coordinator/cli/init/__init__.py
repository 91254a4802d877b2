"""The command `bellwether init`: writes a configuration file for a cluster, from answers and from its groups."""

from bellwether_kafka.coordinator.cli.init.answers import (
    AnswerError,
    ChosenGroups,
    Questions,
    chosen,
    names_of,
    properties_of,
    rack_of,
)
from bellwether_kafka.coordinator.cli.init.command import init
from bellwether_kafka.coordinator.cli.init.draft import Draft, DraftedGroup, text_of
