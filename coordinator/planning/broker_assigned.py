"""Converts groups whose broker assigns (KIP-848, KIP-1071) to the form in which DescribeGroups shows classic groups, so
that the same code displays and plans them. They can be observed, never led.
"""

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from bellwether_kafka.assignors import consumer
from bellwether_kafka.assignors.streams.application import PINNED, Subtopology, Topology
from bellwether_kafka.assignors.streams.policies import STREAMS_HA
from bellwether_kafka.coordinator.kafka.wire import OWN_ASSIGNORS, BrokerGroup, BrokerMember, BrokerProtocol, policy_in
from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL, DescribeAnswer, DescribedMember
from bellwether_kafka.coordinator.planning.streams_inputs import StreamsConfig
from bellwether_kafka.protocol import messages
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import ProcessId, TaskId, TopicPartition

# The classic protocols most similar to the broker's assignors: `range` is the same, `uniform` is balanced and sticky.
UNIFORM = "uniform"
CONSUMER_PROTOCOLS = {"range": "range"}
NEAREST = "cooperative-sticky"
SUBSCRIPTION_VERSION = 3
BROKER_ASSIGNS = {
    "consumer": "its broker assigns (KIP-848, group.protocol=consumer), so no client can lead it",
    "streams": "its broker assigns (KIP-1071, group.protocol=streams), so no client can lead it",
}


def classic_view(group: BrokerGroup) -> DescribeAnswer:
    """Returns the group as if a member led it. Members are sorted by id as in a broker's assignor, because this order
    breaks ties in a plan."""
    described = sorted(group.members, key=lambda member: member.member_id)
    if group.protocol == "consumer":
        protocol = CONSUMER_PROTOCOLS.get(group.assignor, NEAREST)
        matches = _matches(described)
        members = tuple(_consumer(m, matches.get(m.pattern, ()), group.epoch) for m in described)
    else:
        protocol = STREAMS_PROTOCOL
        members = tuple(_streams(m, group) for m in described)
    return DescribeAnswer(0, group.error, group.state, "consumer", protocol, members, group.message)


def assignor_of(group: BrokerGroup) -> str:
    """Returns the protocol that an observation of the group has; `classic_view` has the most similar classic one."""
    return group.assignor if group.protocol == "consumer" else STREAMS_PROTOCOL


def no_plan_for_broker(protocol: BrokerProtocol, assignor: str, configured: consumer.Policy) -> str:
    """Returns why Bellwether refuses to plan for a broker with this assignor, which asks it; "" if it plans.
    `configured` is the policy of the group."""
    if protocol == "streams":
        refused = f"Bellwether has no policy for tasks named '{assignor}'; set streams.assignor.name={OWN_ASSIGNORS}"
        return "" if assignor == OWN_ASSIGNORS else refused
    if assignor == OWN_ASSIGNORS:
        plugin = f"policy {configured.name} is a plug-in, which does not run for brokers"
        return plugin if configured.is_plugin else ""
    named = ", ".join(sorted(consumer.POLICIES))
    unknown = f"Bellwether has no policy named '{assignor}'; its policies are {named}"
    return "" if policy_in(assignor) in consumer.POLICIES else unknown


def served_policy(group: BrokerGroup, configured: consumer.Policy) -> consumer.Policy:
    """Returns the policy of the plans that the broker of a `consumer` group gets: the one in the assignor's name, else
    the `configured` one, with its orders and capacities in either case."""
    name = policy_in(group.assignor)
    if not group.asks_bellwether or name not in consumer.POLICIES:
        return configured
    return configured.stock(name).with_rules(configured.rules)


def served_application(group: BrokerGroup, configured: StreamsConfig) -> StreamsConfig:
    """Returns the configuration by which an application is planned that its broker assigns. The number of standbys is
    the broker's. One that asks Bellwether gets plans by `streams-ha`, and warm-ups are its own, so that every copy
    counts as caught up."""
    config = replace(configured, standbys_unknown=True)
    if not group.asks_bellwether:
        return config
    return replace(config, policy=STREAMS_HA, configs=replace(config.configs, acceptable_recovery_lag=PINNED))


