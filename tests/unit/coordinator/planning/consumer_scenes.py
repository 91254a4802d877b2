"""A group of plain consumers that is planned for."""

import asyncio
import time

from bellwether_kafka.assignors.shared import ClusterView
from bellwether_kafka.coordinator.membership import Decide, JoinedMember
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription

CLUSTER = ClusterView.of({"t": [["a"]] * 4})


OWN = "bw-1"


class Reader:
    """Takes the place of the cluster reader; `trouble` is raised instead of an answer, `delay_s` comes before it."""

    def __init__(self, cluster: ClusterView = CLUSTER) -> None:
        self.cluster = cluster
        self.trouble: Exception | None = None
        self.delay_s = 0.0
        self.asked: list[tuple[str, ...]] = []

    async def snapshot(self, topics: tuple[str, ...], age_ms_max: int) -> ClusterView:
        self.asked.append(topics)
        await asyncio.sleep(self.delay_s)
        if self.trouble is not None:
            raise self.trouble
        return self.cluster


def joined(member_id: str, *topics: str) -> JoinedMember:
    return JoinedMember(member_id, None, ConsumerProtocolSubscription(1, topics).encode())


MEMBERS = (joined(OWN), joined("a", "t"), joined("b", "t"))


def order(generation: int = 1, seconds: float = 5.0, members: tuple[JoinedMember, ...] = MEMBERS) -> Decide:
    return Decide(generation, "range", members, OWN, time.monotonic() + seconds)


UUID, OTHER_UUID = "6f0bb3f0-0c6c-4c49-9f0b-1f1c3a1d2e3f", "0b9d1c6e-55aa-4e0b-8c1f-7a2b3c4d5e6f"
