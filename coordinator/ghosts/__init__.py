"""Members that are dead but still counted: the proof, their removal, and conversions to KIP-848."""

from bellwether_kafka.coordinator.ghosts.assist import GhostWatch, RemovalObserver, ghost_watches
from bellwether_kafka.coordinator.ghosts.coexistence import (
    Conversion,
    ConversionWatch,
    Rebalancing,
    conversion,
    troubles,
)
from bellwether_kafka.coordinator.ghosts.proof import GhostFinder, GhostOptions, Proof, process_of
