"""The reasons for which a leader requests a rebalance: warm-ups that have caught up, stalled tasks, uneven load."""

from bellwether_kafka.coordinator.triggers.load_watch import LoadWatch
from bellwether_kafka.coordinator.triggers.owner_watch import OwnerWatch
from bellwether_kafka.coordinator.triggers.probing import ProbingFacts, Rates
from bellwether_kafka.coordinator.triggers.served_load import Assigned, ServedLoad
from bellwether_kafka.coordinator.triggers.streams_watch import StreamsWatch
