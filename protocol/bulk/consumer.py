"""The subscriptions and assignments of whole groups as columns: what a leader reads and writes in every rebalance.

One walk over each blob collects its fields and where partition numbers are; numpy makes columns of them at the end.
Values and errors are those of the dataclasses (tests/properties compares them), which make an object
for every partition. For two members that own orders-0, orders-2 and orders-1:

    topic_names ("orders",)   owned_member 0 0 1   owned_topic 0 0 0   owned_partition 0 2 1
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, chain
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bellwether_kafka.protocol import messages
from bellwether_kafka.protocol.primitives import LocalProtocolError, RemoteProtocolError, Writer

IntArray = npt.NDArray[np.int32]
LongArray = npt.NDArray[np.int64]

_NONE = -1
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
# Most members send the same list of topics. It is looked up by its first bytes, and then compared in full.
_HEAD_BYTES = 64
_ERRORS = (struct.error, ValueError)


@dataclass(frozen=True, slots=True, eq=False)
class SubscriptionColumns:
    """The subscriptions of M members with K owned partitions in total.

    `topic_names` are the distinct names, sorted. `topic_lists` are the distinct subscribed lists (in wire order), and
    `topic_list[m]` is an index into them. `owned_*[k]` are the member, the index into topic_names, and the partition
    number as sent (it may be negative), ordered by member, then as on the wire. A member in `errors` (index -> reason)
    has no values: its list, version and generation are -1, its userData and rack None, and it owns nothing.
    """

    topic_names: tuple[str, ...]
    topic_lists: tuple[tuple[str, ...], ...]
    topic_list: IntArray
    version: npt.NDArray[np.int16]
    user_data: Sequence[bytes | None]
    generation: IntArray
    rack: tuple[str | None, ...]
    owned_member: IntArray
    owned_topic: IntArray
    owned_partition: IntArray
    errors: Mapping[int, str]


@dataclass(frozen=True, slots=True, eq=False)
class ClaimColumns:
    """K claims of M members: the member, the index into topic_names and the partition of each, and one generation per
    member."""

    topic_names: tuple[str, ...]
    member: IntArray
    topic: IntArray
    partition: IntArray
    generation: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class AssignmentColumns:
    """The assignments of M members with K partitions in total. Columns are as in SubscriptionColumns."""

    topic_names: tuple[str, ...]
    version: npt.NDArray[np.int16]
    user_data: Sequence[bytes | None]
    member: IntArray
    topic: IntArray
    partition: IntArray
    errors: Mapping[int, str]


class _Partitions(NamedTuple):
    """A list of topics with partitions: per topic its number, how many partitions it has, and where they are."""

    topic: Sequence[int] = ()
    items: Sequence[int] = ()
    at: Sequence[int] = ()


class _Subscription(NamedTuple):
    """The fields of one member's subscription; its defaults are those of a member that cannot be read."""

    topics: tuple[str, ...] | None = None
    version: int = _NONE
    user_data: bytes | None = None
    owned: _Partitions = _Partitions()
    generation: int = messages.NO_GENERATION
    rack: str | None = None


@dataclass(slots=True)
class _Names:
    """Topics by the bytes of their names, in the order in which they were first read."""

    number: dict[bytes, int] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)

    def new(self, raw: bytes) -> int:
        """Returns the number of a topic that was not read before. Raises UnicodeDecodeError."""
        self.text.append(raw.decode())
        self.number[raw] = len(self.number)
        return len(self.number) - 1

    def columns(
        self, blobs: Sequence[bytes], lists: Sequence[_Partitions], others: Iterable[str] = ()
    ) -> tuple[tuple[str, ...], IntArray, IntArray, IntArray]:
        """Returns (distinct names including `others`, sorted; the blob, topic and partition of every number) of the
        list in each blob."""
        count = np.array([*chain.from_iterable([row.items for row in lists])], dtype=np.int64)
        topic = np.array([*chain.from_iterable([row.topic for row in lists])], dtype=np.int32).repeat(count)
        at = np.array([*chain.from_iterable([row.at for row in lists])], dtype=np.int64)
        blob = np.arange(len(lists), dtype=np.int32).repeat([len(row.at) for row in lists])
        start = np.array([0, *accumulate(map(len, blobs))], dtype=np.int64)
        before = np.cumsum(count) - count
        where = (start[blob] + at - 4 * before).repeat(count) + 4 * np.arange(len(topic))
        raw = b"".join([*blobs, bytes(4)])
        partition = np.ndarray((len(raw) - 3,), ">i4", raw, strides=(1,))[where].astype(np.int32)

        used = np.flatnonzero(np.bincount(topic, minlength=len(self.text))).tolist()
        names = sorted({*others, *(self.text[i] for i in used)})
        place = {name: i for i, name in enumerate(names)}
        index = np.array([place.get(text, _NONE) for text in self.text], dtype=np.int32)
        return tuple(names), blob.repeat(count), index[topic], partition


