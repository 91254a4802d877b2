"""java.util.PriorityQueue and the iteration order of java.util.HashSet, where Kafka's results depend on them.

Kafka keeps processes in a heap whose priorities change while they are queued, and pushes rejected ones back in the
order of a hash set. The result of such a heap depends on its layout, so an exact port needs the same layout. Elsewhere
priorities are current, and the smallest one is the result.
"""

from collections.abc import Sequence

from bellwether_kafka.protocol.primitives import ProcessId

_LEAST_BUCKETS = 16
_MOST_DRAINED = 10_000


class JavaHeap:
    """A binary heap of item numbers by weight; weights are read while sifting. Items of equal weight are ordered by
    number, or, if not `numbered`, by their place in the heap."""

    __slots__ = ("_numbered", "_queue", "_weight")

    def __init__(self, weight: Sequence[float], *, numbered: bool = True) -> None:
        self._weight, self._numbered = weight, numbered
        self._queue: list[int] = []

    def __len__(self) -> int:
        return len(self._queue)

    def offer(self, item: int) -> None:
        """Adds an item. If it is queued, it leaves its old place first."""
        if item in self._queue:
            self._remove(self._queue.index(item))
        self.add(item)

    def add(self, item: int) -> None:
        """Adds an item that is not queued."""
        self._queue.append(item)
        self._sift_up(len(self._queue) - 1, item)

    def poll(self) -> int:
        head = self._queue[0]
        last = self._queue.pop()
        if self._queue:
            self._sift_down(0, last)
        return head

    def _remove(self, at: int) -> None:
        moved = self._queue.pop()
        if at == len(self._queue):
            return
        self._sift_down(at, moved)
        if self._queue[at] == moved:
            self._sift_up(at, moved)

    def _sift_up(self, at: int, item: int) -> None:
        queue, weight, numbered = self._queue, self._weight, self._numbered
        mine = weight[item]
        while at > 0:
            parent = queue[above := (at - 1) >> 1]
            theirs = weight[parent]
            if mine > theirs or (mine == theirs and (item >= parent or not numbered)):
                break
            queue[at] = parent
            at = above
        queue[at] = item

    def _sift_down(self, at: int, item: int) -> None:
        queue, weight, numbered = self._queue, self._weight, self._numbered
        size, mine = len(queue), weight[item]
        while (below := 2 * at + 1) < size:
            child = queue[below]
            theirs = weight[child]
            if below + 1 < size:
                right = queue[below + 1]
                other = weight[right]
                if theirs > other or (theirs == other and numbered and child > right):
                    below, child, theirs = below + 1, right, other
            if mine < theirs or (mine == theirs and (item <= child or not numbered)):
                break
            queue[at] = child
            at = below
        queue[at] = item


def drain_order(keys: Sequence[int]) -> list[int]:
    """Returns the order in which a PriorityQueue polls items 0, 1, … that were added in this order with these keys.

    The queue only matters for equal keys. Without any, or with too many items to simulate, this is the sorted order.
    """
    if len(keys) > _MOST_DRAINED or len(set(keys)) == len(keys):
        return sorted(range(len(keys)), key=keys.__getitem__)
    heap = JavaHeap(keys, numbered=False)
    for item in range(len(keys)):
        heap.add(item)
    return [heap.poll() for _ in keys]


def uuid_hash(process: ProcessId) -> int:
    """Returns UUID.hashCode as HashMap spreads it, unsigned."""
    folded = (process.most_significant ^ process.least_significant) & 0xFFFFFFFFFFFFFFFF
    code = (folded >> 32) ^ (folded & 0xFFFFFFFF)
    return code ^ (code >> 16)


def task_hash(subtopology: int, partition: int) -> int:
    """Returns TaskId.hashCode of an unnamed topology as HashMap spreads it, unsigned."""
    code = 31 * (31 * (31 + subtopology) + partition) & 0xFFFFFFFF
    return code ^ (code >> 16)


def hash_order(items: Sequence[int], hashes: Sequence[int]) -> list[int]:
    """Returns the iteration order of a HashSet to which these items were added in this order.

    It is exact unless a bucket holds more than eight items (Java then turns it into a tree), which processes with
    random ids never reach.
    """
    buckets = _LEAST_BUCKETS
    while len(items) > buckets * 3 // 4:
        buckets *= 2
    mask = buckets - 1
    return sorted(items, key=lambda item: hashes[item] & mask)


def string_hash(text: str) -> int:
    """Returns String.hashCode as HashMap spreads it, unsigned."""
    code = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(data[::2], data[1::2], strict=True):
        code = 31 * code + (high << 8 | low) & 0xFFFFFFFF
    return code ^ (code >> 16)


def hash_map_order(hashes: Sequence[int], capacity: int) -> list[int]:
    """Returns the iteration order of a HashMap with this initial capacity to which items 0, 1, … with these hashes were
    added; as exact as `hash_order`."""
    buckets = 1
    while buckets < capacity:
        buckets *= 2
    while len(hashes) > buckets * 3 // 4:
        buckets *= 2
    mask = buckets - 1
    return sorted(range(len(hashes)), key=lambda item: hashes[item] & mask)


def computed_map_order(hashes: Sequence[int], calls: Sequence[int], capacity: int) -> list[int]:
    """Returns the iteration order of a HashMap with this initial capacity on which computeIfAbsent was called for these
    items, some of them repeatedly. Unlike put, it grows at the call after the one that filled the table, and adds an
    item to the front of its bucket."""
    buckets, present = 1, dict[int, None]()
    while buckets < capacity:
        buckets *= 2
    for item in calls:
        if len(present) > buckets * 3 // 4:
            buckets *= 2
        present.setdefault(item)
    newest_first = [*present][::-1]
    return sorted(newest_first, key=lambda item: hashes[item] & (buckets - 1))
