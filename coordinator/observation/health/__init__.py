"""The checks of `bellwether doctor`."""

from bellwether_kafka.coordinator.observation.health.doctor_facts import (
    BROKER_CONFIGS,
    KIND_OF_PROTOCOL,
    DoctorFacts,
    GivenOrders,
)
from bellwether_kafka.coordinator.observation.health.examine import examine
