"""KIP-848's UniformAssignor: even counts, with as few moves as one pass over the members allows."""

from collections.abc import Sequence

from bellwether_kafka.assignors.broker_side.subscriber import Owners, Subscriber, alike, unowned
from bellwether_kafka.assignors.broker_side.uniform_general import assign_general


def assign_uniform(members: Sequence[Subscriber], partitions: Sequence[int]) -> Owners:
    """Returns the index of each partition's owner, by topic. `partitions` is the number of partitions of each topic."""
    if not members:
        return unowned(partitions)
    return _alike(members, partitions) if alike(members) else assign_general(members, partitions)


def _alike(members: Sequence[Subscriber], partitions: Sequence[int]) -> Owners:
    """Assigns if all members subscribe to the same topics. If not all can have one more partition, members that already
    have that many keep it, and of the others the last in order get one."""
    topics = sorted(members[0].topics)
    quota, extras = divmod(sum(partitions[topic] for topic in topics), len(members))
    owner, room = unowned(partitions), [0] * len(members)
    has = {(topic, p) for member in members for topic, owned in member.owned.items() for p in owned}
    free = [(topic, p) for topic in topics for p in range(partitions[topic]) if (topic, p) not in has]
    for m, member in enumerate(members):
        left, more = quota + bool(extras), bool(extras)
        for topic, owned in member.owned.items():
            if topic not in member.topics:
                continue
            kept = min(len(owned), left)
            left -= kept
            for p in owned[:kept]:
                owner[topic][p] = m
            free += [(topic, p) for p in owned[kept:]]
        if more and left and len(members) - m > extras:
            left, more = left - 1, False
        extras -= more
        room[m] = left
    receivers = (m for m, left in enumerate(room) for _ in range(left))
    for (topic, p), m in zip(free, receivers, strict=True):
        owner[topic][p] = m
    return owner
