"""Racks of members that send none: from the configuration, by client id, by host, or from a file."""

from bellwether_kafka.coordinator.planning.racks.member_racks import MemberRacks
from bellwether_kafka.coordinator.planning.racks.networks import Networks, network
from bellwether_kafka.coordinator.planning.racks.rack_file import RackFile, RackFileError
from bellwether_kafka.coordinator.planning.racks.rack_rules import NO_RULES, ConfiguredRack, RackRules, RackSource
