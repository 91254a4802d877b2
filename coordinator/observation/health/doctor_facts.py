"""The facts from which the checks of `bellwether doctor` are made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bellwether_kafka.assignors.consumer import LOAD_AWARE, Policy
from bellwether_kafka.assignors.streams.application import Topology
from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.ghosts import GhostOptions
from bellwether_kafka.coordinator.kafka.client import SettingOfBroker
from bellwether_kafka.coordinator.membership import NOT_READ, STREAMS_PROTOCOL, MembershipConfig, SizeLimit
from bellwether_kafka.coordinator.observation.observation import Observation
from bellwether_kafka.coordinator.planning import StreamsConfig
from bellwether_kafka.protocol import messages

BY_KAFKA = Policy()
BROKER_CONFIGS = "group.min.session.timeout.ms", "group.max.session.timeout.ms"
# Groups with these protocols can be led only with the setting kind.
KIND_OF_PROTOCOL = {STREAMS_PROTOCOL: "streams", messages.PROTOCOL: "stateful"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenOrders:
    """The records of the control topic at `now_ms`. `unread` is why they are not known, or could not be, as a sentence;
    "" if they are."""

    records: Mapping[str, control.Record] = field(default_factory=dict)
    now_ms: int
    unread: str = ""

    def in_force(self, group: str) -> list[control.AnyOrder]:
        """Returns the orders on the group that have not expired, sorted by key."""
        return [order for order in control.orders_in_force(self.records, self.now_ms) if order.target == group]


@dataclass(frozen=True, slots=True)
class DoctorFacts:
    """The facts that the checks use.

    `heartbeat_error` is the broker's answer to a heartbeat of a member that does not exist, None if there was none: it
    shows whether Bellwether may use the group, without disturbing any member. `limits` are broker configs, empty if
    they cannot be read. `broker_version` is () if unknown. `streams` are the settings of an application, `policy` that
    of plain consumers.
    `ghosts` are the settings of their removal, None if none are removed. `topology` is from the configured file.
    `topic_counts` are the partition counts of all topics, read if there is a file but no members, else None.
    `assignors` are group.consumer.assignors or group.streams.assignors of each broker, read if the group's broker
    assigns. `weights_topic` is the topic of weights, "" without one. `log_sizes` is whether brokers report the sizes of
    the group's logs, None if that is not known; `log_sizes_unread` is why. `answer_time_ms` is
    how long the broker takes to answer DescribeGroups, None if that is not known. `given` are operators' orders, None
    if there is no control topic. `transactional_ids` are those of the cluster that Bellwether may describe.
    """

    seen: Observation
    config: MembershipConfig
    mode: str
    heartbeat_error: int | None
    broker_racks: Sequence[str | None]
    limits: dict[str, int]
    broker_version: tuple[int, ...] = ()
    streams: StreamsConfig | None = None
    ghosts: GhostOptions | None = None
    size_limit: SizeLimit = NOT_READ
    topology: Topology | None = None
    new_topology: Topology | None = None
    topic_counts: Mapping[str, int] | None = None
    policy: Policy = BY_KAFKA
    assignors: Mapping[int, SettingOfBroker] = field(default_factory=dict)
    weights_topic: str = ""
    log_sizes: bool | None = None
    log_sizes_unread: str = "that was not asked"
    answer_time_ms: float | None = None
    given: GivenOrders | None = None
    transactional_ids: frozenset[str] = frozenset()

    @property
    def by_load(self) -> bool:
        """Returns whether the group's plan depends on weights."""
        return (self.policy.name if self.streams is None else self.streams.policy) == LOAD_AWARE


def has_no_members(facts: DoctorFacts) -> bool:
    """Returns whether the group has no members and no plan from which to read facts."""
    return not facts.seen.members and facts.seen.shadow is None


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
