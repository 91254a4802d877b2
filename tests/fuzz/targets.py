"""Every decoder that reads bytes of others: how it is called, the one error that it may raise, and honest bytes to
begin with. A target returns; whatever else comes out of it is a bug.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from bellwether_kafka.assignors.stateful import read_member
from bellwether_kafka.assignors.streams.application import TopologyError, parse_description
from bellwether_kafka.bounded import OutsideTextError
from bellwether_kafka.coordinator import control as orders
from bellwether_kafka.coordinator.events import EventError, SchemaSet
from bellwether_kafka.coordinator.planning.racks import networks_of
from bellwether_kafka.coordinator.settings import WeightSettings
from bellwether_kafka.coordinator.telemetry import WeightReader
from bellwether_kafka.protocol.bulk import read_assignments, read_claims, read_infos, read_subscriptions
from bellwether_kafka.protocol.messages import (
    WARMUP,
    AssignmentInfo,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    Copy,
    StatefulAssignment,
    StatefulSubscription,
    StatefulTaskState,
    SubscriptionInfo,
    Task,
    encode_sticky_user_data,
    read_generation,
    read_rack_affinity,
)
from bellwether_kafka.protocol.primitives import ProcessId, RemoteProtocolError, TopicPartition
from tests.kit.streams import read_topology
from tests.vectors import VECTORS

Seeds = tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """One decoder. `raises` is its documented error; none for those that report errors in their result.

    `many` is how a decoder for the bytes of many members is fed many inputs at once; it says how many were read.
    """

    name: str
    run: Callable[[bytes], object]
    raises: tuple[type[Exception], ...]
    seeds: Seeds
    many: Callable[[Sequence[bytes]], int] | None = None

    def feed(self, data: bytes) -> bool:
        """Whether the bytes were read. Any error that is not documented comes out."""
        try:
            self.run(data)
        except self.raises:
            return False
        return True


def _vectors(kind: str) -> Seeds:
    return tuple(bytes.fromhex(vector["hex"]) for vector in VECTORS if vector["kind"] == kind)


SUBSCRIPTIONS = _vectors("ConsumerProtocolSubscription")
ASSIGNMENTS = _vectors("ConsumerProtocolAssignment")
INFOS = _vectors("SubscriptionInfo")
GIVEN = _vectors("AssignmentInfo")
STICKY = tuple(
    encode_sticky_user_data([TopicPartition("orders", p) for p in range(n)], generation)
    for n, generation in ((0, -1), (1, 0), (3, 7), (9, 1 << 30))
)
STATEFUL = StatefulSubscription(
    ProcessId(1, 2),
    "az1",
    2,
    (("a", "b"),),
    (StatefulTaskState(Task(0, 1), 5, 9, running=True), StatefulTaskState(Task(1, 0))),
).encode()
STATEFUL_GIVEN = StatefulAssignment(
    ((0, ("orders", "clicks")),), (Task(0, 1),), (Copy(Task(0, 2)), Copy(Task(0, 3), WARMUP))
).encode()
CONTROL = tuple(
    value
    for _, value in (
        orders.encode(record)
        for record in (
            orders.Order(orders.OrderKind.LEAVE, "g", "me", 1, 2, "because"),
            orders.Order(orders.OrderKind.DRAIN, "*", "me", 1, 2),
            orders.PlacementOrder(orders.OrderKind.PIN, "g", "t-0", "rack:az1", "me", 1, 2),
            orders.PlacementOrder(orders.OrderKind.BAN, "g", "t-0", "member:a", "me", 1, 2),
            orders.AppliedPlan(
                target="g",
                digest="d",
                members=("a",),
                items={"a": ("t-0",)},
                owner="me",
                at_ms=1,
                expires_ms=2,
            ),
            orders.Absence("g", "member:a", 1, 2, orders.Stage.EMPTY, 1, ("a-1",), ("a",)),
            orders.InstanceHeartbeat("one", ("g",), ("h",), ("i",), ("g",), 5),
        )
    )
)
TOPOLOGY = b"""ApplicationId: app
Subtopologies:
  - SubtopologyId: 0
    SourceTopics: [in]
    StateChangelogTopics:
      - Name: app-store-changelog
"""
DESCRIPTION = b"""Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [in])
      --> KSTREAM-AGGREGATE-0000000002
    Processor: KSTREAM-AGGREGATE-0000000002 (stores: [counts])
      --> none
      <-- KSTREAM-SOURCE-0000000000
