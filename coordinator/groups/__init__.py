"""What brokers say of groups, asked for once for all that want to know it."""

from bellwether_kafka.coordinator.groups.describer import Describer, Requests