def topology_of(group: BrokerGroup) -> Topology:
    """Returns the topology that the application sent to its broker. Raises TopologyError if it contradicts itself."""
    numbers, parts = subtopology_numbers(group), []
    for s in group.subtopologies:
        number, sources = numbers[s.subtopology_id], (*s.sources, *s.repartitions)
        parts.append(Subtopology(number, sources, repartition_sources=s.repartitions, changelogs=s.changelogs))
    return Topology(group.group_id, tuple(parts), "broker")


def _matches(members: Iterable[BrokerMember]) -> Mapping[str, set[str]]:
    """Returns the topics that each pattern matches. No broker lists them: they are those that its members have."""
    matches: defaultdict[str, set[str]] = defaultdict(set)
    for member in members:
        if member.pattern:
            matches[member.pattern] |= {topic for topic, _ in member.assigned} - {*member.topics}
    return matches


def _consumer(member: BrokerMember, matches: Collection[str], epoch: int) -> DescribedMember:
    owned = tuple(TopicPartition(topic, p) for topic, partitions in member.assigned for p in partitions)
    topics = tuple(sorted({*member.topics, *matches, *(topic for topic, _ in member.assigned)}))
    subscription = ConsumerProtocolSubscription(SUBSCRIPTION_VERSION, topics, None, owned, epoch, member.rack)
    return _described(member, subscription, ConsumerProtocolAssignment(partitions=owned))


def _streams(member: BrokerMember, group: BrokerGroup) -> DescribedMember:
    numbers = subtopology_numbers(group)
    sources = {s.subtopology_id: (*s.sources, *s.repartitions) for s in group.subtopologies}
    active = [(s, p) for s, partitions in member.assigned for p in partitions if s in sources]
    standby = [(s, p) for s, partitions in member.standby for p in partitions if s in sources]
    sums = {TaskId(numbers[s], p): messages.UNKNOWN_OFFSET_SUM for s, p in standby}
    sums |= {TaskId(numbers[s], p): offset for s, p, offset in member.offsets if s in numbers}
    stateful = {s.subtopology_id for s in group.subtopologies if s.changelogs}
    sums |= {TaskId(numbers[s], p): messages.LATEST_OFFSET for s, p in active if s in stateful}
    pairs = sorted((TopicPartition(topic, p), TaskId(numbers[s], p)) for s, p in active for topic in sources[s])
    owned = tuple(partition for partition, _ in pairs)
    topics = tuple(sorted({topic for topics in sources.values() for topic in topics}))
    process_id, offset_sums = _process(member.process_id), tuple(sorted(sums.items()))
    subscribed = messages.SubscriptionInfo(process_id=process_id, task_offset_sums=offset_sums, client_tags=member.tags)
    data = subscribed.encode()
    subscription = ConsumerProtocolSubscription(SUBSCRIPTION_VERSION, topics, data, owned, group.epoch, member.rack)
    standbys = ((TaskId(numbers[s], p), tuple(TopicPartition(topic, p) for topic in sources[s])) for s, p in standby)
    info = messages.AssignmentInfo(active_tasks=tuple(task for _, task in pairs), standby_tasks=tuple(standbys))
    return _described(member, subscription, ConsumerProtocolAssignment(partitions=owned, user_data=info.encode()))


def _described(
    member: BrokerMember, subscription: ConsumerProtocolSubscription, assignment: ConsumerProtocolAssignment
) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        metadata=subscription.encode(),
        assignment=assignment.encode(),
        client_id=member.client_id,
        client_host=member.client_host,
    )


def subtopology_numbers(group: BrokerGroup) -> dict[str, int]:
    """Returns numbers for the subtopology ids of an application, which are strings in KIP-1071: "0", "1" ... in all
    clients so far."""
    ids = [s.subtopology_id for s in group.subtopologies]
    plain = all(name.isdecimal() for name in ids)
    return {name: int(name) if plain else number for number, name in enumerate(ids)}


def _process(text: str) -> ProcessId:
    """Returns the process id, which is a UUID in all clients so far. Any other text is hashed to one."""
    try:
        data = uuid.UUID(text).bytes
    except ValueError:
        data = uuid.uuid5(uuid.NAMESPACE_OID, text).bytes
    return ProcessId.of_bytes(data)
