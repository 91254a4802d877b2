"""What kinds of applications there are: their subtopologies, racks and threads, and how they are led."""

import random
from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors.streams import stock
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, EndOffsets, Subtopology, Topology
from bellwether_kafka.assignors.streams.stages import NO_STAGES
from bellwether_kafka.coordinator.planning import Application as Led
from bellwether_kafka.coordinator.planning import StreamsConfig
from tests.simulation.brokers.topics import Sizes

INPUT, OTHER, MIDDLE = "t", "u", "g-mid-repartition"
STORE, FIRST, SECOND = "g-store-changelog", "g-a-changelog", "g-b-changelog"
RECORDS = 100_000  # of the changelogs of each task
PROBING_MS = 60_000
RACKS = {1: "a", 2: "b", 3: "c"}  # of the nodes

SINGLE = (Subtopology(0, (INPUT,), changelogs=(STORE,)),)
BESIDE = (*SINGLE, Subtopology(1, (OTHER,)))
THROUGH = (
    Subtopology(0, (INPUT,), repartition_sinks=(MIDDLE,)),
    Subtopology(1, (MIDDLE,), repartition_sources=(MIDDLE,), changelogs=(FIRST, SECOND)),
    Subtopology(2, (OTHER,)),
)
# By name, with how often each is drawn.
SHAPES = {"one subtopology": (SINGLE, 3), "two subtopologies": (BESIDE, 2), "three subtopologies": (THROUGH, 2)}


@dataclass(frozen=True)
class Application:
    """`fixed` are topics that must be as large as INPUT is; `racks` are of brokers, empty where nobody has any."""

    shape: str
    topology: Topology
    config: StreamsConfig
    racks: dict[int, str]
    tagged: bool
    threads_max: int

    @classmethod
    def drawn(cls, rng: random.Random) -> "Application":
        shape = rng.choices(list(SHAPES), [weight for _, weight in SHAPES.values()])[0]
        racks = rng.choice(({}, RACKS))
        tagged = bool(racks) and rng.random() < 0.4
        configs = AssignmentConfigs(
            acceptable_recovery_lag=10_000,
            max_warmup_replicas=2,
            num_standby_replicas=1,
            probing_rebalance_interval_ms=PROBING_MS,
            rack_aware_assignment_tags=("zone",) if tagged else (),
            rack_aware_assignment_strategy=rng.choice(("none", "min_traffic", "balance_subtopology"))
            if racks
            else "none",
        )
        policy = rng.choice(("kafka", "kafka", "streams-ha"))
        config = StreamsConfig("g", topology_attested=True, configs=configs, policy=policy)
        return cls(shape, Topology("g", SHAPES[shape][0], "file"), config, racks, tagged, rng.choice((1, 1, 2, 3)))

    @property
    def led(self) -> Led:
        """As a process of Bellwether is configured to lead it."""
        return Led(self.config, stock(NO_STAGES), self.topology)

    @property
    def fixed(self) -> tuple[str, ...]:
        return (*self.topology.repartition_topics, *self.topology.changelogs)

    @property
    def names(self) -> tuple[str, ...]:
        """What the table of seeds calls it."""
        threads = "several threads" if self.threads_max > 1 else "one thread"
        racks = "with racks" if self.racks else "without racks"
        return self.shape, threads, racks, f"{self.config.policy} policy"

    def sizes(self, partitions: int, others: int) -> Sizes:
        """Every topic, with these numbers of partitions."""
        partitions = partitions if self.shape != "three subtopologies" else (partitions + 2) // 2
        fitting = dict.fromkeys((INPUT, *self.fixed), partitions)
        return fitting | ({OTHER: others} if OTHER in self.topology.source_topics else {})

    def fits(self, sizes: Sizes) -> bool:
        """Internal topics are as large as their input asks for; where they are not, Java ends the application."""
        return all(sizes.get(topic) == sizes.get(INPUT) for topic in self.fixed)

    def ends(self, sizes: Sizes) -> EndOffsets:
        """Each task has as many records, over all of its changelogs together."""
        ends_by_topic = {}
        for subtopology in self.topology.subtopologies:
            for topic in subtopology.changelogs:
                ends_by_topic[topic] = np.full(
                    sizes.get(topic, 0), RECORDS // len(subtopology.changelogs), dtype=np.int64
                )
        return EndOffsets(ends_by_topic)

    def end_of(self, topic: str) -> int:
        """The log end of each partition of a topic."""
        changelogs = (s.changelogs for s in self.topology.subtopologies if topic in s.changelogs)
        return next((RECORDS // len(topics) for topics in changelogs), 0)

    def rebalances_max(self, partitions: int) -> int:
        """Within how many rebalances it must have converged (KIP-441's test of its assignor)."""
        return 2 * partitions * (1 + self.config.configs.num_standby_replicas)
