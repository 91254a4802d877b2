"""KIP-848's RangeAssignor: of each topic a contiguous share for each subscriber, regardless of what members have
now."""

from collections.abc import Sequence

from bellwether_kafka.assignors.broker_side.subscriber import Owners, Subscriber, unowned


def assign_range(members: Sequence[Subscriber], partitions: Sequence[int]) -> Owners:
    """Returns the index of each partition's owner, by topic. Static members come first, by instance id, then the others
    by member id; the first of them get one more partition."""
    owner = unowned(partitions)
    order = sorted(range(len(members)), key=lambda m: _place(members[m]))
    for topic, count in enumerate(partitions):
        subscribers = [m for m in order if topic in members[m].topics]
        if not subscribers:
            continue
        quota, extras = divmod(count, len(subscribers))
        owner[topic] = [m for i, m in enumerate(subscribers) for _ in range(quota + (i < extras))]
    return owner


def _place(member: Subscriber) -> tuple[bool, str]:
    return (member.instance_id is None, member.instance_id or member.member_id)
