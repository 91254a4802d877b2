"""The orders of Java's strings and hash tables, which its clients and brokers show to others.

An unordered collection of Java has an order all the same, and ties break by it: which topic comes first in a message,
which task of several equal ones moves. Hash codes are unsigned here. "Spread" is what a table makes of one, so that its
lower bits, which choose the bucket, depend on the upper ones too.

Example: "b" and "a" have the codes 98 and 97, so a set of 16 buckets lists "a" (bucket 1) before "b" (bucket 2).
"""

from collections.abc import Iterable, Sequence

from bellwether_kafka.protocol.primitives.types import ProcessId

_LEAST_BUCKETS = 16
_LIST_MOST = 8
_UNTREE_MOST = 6
_TREE_BUCKETS = 64
_NIL = -1


def java_sorted(texts: Iterable[str]) -> list[str]:
    """Sorts texts in Java's order, by UTF-16 unit; it differs from Python's only beyond the basic plane."""
    items = list(texts)
    if all(text.isascii() for text in items):
        return sorted(items)
    return sorted(items, key=lambda text: text.encode("utf-16-be", "surrogatepass"))


def string_code(text: str) -> int:
    """Returns String.hashCode."""
    code = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(data[::2], data[1::2], strict=True):
        code = 31 * code + (high << 8 | low) & 0xFFFFFFFF
    return code


def spread(code: int) -> int:
    """Returns the hash code as HashMap spreads it."""
    code &= 0xFFFFFFFF
    return code ^ code >> 16


def string_hash(text: str) -> int:
    """Returns String.hashCode, spread."""
    return spread(string_code(text))


def uuid_hash(process: ProcessId) -> int:
    """Returns UUID.hashCode, spread."""
    folded = (process.most_significant ^ process.least_significant) & 0xFFFFFFFFFFFFFFFF
    return spread(folded >> 32 ^ folded)


def task_hash(subtopology: int, partition: int, topology: str | None = None) -> int:
    """Returns TaskId.hashCode, spread."""
    return spread(31 * (31 * (31 + subtopology) + partition) + string_code(topology or ""))


def hash_map_order(hashes: Sequence[int], capacity: int = _LEAST_BUCKETS) -> list[int]:
    """Returns the iteration order of a HashMap with this initial capacity to which items 0, 1, … with these hashes were
    added.

    It is exact unless a bucket holds more than eight items, which random ids never reach: Java then turns it into a
    tree (see `task_set_order`).
    """
    buckets = 1
    while buckets < capacity:
        buckets *= 2
    while len(hashes) > buckets * 3 // 4:
        buckets *= 2
    return sorted(range(len(hashes)), key=lambda item: hashes[item] & (buckets - 1))


def hash_order(items: Sequence[int], hashes: Sequence[int]) -> list[int]:
    """Returns the iteration order of a HashSet to which these items were added in this order; `hashes` are those of
    items 0, 1, …"""
    return [items[at] for at in hash_map_order([hashes[item] for item in items])]


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


def task_set_order(subtopology: Sequence[int], partition: Sequence[int]) -> list[int]:
    """Returns the iteration order of a HashSet of these tasks (as positions), added in ascending order of task id, even
    if buckets become trees.

    Tasks are given to processes in turn, so those of one process often differ by a multiple of a power of two and share
    buckets. From the ninth entry on Java keeps such a bucket as a red-black tree threaded by a list, and iterates over
    the list: a new entry is placed after its parent in the tree, and the root is moved to the front.
    """
    hashes = [task_hash(s, p) for s, p in zip(subtopology, partition, strict=True)]
    buckets = _LEAST_BUCKETS
    while len(hashes) > buckets * 3 // 4:
        buckets *= 2
    rows: dict[int, list[int]] = {}
    for position, code in enumerate(hashes):
        rows.setdefault(code & (buckets - 1), []).append(position)
    # Early growth or trees require nine tasks in one bucket of the final table, or of an earlier, smaller one.
    if len(hashes) > _LIST_MOST and _crowded(hashes, buckets):
        return _HashSet(hashes).order()
    return [position for bucket in sorted(rows) for position in rows[bucket]]


