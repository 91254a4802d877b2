"""Makes a plan for an invented group before the first real one: the first plan of a process costs many times as much
as the second, because libraries import parts of themselves when they are first used."""

import asyncio

from bellwether_kafka.assignors.consumer import BUILT_IN, Policy, decide
from bellwether_kafka.assignors.shared import ClusterView, Memory, RawGroup, RawMember, Refusal
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition

# After the first JoinGroup requests, before most brokers have answered them.
DELAY_S = 0.5
TOPIC = "warm-up"
RACKS = ("a", "b")


async def warm_up_soon(*_: object) -> None:
    """Beside the service: warms up in a thread, shortly after the start."""
    await asyncio.sleep(DELAY_S)
    await asyncio.to_thread(warm_up)


def warm_up() -> None:
    """Plans once for every built-in protocol, with scores and memory."""
    cluster = ClusterView.of({TOPIC: [[rack] for rack in RACKS * 2]})
    for protocol in BUILT_IN:
        members = tuple(RawMember(rack, None, _subscription(rack, n)) for n, rack in enumerate(RACKS))
        group = RawGroup(TOPIC, 2, protocol, members)
        decision = decide(group, cluster, Memory.empty(), Policy(), 0)
        if isinstance(decision, Refusal):
            continue
        again = decide(group, cluster, decision.plan.memory, Policy(), 0)
        if not isinstance(again, Refusal):
            _ = again.plan.cost(again.plan.before), again.cost, again.moves


def _subscription(rack: str, number: int) -> bytes:
    owned = tuple(TopicPartition(TOPIC, p) for p in range(3 - number))  # one of them contested
    return ConsumerProtocolSubscription(3, (TOPIC,), None, owned, 1, rack).encode()
