"""Finds subscribed topics of which no member of a stable group owns a partition.

A static member may return with more topics and cause no rebalance (KAFKA-12759), so such a topic is a reason to plan.
If it is still without an owner after that plan, this is a fact: Bellwether's plans do not serve it, and a member's lead
might. Pure; times are milliseconds by a clock that is never set.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bellwether_kafka.assignors.shared import ClusterView
from bellwether_kafka.coordinator.membership import DescribedMember
from bellwether_kafka.coordinator.names import listed
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import RemoteProtocolError

SETTLED_MS = 15_000  # least age of a plan, so that members have had time to adopt it
PLANS = 2  # plans without an owner for a topic that make this a fact
NAMES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Unserved:
    """Topics without an owner. `lasting`: for PLANS plans in a row, so that it is a fact."""

    topics: tuple[str, ...]
    lasting: bool

    @property
    def reason(self) -> str:
        return f"no member has a partition of {listed(self.topics, NAMES_SHOWN)}, which members subscribe to"


@dataclass(slots=True)
class OwnerWork:
    """The owners in one group. `planned` takes every delivered plan."""

    _counts: Mapping[str, int] = field(default_factory=dict)  # partition counts of readable topics
    _planned_ms: int = 0
    _plans: int = 0  # delivered plans
    _seen: dict[str, set[int]] = field(default_factory=dict)  # the plans in which a topic had no owner
    _reported: tuple[str, ...] = ()

    def planned(self, cluster: ClusterView, now_ms: int) -> None:
        counts = dict(zip(cluster.topics, cluster.counts.tolist(), strict=True))
        self._counts = {t: n for t, n in counts.items() if n and t not in cluster.unreadable}
        self._planned_ms, self._plans, self._reported = now_ms, self._plans + 1, ()

    def shown(self, members: Sequence[DescribedMember], now_ms: int) -> Unserved | None:
        """Returns the unserved topics in a description of the stable group; None for none, and if they have been
        reported since the last plan."""
        if not self._counts or now_ms - self._planned_ms < SETTLED_MS:
            return None
        lacking = self._lacking(members)
        if lacking is None:
            return None
        self._seen = {topic: self._seen.get(topic, set()) | {self._plans} for topic in lacking}
        lasting = tuple(topic for topic in lacking if len(self._seen[topic]) >= PLANS)
        unserved = lasting or lacking
        if not unserved or unserved == self._reported:
            return None
        self._reported = unserved
        return Unserved(unserved, bool(lasting))

    def _lacking(self, members: Sequence[DescribedMember]) -> tuple[str, ...] | None:
        """Returns the topics that members subscribe to and none owns; None if a member's bytes cannot be decoded."""
        subscribed, owned = set[str](), set[str]()
        try:
            for member in members:
                subscribed.update(ConsumerProtocolSubscription.decode(member.metadata).topics)
                if member.assignment:
                    owned.update(tp.topic for tp in ConsumerProtocolAssignment.decode(member.assignment).partitions)
        except RemoteProtocolError:
            return None
        return tuple(sorted(topic for topic in subscribed - owned if topic in self._counts))