def read_subscriptions(blobs: Sequence[bytes]) -> SubscriptionColumns:
    """Decodes all members of a JoinGroup response. No blob can make it raise."""
    names, parsed = _Names(), dict[bytes, tuple[bytes, tuple[str, ...]]]()
    rows: list[_Subscription] = []
    errors: dict[int, str] = {}
    for m, blob in enumerate(blobs):
        try:
            rows.append(_read_subscription(blob, names, parsed))
        except _ERRORS:
            errors[m] = _reason(blob, messages.ConsumerProtocolSubscription.decode)
            rows.append(_Subscription())
    lists: dict[tuple[str, ...], int] = {}
    topic_list = [_NONE if row.topics is None else lists.setdefault(row.topics, len(lists)) for row in rows]
    subscribed = {name for topics in lists for name in topics}
    topic_names, member, topic, partition = names.columns(blobs, [row.owned for row in rows], subscribed)
    return SubscriptionColumns(
        topic_names=topic_names,
        topic_lists=tuple(lists),
        topic_list=np.array(topic_list, dtype=np.int32),
        version=np.array([row.version for row in rows], dtype=np.int16),
        user_data=[row.user_data for row in rows],
        generation=np.array([row.generation for row in rows], dtype=np.int32),
        rack=tuple([row.rack for row in rows]),
        owned_member=member,
        owned_topic=topic,
        owned_partition=partition,
        errors=errors,
    )


def read_claims(protocol: str, columns: SubscriptionColumns) -> ClaimColumns:
    """Returns the claims of every member under the protocol that the broker chose.

    It applies rules 1 and 2 of docs/internals/wire-formats.md#claims-of-a-member. The caller knows the existing topics;
    when it converts claims to its own coordinates it drops negative, unknown and unsubscribed partitions and
    duplicates.
    """
    eager = protocol == messages.STICKY
    generation = np.full_like(columns.generation, messages.NO_GENERATION) if eager else columns.generation.copy()
    names, lists = _Names(), list[_Partitions]()
    hints = [
        data or b"" if old else b"" for data, old in zip(columns.user_data, (generation < 0).tolist(), strict=True)
    ]
    read: dict[bytes, tuple[_Partitions, int]] = {b"": (_Partitions(), messages.NO_GENERATION)}
    for m, data in enumerate(hints):
        if data not in read:
            read[data] = _read_dialect(data, names, only_lists=eager)
        partitions, hinted = read[data]
        lists.append(partitions)
        if data:
            generation[m] = hinted
    topic_names, member, topic, partition = (
        names.columns(hints, lists)
        if eager
        else (columns.topic_names, columns.owned_member, columns.owned_topic, columns.owned_partition)
    )
    return ClaimColumns(topic_names=topic_names, member=member, topic=topic, partition=partition, generation=generation)


def read_assignments(blobs: Sequence[bytes]) -> AssignmentColumns:
    """Decodes the assignments of all members, as DescribeGroups returns them. No blob can make it raise."""
    names, lists = _Names(), list[_Partitions]()
    version = np.full(len(blobs), _NONE, dtype=np.int16)
    user_data: list[bytes | None] = [None] * len(blobs)
    errors: dict[int, str] = {}
    for m, blob in enumerate(blobs):
        try:
            version[m], partitions, user_data[m], _ = _read_assignment(blob, names)
            lists.append(partitions)
        except _ERRORS:
            errors[m] = _reason(blob, messages.ConsumerProtocolAssignment.decode)
            lists.append(_Partitions())
    topic_names, member, topic, partition = names.columns(blobs, lists)
    return AssignmentColumns(
        topic_names=topic_names,
        version=version,
        user_data=user_data,
        member=member,
        topic=topic,
        partition=partition,
        errors=errors,
    )


