"""Topology files from their text."""

import tempfile
from pathlib import Path

from bellwether_kafka.assignors.streams.application import Topology
from bellwether_kafka.coordinator.topology import load_topology


def read_topology(text: str) -> Topology:
    """Returns the topology of a file with this text. Raises TopologyError."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "topology.yaml"
        file.write_text(text, encoding="utf-8", errors="surrogatepass")
        return load_topology(file)
