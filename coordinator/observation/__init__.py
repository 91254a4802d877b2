"""Groups seen from outside: what the present assignment costs, and what Bellwether would assign."""

from bellwether_kafka.coordinator.observation.doctor import BROKER_CONFIGS, Check, Facts, Verdict, examine, worst
from bellwether_kafka.coordinator.observation.notify import notify
from bellwether_kafka.coordinator.observation.observation import (
    Observation,
    ObservedMember,
    Shadow,
    as_document,
    lags_of,
)
from bellwether_kafka.coordinator.observation.observer import NEWEST, GroupObserver, OnObservation, Sources
from bellwether_kafka.coordinator.observation.readiness import unready
from bellwether_kafka.coordinator.observation.rebalances import Rebalances, SeenRebalance
