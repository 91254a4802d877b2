"""Topology files from their text."""

import hashlib
import tempfile
from dataclasses import replace
from pathlib import Path

from bellwether_kafka.assignors.streams.application import Subtopology, Topology
from bellwether_kafka.coordinator.topology import load_topology
from tests.unit.assignors.streams.world import SHOP


def read_topology(text: str) -> Topology:
    """Returns the topology of a file with this text. Raises TopologyError."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "topology.yaml"
        file.write_text(text, encoding="utf-8", errors="surrogatepass")
        return load_topology(file)


FIRST, SECOND = SHOP.subtopologies


TOTALS, SUMS = "shop-totals-changelog", "shop-sums-changelog"


def with_parts(*subtopologies: Subtopology, patterns: tuple[tuple[int, str], ...] = ()) -> Topology:
    return Topology("shop", subtopologies, "file", patterns=patterns)


MORE_STORES = with_parts(FIRST, replace(SECOND, changelogs=(TOTALS, SUMS)))


RENAMED = with_parts(FIRST, replace(SECOND, changelogs=(SUMS,)))


ANOTHER_TOPIC = with_parts(replace(FIRST, sources=(*FIRST.sources, "returns")), SECOND)


SWAPPED = with_parts(replace(SECOND, id=0), replace(FIRST, id=1))


EXPORTED = """# Written by TopologyExporter.
ApplicationId: shop
StreamsVersion: "4.3.0"
InMemoryStores: [totals]
Digest: "DIGEST"
Subtopologies:
  - SubtopologyId: "0"
    SourceTopics: [orders]
  - SubtopologyId: "1"
    SourceTopics: [users]
"""


def exported() -> str:
    kept = [line for line in EXPORTED.splitlines() if not line.startswith(("#", "Digest:"))]
    return EXPORTED.replace("DIGEST", hashlib.sha256("\n".join(kept).encode()).hexdigest()[:32])


SHOP_TEXT = """Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [orders])
      --> KSTREAM-KEY-SELECT-0000000001
    Processor: KSTREAM-KEY-SELECT-0000000001 (stores: [])
      --> by-user-repartition-filter
      <-- KSTREAM-SOURCE-0000000000
    Processor: by-user-repartition-filter (stores: [])
      --> by-user-repartition-sink
      <-- KSTREAM-KEY-SELECT-0000000001
    Sink: by-user-repartition-sink (topic: by-user-repartition)
      <-- by-user-repartition-filter

  Sub-topology: 1
    Source: by-user-repartition-source (topics: [by-user-repartition])
      --> KSTREAM-AGGREGATE-0000000003
    Processor: KSTREAM-AGGREGATE-0000000003 (stores: [totals])
      --> KTABLE-TOSTREAM-0000000007
      <-- by-user-repartition-source
    Processor: KTABLE-TOSTREAM-0000000007 (stores: [])
      --> KSTREAM-SINK-0000000008
      <-- KSTREAM-AGGREGATE-0000000003
    Sink: KSTREAM-SINK-0000000008 (topic: results)
      <-- KTABLE-TOSTREAM-0000000007

"""
