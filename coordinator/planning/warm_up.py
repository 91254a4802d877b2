"""Makes a plan for an invented group before the first real one: a process's first plan takes many times as long as its
second, because libraries import parts of themselves at first use."""

import asyncio

from bellwether_kafka.assignors.consumer import BUILT_IN, Policy, decide
from bellwether_kafka.assignors.shared import ClusterView, Memory, RawGroup, RawMember, Refusal
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition

# After the first JoinGroup requests, and before most of their answers.
DELAY_S = 0.5
TOPIC = "warm-up"
RACKS = ("a", "b")


async def warm_up_soon(*_: object) -> None:
    """Warms up in a thread, shortly after the start. Runs beside the service."""
    await asyncio.sleep(DELAY_S)
    await asyncio.to_thread(warm_up)


def warm_up() -> None:
    """Makes plans for every built-in protocol, with scores and memory."""
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
    owned = tuple(TopicPartition(TOPIC, p) for p in range(3 - number))  # one partition is claimed twice
    return ConsumerProtocolSubscription(3, (TOPIC,), None, owned, 1, rack).encode()
