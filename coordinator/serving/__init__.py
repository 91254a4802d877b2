"""Plans for groups whose broker assigns: the process that a broker's own assignor asks (deploy/broker-assignor)."""

from bellwether_kafka.coordinator.serving.answers import Answers, Served
from bellwether_kafka.coordinator.serving.known import KnownGroups, TopicNames
from bellwether_kafka.coordinator.serving.server import AssignorAddressError, AssignorServer
