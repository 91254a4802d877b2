"""The groups that the lead tests run: clients, assignors and topics, and how a plan is judged."""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock, Member, TopicPartition

RACKS = ("az1", "az2", "az3")
# Clients that send client.rack.
RACKED = frozenset({"java", "confluent", "franz-go"})
# Clients that refuse to subscribe to a topic that does not exist yet.
IMPATIENT = frozenset({"aiokafka", "sarama"})
SESSION_MS = 6_000
# librdkafka and franz-go join with the topics that they have seen: how soon they see a new one is up to them.
METADATA_MS = "10000"


@dataclass(frozen=True, slots=True)
class GroupKind:
    """A group of clients: member i is of kind `kinds[i % len(kinds)]` and, where it can be, in rack i % 3."""

    name: str
    kinds: tuple[str, ...]
    assignors: tuple[str, ...]

    @property
    def rack_aware(self) -> bool:
        return set(self.kinds) <= RACKED

    @property
    def takes_new_topics(self) -> bool:
        return IMPATIENT.isdisjoint(self.kinds)

    def member(
        self, flock: Flock, group: str, topics: tuple[str, ...], number: int, *, own_process: bool = False
    ) -> Member:
        kind = self.kinds[number % len(self.kinds)]
        rack = RACKS[number % len(RACKS)] if kind in RACKED else None
        return flock.member(
            kind,
            group,
            topics,
            self.assignors,
            rack=rack,
            session_ms=SESSION_MS,
            own_process=own_process,
            metadata_ms=METADATA_MS,
        )


GROUPS = (
    GroupKind("java-range", ("java",), ("range",)),
    GroupKind("java-cooperative", ("java",), ("cooperative-sticky",)),
    GroupKind("java-default", ("java",), ("range", "cooperative-sticky")),
    GroupKind("confluent-range", ("confluent",), ("range",)),
    GroupKind("confluent-cooperative", ("confluent",), ("cooperative-sticky",)),
    GroupKind("kafka-python-range", ("kafka-python",), ("range",)),
    GroupKind("kafka-python-cooperative", ("kafka-python",), ("cooperative-sticky",)),
    GroupKind("aiokafka", ("aiokafka",), ("roundrobin",)),
    GroupKind("franz-go", ("franz-go",), ("cooperative-sticky",)),
    GroupKind("sarama", ("sarama",), ("sticky",)),
    GroupKind("kafka-go", ("kafka-go",), ("range",)),
    GroupKind("mixed", ("java", "confluent", "sarama", "franz-go"), ("range",)),
)


def create_local_topic(cluster: KafkaCluster, name: str, partitions: int) -> None:
    """A topic whose partition p has one replica, in rack p % 3."""
    cluster.create_topic(name, assignment=[[p % len(RACKS) + 1] for p in range(partitions)])


def foreign(owners: Mapping[TopicPartition, Member]) -> list[TopicPartition]:
    """Partitions of local topics whose owner stands in another rack."""
    return [tp for tp, owner in owners.items() if owner.fields.get("rack") != RACKS[tp[1] % len(RACKS)]]
