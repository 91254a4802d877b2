"""Subscribed topics of which no member has a partition, in a group at rest.

A static member may return with more topics and cause no rebalance (KAFKA-12759), so one that is seen is a reason to
plan. One that is seen again after that plan is a fact: the plan does not serve it, and a member's lead might. Pure;
times are epoch milliseconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bellwether_kafka.assignors.shared import ClusterView
from bellwether_kafka.coordinator.membership import DescribedMember
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import RemoteProtocolError

SETTLED_MS = 15_000  # so old a plan must be: members have had the time to come to it
PLANS = 2  # that have not served a topic
NAMES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Unserved:
    """`topics` have had no owner in so many plans in a row; `lasting`: that is a fact."""

    topics: tuple[str, ...]
    lasting: bool

    @property
    def reason(self) -> str:
        named = ", ".join(self.topics[:NAMES_SHOWN])
        more = f" and {len(self.topics) - NAMES_SHOWN} more" if len(self.topics) > NAMES_SHOWN else ""
        return f"no member has a partition of {named}{more}, which members subscribe to"


@dataclass(slots=True)
class OwnerWork:
    """One group's. `planned` takes every delivered plan."""

    _counts: Mapping[str, int] = field(default_factory=dict)  # of the topics that can be read
    _planned_ms: int = 0
    _plans: int = 0  # that have been delivered
    _seen: dict[str, set[int]] = field(default_factory=dict)  # the plans in which a topic had no owner
    _reported: tuple[str, ...] = ()

    def planned(self, cluster: ClusterView, now_ms: int) -> None:
        counts = dict(zip(cluster.topics, cluster.counts.tolist(), strict=True))
        self._counts = {t: n for t, n in counts.items() if n and t not in cluster.unreadable}
        self._planned_ms, self._plans, self._reported = now_ms, self._plans + 1, ()

    def shown(self, members: Sequence[DescribedMember], now_ms: int) -> Unserved | None:
        """What a description of the group at rest shows; None for nothing, and for what was reported of this plan."""
        if not self._counts or now_ms - self._planned_ms < SETTLED_MS:
            return None
        lacking = self._lacking(members)
        if lacking is None:
            return None
        self._seen = {topic: self._seen.get(topic, set()) | {self._plans} for topic in lacking}
        lasting = tuple(topic for topic in lacking if len(self._seen[topic]) >= PLANS)
        found = lasting or lacking
        if not found or found == self._reported:
            return None
        self._reported = found
        return Unserved(found, bool(lasting))

    def _lacking(self, members: Sequence[DescribedMember]) -> tuple[str, ...] | None:
        """The topics that members subscribe to and none has, None where a member cannot be read."""
        subscribed, owned = set[str](), set[str]()
        try:
            for member in members:
                subscribed.update(ConsumerProtocolSubscription.decode(member.metadata).topics)
                if member.assignment:
                    owned.update(tp.topic for tp in ConsumerProtocolAssignment.decode(member.assignment).partitions)
        except RemoteProtocolError:
            return None
        return tuple(sorted(topic for topic in subscribed - owned if topic in self._counts))