def owner_of(blobs: Sequence[bytes], topic_names: Sequence[str], first: LongArray) -> IntArray:
    """Returns the owner array of a list of encoded assignments: the position in the list, -1 for none.

    This is the last check of Bellwether's own bytes before they are sent, so it is stricter than a reader. Raises
    LocalProtocolError for a blob that does not decode or has trailing bytes, an unknown topic or partition, or a
    partition that is given twice.
    """
    names, lists = _Names(), list[_Partitions]()
    for m, blob in enumerate(blobs):
        try:
            version, partitions, _, end = _read_assignment(blob, names)
        except _ERRORS:
            end = _NONE
        if end != len(blob) or version > messages.CONSUMER_VERSION_MAX:
            raise LocalProtocolError(f"the assignment of member {m} does not decode")
        lists.append(partitions)
    index = {name: t for t, name in enumerate(topic_names)}
    if unknown := [name for name in names.text if name not in index]:
        raise LocalProtocolError(f"an assignment names the unknown topic {unknown[0]!r}")
    listed, member, name, partition = names.columns(blobs, lists)
    topic = np.array([index[text] for text in listed], dtype=np.int64)[name]
    flat = first[topic] + partition
    outside = (partition < 0) | (flat >= first[topic + 1])
    if outside.any():
        k = int(np.argmax(outside))
        raise LocalProtocolError(
            f"member {member[k]} gets {topic_names[topic[k]]}-{partition[k]}, which does not exist"
        )
    owner = np.full(int(first[-1]), _NONE, dtype=np.int32)
    owner[flat] = member
    if len(flat) != np.count_nonzero(owner != _NONE):
        k = int(np.argmax(np.bincount(flat)[flat] > 1))
        raise LocalProtocolError(f"{topic_names[topic[k]]}-{partition[k]} is given more than once")
    return owner


def write_assignments(
    topic_names: Sequence[str],
    first: LongArray,
    owner: IntArray,
    members: int,
    *,
    version: int = 1,
    user_data: Mapping[int, bytes] = MappingProxyType({}),
) -> list[bytes]:
    """Encodes what every member owns, as ConsumerProtocolAssignment with partitions sorted by topic index.

    Flat partition f of topic t is `first[t] + partition`; `owner[f]` is a member index or -1. userData is null unless
    given. Raises LocalProtocolError for an owner, a version or a topic name that does not fit.
    """
    headers = [_header(name) for name in topic_names]
    if not 0 <= version <= messages.CONSUMER_VERSION_MAX or not all(0 <= m < members for m in user_data):
        raise LocalProtocolError(f"version {version} or the userData of a member that is not there")
    if len(owner) != first[-1] or (len(owner) and not _NONE <= int(owner.min()) <= int(owner.max()) < members):
        raise LocalProtocolError(
            f"owners of {len(owner)} partitions do not fit {first[-1]} partitions, {members} members"
        )
    owned = (owner != _NONE).nonzero()[0]
    # Sixteen bits if they suffice, because only then is the stable sort a radix sort.
    keys = owner[owned].astype(np.uint16 if members <= 1 << 16 else np.int32)
    order = keys.argsort(kind="stable")
    member, flat = keys[order].astype(np.int64), owned[order]
    topic = np.arange(len(topic_names)).repeat(first[1:] - first[:-1])[flat]
    starts = np.ones(len(flat) + 1, dtype=np.bool_)
    starts[1:-1] = (member[1:] != member[:-1]) | (topic[1:] != topic[:-1])
    run: LongArray = starts.nonzero()[0]
    # How many partitions of a topic, then these: 4 bytes for each.
    raw = np.insert(flat - first[topic], run[:-1], np.diff(run)).astype(">i4").tobytes()
    bounds = (4 * (run + np.arange(len(run)))).tolist()
    each = zip(topic[run[:-1]].tolist(), bounds[:-1], bounds[1:], strict=True)
    items = [headers[t] + raw[at:end] for t, at, end in each]

    head = _INT16.pack(version)
    entries = np.bincount(member[run[:-1]], minlength=members)
    counts = entries.astype(">i4").tobytes()
    end_of = np.cumsum(entries).tolist()
    blobs = []
    for m, (start, end) in enumerate(zip([0, *end_of], end_of, strict=False)):
        data = user_data.get(m)
        tail = _INT32.pack(_NONE) if data is None else _INT32.pack(len(data)) + data
        blobs.append(b"".join([head, counts[4 * m : 4 * m + 4], *items[start:end], tail]))
    return blobs


@lru_cache(maxsize=1 << 16)
def _header(name: str) -> bytes:
    writer = Writer()
    writer.string(name)
    return writer.getvalue()