def _crowded(hashes: Sequence[int], buckets: int) -> bool:
    while buckets >= _LEAST_BUCKETS:
        count = [0] * buckets
        for code in hashes[: buckets * 3 // 4 + 1]:
            count[code & (buckets - 1)] += 1
        if max(count) > _LIST_MOST:
            return True
        buckets //= 2
    return False


class _HashSet:
    """A HashSet of positions 0, 1, …, which compare like their keys and are added in order."""

    def __init__(self, hashes: Sequence[int]) -> None:
        self._hashes = hashes
        self._lists: list[list[int]] = [[] for _ in range(_LEAST_BUCKETS)]
        self._trees: dict[int, _Tree] = {}
        for position in range(len(hashes)):
            self._add(position)
            if position + 1 > len(self._lists) * 3 // 4:
                self._grow()

    def order(self) -> list[int]:
        return [position for bucket in self._lists for position in bucket]

    def _add(self, position: int) -> None:
        bucket = self._hashes[position] & (len(self._lists) - 1)
        entries = self._lists[bucket]
        tree = self._trees.get(bucket)
        if tree is not None:
            parent = tree.insert(position)
            entries.insert(entries.index(parent) + 1, position)
            _to_front(entries, tree.root)
            return
        entries.append(position)
        if len(entries) > _LIST_MOST:
            if len(self._lists) < _TREE_BUCKETS:
                self._grow()
            else:
                self._plant(bucket)

    def _plant(self, bucket: int) -> None:
        entries = self._lists[bucket]
        tree = _Tree(self._hashes)
        for position in entries:
            tree.insert(position)
        self._trees[bucket] = tree
        _to_front(entries, tree.root)

    def _grow(self) -> None:
        old, trees, size = self._lists, self._trees, len(self._lists)
        self._lists = [[] for _ in range(2 * size)]
        self._trees = {}
        for bucket, entries in enumerate(old):
            for position in entries:
                self._lists[self._hashes[position] & (2 * size - 1)].append(position)
            if bucket not in trees:
                continue
            for half in (bucket, bucket + size):
                if len(self._lists[half]) == len(entries):
                    self._trees[half] = trees[bucket]
                elif len(self._lists[half]) > _UNTREE_MOST:
                    self._plant(half)


def _to_front(entries: list[int], root: int) -> None:
    entries.remove(root)
    entries.insert(0, root)


class _Tree:
    """Red-black insertion, ordered by (hash, position)."""

    def __init__(self, hashes: Sequence[int]) -> None:
        self._hashes = hashes
        self.root = _NIL
        self._parent: dict[int, int] = {}
        self._child: dict[tuple[int, bool], int] = {}
        self._red: set[int] = set()

    def insert(self, x: int) -> int:
        """Adds an entry. Returns its parent at that moment, _NIL for the first."""
        key, parent, node, right = (self._hashes[x], x), _NIL, self.root, False
        while node != _NIL:
            parent = node
            right = key > (self._hashes[node], node)
            node = self._child.get((node, right), _NIL)
        self._parent[x] = parent
        if parent == _NIL:
            self.root = x
        else:
            self._child[parent, right] = x
            self._red.add(x)
            self._balance(x)
        return parent

    def _balance(self, x: int) -> None:
        red, parents = self._red, self._parent
        while (parent := parents[x]) in red:
            grand = parents[parent]
            right = self._child.get((grand, True)) == parent
            uncle = self._child.get((grand, not right), _NIL)
            if uncle in red:
                red -= {parent, uncle}
                red.add(grand)
                x = grand
                continue
            if self._child.get((parent, not right)) == x:
                self._rotate(parent, right)
                x, parent = parent, x
            red.discard(parent)
            red.add(grand)
            self._rotate(grand, not right)
        red.discard(self.root)

    def _rotate(self, node: int, right: bool) -> None:
        """Rotates the subtree of `node` to one side: its child on the other side takes its place."""
        up = self._child.pop((node, not right))
        inner = self._child.pop((up, right), _NIL)
        above = self._parent[node]
        if inner != _NIL:
            self._child[node, not right] = inner
            self._parent[inner] = node
        self._child[up, right] = node
        self._parent[up], self._parent[node] = above, up
        if above == _NIL:
            self.root = up
        else:
            self._child[above, self._child.get((above, True)) == node] = up