"""


def _bulk_subscriptions(inputs: Sequence[bytes]) -> int:
    """The mutated member between honest ones; what the plain reader refuses must be an error here, and nothing else."""
    columns = read_subscriptions([SUBSCRIPTIONS[5], *inputs, SUBSCRIPTIONS[40]])
    for protocol in ("sticky", "cooperative-sticky"):
        read_claims(protocol, columns)
    return _agree(columns.errors, inputs, ConsumerProtocolSubscription.decode)


def _bulk_assignments(inputs: Sequence[bytes]) -> int:
    columns = read_assignments([ASSIGNMENTS[5], *inputs, ASSIGNMENTS[40]])
    return _agree(columns.errors, inputs, ConsumerProtocolAssignment.decode)


def _bulk_infos(inputs: Sequence[bytes]) -> int:
    columns = read_infos([INFOS[5], *inputs, INFOS[-1]])
    return _agree(columns.errors, inputs, SubscriptionInfo.decode)


def _agree(errors: Mapping[int, object], inputs: Sequence[bytes], decode: Callable[[bytes], object]) -> int:
    refused = {place for place, data in enumerate(inputs, start=1) if _refused(decode, data)}
    differ = [inputs[place - 1].hex() for place in refused ^ (errors.keys() - {0, len(inputs) + 1})]
    assert not differ, f"one reader refuses what the other reads: {differ}"
    assert not errors.keys() & {0, len(inputs) + 1}
    return len(inputs) - len(refused)


def _refused(decode: Callable[[bytes], object], data: bytes) -> bool:
    try:
        decode(data)
    except RemoteProtocolError:
        return True
    return False


def _sticky(data: bytes) -> None:
    assert read_generation(data) >= -1
    read_rack_affinity(data)


def _control(data: bytes) -> object:
    """With the key that fits if there is one, so that the check of keys is passed."""
    try:
        fields = json.loads(data)
        parts = [fields["kind"], fields["target"]]
        parts += [fields["item"]] if "item" in fields else []
        parts += [fields["where"]] if "where" in fields and fields["kind"] != "pin" else []
        key = "/".join(parts).encode(errors="surrogatepass")
    except Exception:  # noqa: BLE001 - no key can be made of it
        key = data[:20]
    return orders.decode(key, data)


@cache
def _events() -> SchemaSet:
    return SchemaSet.load()


@cache
def _weight_reader() -> WeightReader:
    return WeightReader(
        {"bootstrap.servers": "127.0.0.1:1"}, WeightSettings(topic="weights"), wall_clock=lambda: 1_000.0
    )


def _weights(data: bytes) -> None:
    reader = _weight_reader()
    reader.take(None, data)
    reader.take(data[:20], None)
    weights = reader.usable()
    assert all(0 <= weight < float("inf") for weight in weights.of.values())
    if len(reader._estimates) > 50:
        reader._estimates.clear()


def _event_seeds() -> Seeds:
    """An event of every kind with the least that its schema allows."""
    events = _events()
    return tuple(events.encode(name, _least(events.latest(name).parsed, {})) for name in events.events)


def _least(schema: Any, named: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return _least(schema[-1], named)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, (dict, list)):
        return _least(kind, named)
    match kind:
        case "record":
            named[schema["name"]] = schema
            return {field["name"]: _least(field["type"], named) for field in schema["fields"]}
        case "array":
            return [_least(schema["items"], named)] * 2
        case "map":
            return {"k": _least(schema["values"], named)}
        case "enum":
            named[schema["name"]] = schema
            return schema["symbols"][0]
        case _ if kind in named:
            return _least(named[kind], named)
    return {"null": None, "boolean": True, "string": "t", "bytes": b"b", "float": 1.5, "double": 1.5}.get(kind, 7)


RACK_FILES = (b"10.244.0.0/24 az1\n<none> az2 # a node\nfd00::/64,az3\n", b'{"10.244.0.0/24": "az1", "::1": "az2"}')


def _text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: read(data.decode(errors="replace"))


@cache
def targets() -> dict[str, Target]:
    """By name."""
    remote = (RemoteProtocolError,)
    every_target = (
        Target("consumer-subscription", ConsumerProtocolSubscription.decode, remote, SUBSCRIPTIONS),
        Target("consumer-assignment", ConsumerProtocolAssignment.decode, remote, ASSIGNMENTS),
        Target("streams-subscription", SubscriptionInfo.decode, remote, INFOS),
        Target("streams-assignment", AssignmentInfo.decode, remote, GIVEN),
        Target("stateful-subscription", StatefulSubscription.decode, remote, (STATEFUL,)),
        Target("stateful-assignment", StatefulAssignment.decode, remote, (STATEFUL_GIVEN,)),
        Target("stateful-member", read_member, (), (*_wrapped(STATEFUL), *SUBSCRIPTIONS[:4])),
        Target("sticky-user-data", _sticky, (), STICKY),
        _bulk("bulk-subscriptions", _bulk_subscriptions, (*SUBSCRIPTIONS, *_wrapped(*STICKY))),
        _bulk("bulk-assignments", _bulk_assignments, ASSIGNMENTS),
        _bulk("bulk-streams-subscriptions", _bulk_infos, INFOS),
        Target("control-records", _control, (orders.RecordError,), CONTROL),
        Target("events", _events().decode, (EventError,), _event_seeds()),
        Target("weights", _weights, (), _event_seeds()),
        Target("rack-file", networks_of, (OutsideTextError,), RACK_FILES),
        Target("topology-file", _text(read_topology), (TopologyError,), (TOPOLOGY,)),
        Target("topology-description", _text(lambda t: parse_description(t, "app")), (TopologyError,), (DESCRIPTION,)),
    )
    return {target.name: target for target in every_target}


def _bulk(name: str, many: Callable[[Sequence[bytes]], int], seeds: Seeds) -> Target:
    return Target(name, lambda data: many([data]), (), seeds, many)


def _wrapped(*data: bytes) -> Seeds:
    return tuple(ConsumerProtocolSubscription(1, ("orders",), blob).encode() for blob in data)
