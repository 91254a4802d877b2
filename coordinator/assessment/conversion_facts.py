"""The facts with which a conversion to the protocol in which the broker assigns is planned. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError

from bellwether_kafka.coordinator.kafka.client import SettingOfBroker
from bellwether_kafka.coordinator.kafka.wire import OWN_ASSIGNORS
from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL
from bellwether_kafka.coordinator.observation import Observation
from bellwether_kafka.protocol.primitives import whole_number

MIGRATION_POLICY = "group.consumer.migration.policy"
ONLINE = frozenset({"bidirectional", "upgrade"})
ONLINE_BACK = frozenset({"bidirectional", "downgrade"})
ASSIGNORS_LISTED = {"consumer": "group.consumer.assignors", "streams": "group.streams.assignors"}
SIZES_MAX = {
    "classic": "group.max.size",
    "consumer": "group.consumer.max.size",
    "streams": "group.streams.max.size",
}
OWN_PACKAGE = "bellwether.broker"  # of the classes of deploy/broker-assignor


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionFacts:
    """The facts that a conversion is planned with.

    `obstacles` are why the broker would refuse it now, apart from what Bellwether sends to block it; None if the group
    is not stable. `led` and `blocked`: the
    settings lead the group, and forbid its conversion. `waits`: they let Bellwether take the lead from no live member,
    as under exactly_once_v2. `when_empty`: it leads only after the group was empty. `application` and `patterns`: by
    the settings it is one of Kafka Streams, whose topology subscribes to topics by a pattern. `migration` is
    group.consumer.migration.policy of each broker, `assignors` its list of assignors for the protocol; both are empty
    if they could not be read. `broker_version` is that of the oldest broker that answered; brokers do not show their
    patch level, so it has two numbers unless it was pinned. `features` are the finalized levels of the cluster, None if
    they are not known. `sizes_max` are the brokers' limits of members by the name of the setting.
    """

    seen: Observation
    obstacles: tuple[str, ...] | None = None
    led: bool = False
    blocked: bool = False
    waits: bool = False
    when_empty: bool = False
    application: bool = False
    patterns: bool = False
    broker_version: tuple[int, ...] = ()
    migration: Mapping[int, SettingOfBroker]
    assignors: Mapping[int, SettingOfBroker] = field(default_factory=dict)
    features: Mapping[str, int] | None = None
    sizes_max: Mapping[str, Mapping[int, SettingOfBroker]] = field(default_factory=dict)

    @property
    def protocol(self) -> str:
        """The protocol to convert to. Brokers do not show that of a group without members."""
        return protocol_of(self.seen, application=self.application)

    @property
    def converted(self) -> bool:
        return self.seen.kind == self.protocol

    @property
    def convertible(self) -> bool:
        """Whether it is of a type that can be converted, or is converted."""
        return self.seen.kind == "classic" or self.converted

    @property
    def policies(self) -> frozenset[str]:
        """The brokers' policies of conversion, as far as they were read."""
        return frozenset(setting.lower() for setting in self.migration.values() if isinstance(setting, str))

    @property
    def defaults(self) -> frozenset[str]:
        """The names of the assignors that brokers use unless another is named; empty if those of one are not known."""
        if any(isinstance(setting, KafkaError) for setting in self.assignors.values()):
            return frozenset()
        first = (setting.partition(",")[0].strip() for setting in self.assignors.values() if isinstance(setting, str))
        return frozenset(filter(None, map(_assignor_name, first)))

    def members_max(self, protocol: str) -> int | None:
        """Returns the brokers' smallest limit of members for groups of this protocol, None if none is known."""
        answers = self.sizes_max.get(SIZES_MAX[protocol], {}).values()
        return min((size for text in answers if isinstance(text, str) and (size := whole_number(text))), default=None)

    @property
    def static_members(self) -> list[str]:
        """The instance ids of the members that have one, sorted."""
        return sorted(member.instance_id for member in self.seen.members if member.instance_id)

    @property
    def stops(self) -> bool:
        """Whether all members have to be stopped before the first one starts with the protocol."""
        refused = bool(self.policies - ONLINE) or bool(self.obstacles)
        return self.protocol == "streams" or not self.seen.members or refused


def _assignor_name(entry: str) -> str:
    """Returns the name of an assignor that brokers list by its name or its class."""
    package, _, name = entry.rpartition(".")
    words = re.findall("[A-Z][a-z0-9]*", name.removesuffix("Assignor").removesuffix("Task"))
    if package == OWN_PACKAGE:
        return "-".join(dict.fromkeys([OWN_ASSIGNORS, *(word.lower() for word in words)]))
    return words[0].lower() if package.startswith("org.apache.kafka.") and words else entry


def protocol_of(seen: Observation, *, application: bool) -> str:
    """Returns the protocol to convert a group to. `application`: by the settings it is one of Kafka Streams."""
    streams = (
        seen.protocol == STREAMS_PROTOCOL
        or seen.kind == "streams"
        or (application and seen.kind == "classic" and not seen.members)
    )
    return "streams" if streams else "consumer"
