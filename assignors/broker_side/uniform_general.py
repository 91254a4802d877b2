"""KIP-848's UniformAssignor for different subscriptions: keep everything, assign free partitions, then even out topic
by topic until a whole pass over the topics moves nothing."""

from collections.abc import Sequence

from bellwether_kafka.assignors.broker_side.subscriber import NOBODY, Owners, Subscriber, unowned

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
