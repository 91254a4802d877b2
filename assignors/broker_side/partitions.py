"""The broker's assignors of partitions, KIP-848's RangeAssignor and UniformAssignor.

* Range: of each topic a contiguous share for each subscriber, regardless of what members have now.
* Uniform, equal subscriptions: even counts, with as few moves as one pass over the members allows.
* Uniform, different subscriptions: keep everything, assign free partitions, then even out topic by topic until a whole
  pass over the topics moves nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NOBODY = -1
Owners = list[list[int]]


@dataclass(frozen=True, slots=True)
class Subscriber:
    """One member. `topics` are topic indices; `owned` are its partitions of each topic, ascending and disjoint from
    those of all others."""

    member_id: str
    instance_id: str | None
    topics: frozenset[int]
    owned: Mapping[int, Sequence[int]]


def alike(members: Sequence[Subscriber]) -> bool:
    """Returns whether all members subscribe to the same topics, which a broker calls homogeneous."""
    return len({member.topics for member in members}) <= 1


def unowned(partitions: Sequence[int]) -> Owners:
    """Returns owners by topic and partition, all NOBODY; `partitions` is the number of partitions of each topic."""
    return [[NOBODY] * count for count in partitions]


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


TURNS_MAX = 16


def assign_general(members: Sequence[Subscriber], partitions: Sequence[int]) -> Owners:
    """Returns the index of each partition's owner, by topic."""
    owner, size = unowned(partitions), [0] * len(members)
    for m, member in enumerate(members):
        for topic, owned in member.owned.items():
            if topic in member.topics:
                size[m] += len(owned)
                for p in owned:
                    owner[topic][p] = m
    subscribers = [
        [m for m, member in enumerate(members) if topic in member.topics] for topic in range(len(partitions))
    ]
    topics = [topic for topic, subscribed in enumerate(subscribers) if subscribed]
    # The topics with the most partitions per subscriber first, then those with the fewest subscribers.
    topics.sort(key=lambda t: (-partitions[t] / len(subscribers[t]), len(subscribers[t]), t))
    for topic in topics:
        _hand_out(owner[topic], _Levels(subscribers[topic], size), size)
    shared = [topic for topic in topics if len(subscribers[topic]) > 1]
    last = None
    for _ in range(TURNS_MAX):
        for topic in shared:
            if topic == last:
                return owner
            moved = _even_out(owner[topic], _Levels(subscribers[topic], size), size)
            if moved or last is None:
                last = topic
    return owner


def _hand_out(owner: list[int], levels: "_Levels", size: list[int]) -> None:
    for p, m in enumerate(owner):
        if m == NOBODY:
            receiver = levels.least()
            owner[p] = receiver
            size[receiver] += 1


def _even_out(owner: list[int], levels: "_Levels", size: list[int]) -> int:
    """Moves partitions of one topic from its fullest subscribers to its emptiest. Returns how many moved."""
    if levels.spread <= 1:
        return 0
    of_member: dict[int, list[int]] = {}
    for p, m in enumerate(owner):
        of_member.setdefault(m, []).append(p)
    moved = 0
    while not levels.are_even():
        giver = levels.most()
        while giver != NOBODY and not of_member.get(giver):
            levels.exclude()
            giver = levels.most()
        if giver == NOBODY:
            break
        p, taker = of_member[giver].pop(), levels.least()
        if levels.are_even():
            break
        owner[p] = taker
        size[giver] -= 1
        size[taker] += 1
        moved += 1
    return moved


class _Levels:
    """The subscribers of one topic, ordered by their total partitions. A range of the emptiest grows from below, all of
    them filled to one level before it rises; a range of the fullest grows from above. `size` changes in the meantime,
    as in Java: it is read only for members that no range has reached yet, and those have not changed."""

    def __init__(self, subscribers: Sequence[int], size: Sequence[int]) -> None:
        self._size = size
        self._order = sorted(subscribers, key=lambda m: (size[m], m))
        self.spread = size[self._order[-1]] - size[self._order[0]]
        self._low_end, self._low, self._next_low = 0, size[self._order[0]] - 1, 0
        total = len(self._order)
        self._high_start, self._high_end = total, total
        self._high, self._next_high = size[self._order[-1]] + 1, total - 1

    def are_even(self) -> bool:
        return self._high - self._low <= 1

    def least(self) -> int:
        """Returns the next member to get a partition."""
        order, size = self._order, self._size
        if self._next_low >= self._low_end:
            self._low += 1
            while self._low_end < len(order) and size[order[self._low_end]] == self._low:
                self._low_end += 1
            self._next_low = 0
        self._next_low += 1
        return order[self._next_low - 1]

    def most(self) -> int:
        """Returns the next member to lose a partition; NOBODY if all that remain are excluded."""
        order, size = self._order, self._size
        if self._next_high < self._high_start:
            is_empty = self._high_end <= self._high_start and self._high_start > 0
            self._high = size[order[self._high_start - 1]] if is_empty else self._high - 1
            while self._high_start > 0 and size[order[self._high_start - 1]] == self._high:
                self._high_start -= 1
            self._next_high = self._high_end - 1
        if self._next_high < 0:
            return NOBODY
        self._next_high -= 1
        return order[self._next_high + 1]

    def exclude(self) -> None:
        """Removes the member that `most` returned last from the range, because it has no partition of this topic."""
        order, at, end = self._order, self._next_high + 1, self._high_end - 1
        order[at], order[end] = order[end], order[at]
        self._high_end -= 1