def _read_subscription(blob: bytes, names: _Names, parsed: dict[bytes, tuple[bytes, tuple[str, ...]]]) -> _Subscription:
    """Reads as ConsumerProtocolSubscription.decode, and raises one of _ERRORS where that raises."""
    version, end = _read_version(blob), len(blob)
    head = blob[2:_HEAD_BYTES]
    prefix, topics = parsed.get(head, (b"", ()))
    if not prefix or not blob.startswith(prefix, 2):
        topics, at = _read_topics(blob, 2)
        prefix = blob[2:at]
        if at >= _HEAD_BYTES:
            parsed[head] = prefix, topics
    user_data, at = _read_bytes(blob, 2 + len(prefix))
    owned, generation, rack = _Partitions(), messages.NO_GENERATION, None
    if version >= 1 and at < end:
        owned, at = _read_partitions(blob, at, names)
    if version >= 2 and at < end:
        generation = max(_INT32.unpack_from(blob, at)[0], messages.NO_GENERATION)
        at += 4
    if version >= 3 and at < end:
        size = max(0, _INT16.unpack_from(blob, at)[0])
        rack = _cut(blob, at + 2, size).decode() or None
    return _Subscription(topics, version, user_data, owned, generation, rack)


def _read_assignment(blob: bytes, names: _Names) -> tuple[int, _Partitions, bytes | None, int]:
    """Returns (version, partitions, userData, where it ends)."""
    version = _read_version(blob)
    partitions, at = _read_partitions(blob, 2, names)
    return version, partitions, *_read_bytes(blob, at)


def _read_version(blob: bytes) -> int:
    (version,) = _INT16.unpack_from(blob)
    if version < 0:
        raise ValueError(version)
    return int(version)


def _read_topics(blob: bytes, at: int) -> tuple[tuple[str, ...], int]:
    """Returns (the topics of a list, where it ends)."""
    (count,) = _INT32.unpack_from(blob, at)
    if count < 0:
        raise ValueError(count)
    at += 4
    topics = []
    for _ in range(count):
        (size,) = _INT16.unpack_from(blob, at)
        topics.append(_cut(blob, at + 2, size).decode())
        at += 2 + size
    return tuple(topics), at


def _read_partitions(blob: bytes, at: int, names: _Names) -> tuple[_Partitions, int]:
    """Returns (a list of int16-string topic, int32 count, partitions; where it ends)."""
    int16, int32, number, stop = _INT16.unpack_from, _INT32.unpack_from, names.number.get, len(blob)
    (count,) = int32(blob, at)
    if count < 0:
        raise ValueError(count)
    at += 4
    topic: list[int] = []
    items: list[int] = []
    begins: list[int] = []
    for _ in range(count):
        (size,) = int16(blob, at)
        begin = at + size + 6
        (many,) = int32(blob, begin - 4)
        name = blob[at + 2 : begin - 4]
        at = begin + 4 * many
        if size < 0 or many < 0 or at > stop:
            raise ValueError(at)
        seen = number(name)
        topic.append(names.new(name) if seen is None else seen)
        items.append(many)
        begins.append(begin)
    return _Partitions(topic, items, begins), at


def _read_bytes(blob: bytes, at: int) -> tuple[bytes | None, int]:
    """Returns (userData, where it ends); a negative size is null, as in Java."""
    (size,) = _INT32.unpack_from(blob, at)
    if size < 0:
        return None, at + 4
    return _cut(blob, at + 4, size), at + 4 + size


def _cut(blob: bytes, at: int, size: int) -> bytes:
    if size < 0 or at + size > len(blob):
        raise ValueError(at)
    return blob[at : at + size]


def _read_dialect(data: bytes, names: _Names, *, only_lists: bool) -> tuple[_Partitions, int]:
    """Returns (claims, generation) of the userData of sticky assignors, which is V1, V1 behind an int16 1, or V0.

    Under the eager "sticky" protocol it has `only_lists`; otherwise four bytes are a generation. What is neither says
    nothing.
    """
    if len(data) == 4 and not only_lists:
        return _Partitions(), max(_INT32.unpack(data)[0], messages.NO_GENERATION)
    for start in (0, 2) if data.startswith(b"\0\1") else (0,):
        try:
            partitions, at = _read_partitions(data, start, names)
        except _ERRORS:
            continue
        if at + 4 == len(data):
            return partitions, max(_INT32.unpack_from(data, at)[0], messages.NO_GENERATION)
        if at == len(data) and not start:
            return partitions, messages.NO_GENERATION
    return _Partitions(), messages.NO_GENERATION


def _reason(blob: bytes, decode: Callable[[bytes], object]) -> str:
    """Returns the dataclass's words for what is wrong."""
    try:
        decode(blob)
    except RemoteProtocolError as error:
        return str(error)
    return "undecodable"
