"""Topologies of Streams applications: read from files or learned from running ones. Also their internal topics."""

from bellwether_kafka.coordinator.topology.combine import combined, serving
from bellwether_kafka.coordinator.topology.existing import serving_candidates, with_existing
from bellwether_kafka.coordinator.topology.file import load_topology, write_topology
from bellwether_kafka.coordinator.topology.given_topology import GivenTopology, TopologyKeeper
from bellwether_kafka.coordinator.topology.internal_topics import TopicCreationError, TopicDefaults
from bellwether_kafka.coordinator.topology.learn import Learned
from bellwether_kafka.coordinator.topology.live import learn_live, topic_configs, topic_counts
from bellwether_kafka.coordinator.topology.resolve_changelogs import settle
from bellwether_kafka.coordinator.topology.upgrade import Mixture, sentences, upgrade
from bellwether_kafka.coordinator.topology.watched_file import WatchedFile, topology_of_application
