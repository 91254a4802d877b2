"""The codec of consumers' subscriptions for whole groups. It uses columns instead of objects, because a leader reads
thousands of subscriptions with up to a million owned partitions in every rebalance.

It is faster than the dataclasses, with the same bytes, values and errors (tests/properties compares them).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bellwether_kafka.protocol import messages
from bellwether_kafka.protocol.bulk.columns import BoolArray, IntArray, LongArray, Packed, read_topics
from bellwether_kafka.protocol.bulk.consumer_fields import columns_of, reasons, skip_user_data
from bellwether_kafka.protocol.bulk.lists import TopicLists, read_lists
from bellwether_kafka.protocol.primitives import RemoteProtocolError

_NONE = -1
# Up to this many bytes in total, the plain reader is faster than a hundred numpy calls.
_FEW_BYTES = 256
_GENERATION_BYTES = 4
_FEW_SUBSCRIPTION_BYTES = 2_048
# Members of a new group send the same bytes. If blobs in a sample of this size occur at least twice on average, all are
# compared.
_SAMPLE = 16


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


def read_subscriptions(blobs: Sequence[bytes]) -> SubscriptionColumns:
    """Decodes all members of a JoinGroup response. No blob can make it raise."""
    sample = blobs[:_SAMPLE]
    if sample and 2 * len(set(sample)) <= len(sample):
        number: dict[bytes, int] = {}
        of = [number.setdefault(blob, len(number)) for blob in blobs]
        columns = _read_distinct([*number])
        if not len(columns.owned_member):
            return _spread(columns, of)
    return _read_distinct(blobs)


def _spread(kinds: SubscriptionColumns, of: list[int]) -> SubscriptionColumns:
    """Returns the columns of members that each sent the bytes of one of `kinds`, none of which owns anything."""
    kind = np.array(of)
    errors = {m: kinds.errors[k] for m, k in enumerate(of) if k in kinds.errors} if kinds.errors else {}
    return replace(
        kinds,
        topic_list=kinds.topic_list[kind],
        version=kinds.version[kind],
        user_data=[*map([*kinds.user_data].__getitem__, of)],
        generation=kinds.generation[kind],
        rack=tuple(map(kinds.rack.__getitem__, of)),
        errors=errors,
    )


def _read_distinct(blobs: Sequence[bytes]) -> SubscriptionColumns:
    return _read_few(blobs) if sum(map(len, blobs)) <= _FEW_SUBSCRIPTION_BYTES else read_many(blobs)


def _read_few(blobs: Sequence[bytes]) -> SubscriptionColumns:
    """Reads the blobs one by one."""
    lists: dict[tuple[str, ...], int] = {}
    errors: dict[int, str] = {}
    rows: list[tuple[int, int, bytes | None, int, str | None]] = []
    owned: list[tuple[int, str, int]] = []
    for m, blob in enumerate(blobs):
        try:
            subscription = messages.ConsumerProtocolSubscription.decode(blob)
        except RemoteProtocolError as error:
            errors[m] = str(error)
            rows.append((_NONE, _NONE, None, messages.NO_GENERATION, None))
            continue
        of = lists.setdefault(subscription.topics, len(lists))
        rows.append(
            (of, subscription.version, subscription.user_data, subscription.generation_id, subscription.rack_id)
        )
        owned += [(m, topic, partition) for topic, partition in subscription.owned_partitions]
    names = sorted({name for topics in lists for name in topics} | {topic for _, topic, _ in owned})
    index = {name: i for i, name in enumerate(names)}
    topic_list, version, user_data, generation, rack = zip(*rows, strict=True) if rows else ((),) * 5
    claimed = np.array([(m, index[topic], partition) for m, topic, partition in owned], dtype=np.int32).reshape(-1, 3)
    return SubscriptionColumns(
        topic_names=tuple(names),
        topic_lists=tuple(lists),
        topic_list=np.array(topic_list, dtype=np.int32),
        version=np.array(version, dtype=np.int16),
        user_data=user_data,
        generation=np.array(generation, dtype=np.int32),
        rack=rack,
        owned_member=claimed[:, 0],
        owned_topic=claimed[:, 1],
        owned_partition=claimed[:, 2],
        errors=errors,
    )


def read_many(blobs: Sequence[bytes]) -> SubscriptionColumns:
    """Reads the blobs column by column."""
    topics = read_topics(blobs)
    topic_list, version = topics.index, topics.version
    bad = topic_list == _NONE
    packed = Packed(topics.tails)
    end = packed.end
    data_at, at = skip_user_data(packed, packed.start, end, bad)
    data_end = at.copy()

    row = np.flatnonzero((version >= 1) & (at < end))
    owned = read_lists(packed, at[row], end[row])
    at[row] = owned.after
    bad[row[owned.bad]] = True
    at[bad] = end[bad]

    generation = np.full(len(blobs), messages.NO_GENERATION, dtype=np.int32)
    with_generation = (version >= 2) & (at < end)
    generation[with_generation] = np.maximum(packed.int32(at[with_generation]), messages.NO_GENERATION)
    at[with_generation] += 4
    rack, at = _read_racks(packed, at, end, version, bad)
    bad |= at > end

    for column in (topic_list, version, generation):
        column[bad] = _NONE
    topic_lists, topic_list = _renumbered(topics.lists, topic_list)
    subscribed = {name for names in topic_lists for name in names}
    names, member, topic, partition = columns_of(packed, owned, row, ~bad[row], subscribed)
    return SubscriptionColumns(
        topic_names=names,
        topic_lists=topic_lists,
        topic_list=topic_list,
        version=version.astype(np.int16),
        user_data=packed.cut(np.where(bad, _NONE, data_at), data_end),
        generation=generation,
        rack=tuple(rack),
        owned_member=member,
        owned_topic=topic,
        owned_partition=partition,
        errors=reasons(blobs, bad, messages.ConsumerProtocolSubscription.decode),
    )


def read_claims(protocol: str, columns: SubscriptionColumns) -> ClaimColumns:
    """Returns the claims of every member under the protocol that the broker chose.

    It applies rules 1 and 2 of docs/internals/wire-formats.md#claims-of-a-member. The caller knows the existing topics;
    when it converts claims to its own coordinates it drops negative, unknown and unsubscribed partitions and
    duplicates.
    """
    eager = protocol == messages.STICKY
    generation = np.full_like(columns.generation, messages.NO_GENERATION) if eager else columns.generation.copy()
    dateless = zip((generation < 0).tolist(), columns.user_data, strict=True)
    with_user_data = [(m, data) for m, (wanted, data) in enumerate(dateless) if wanted and data]
    row, data = np.array([m for m, _ in with_user_data], dtype=np.int64), [data for _, data in with_user_data]
    if eager and not len(row):
        nothing = np.zeros(0, dtype=np.int32)
        return ClaimColumns((), nothing, nothing, nothing, generation)
    owned = ClaimColumns(
        topic_names=columns.topic_names,
        member=columns.owned_member,
        topic=columns.owned_topic,
        partition=columns.owned_partition,
        generation=generation,
    )
    sizes = [*map(len, data)]
    if not eager and (max(sizes, default=0) <= _GENERATION_BYTES or sum(sizes) <= _FEW_BYTES):
        generation_of = {kind: messages.read_generation(kind) for kind in set(data)}
        generation[row] = [generation_of[user_data] for user_data in data]
        return owned
    packed = Packed(data)
    lists, usable, generation[row] = _read_dialects(packed, only_lists=eager)
    if eager:
        names, member, topic, partition = columns_of(packed, lists, row, usable, set())
        return ClaimColumns(topic_names=names, member=member, topic=topic, partition=partition, generation=generation)
    return owned


def _read_racks(
    packed: Packed, at: LongArray, end: LongArray, version: LongArray, bad: BoolArray
) -> tuple[list[str | None], LongArray]:
    """Returns (rack per member, where it ends); "" is None. Marks racks that are not UTF-8 as bad, but not those beyond
    the end."""
    racks: list[str | None] = [None] * len(at)
    decoded: dict[bytes, str] = {}
    row = np.flatnonzero((version >= 3) & (at < end))
    after = at.copy()
    after[row] += 2 + np.maximum(packed.int16(at[row]), 0)
    named = row[(after[row] > at[row] + 2) & (after[row] <= end[row])]
    for m, a, b in zip(named.tolist(), (at[named] + 2).tolist(), after[named].tolist(), strict=True):
        raw = packed.raw[a:b]
        try:
            racks[m] = decoded.get(raw) or decoded.setdefault(raw, raw.decode())
        except UnicodeDecodeError:
            bad[m] = True
    return racks, after


def _read_dialects(packed: Packed, *, only_lists: bool) -> tuple[TopicLists, BoolArray, LongArray]:
    """Returns (lists, which of them are usable, generations) of non-empty userData of sticky assignors: V1, prefixed
    V1, V0.

    With `only_lists`, as under the eager "sticky" protocol; otherwise four bytes are a generation.
    """
    start, end = packed.start, packed.end
    lists = read_lists(packed, start, end)
    fits = ~lists.bad & (lists.after + 4 == end)
    prefixed: LongArray = np.flatnonzero(~fits & (packed.int16(start) == 1))
    if len(prefixed):
        shifted = read_lists(packed, start[prefixed] + 2, end[prefixed])
        begin = start.copy()
        begin[prefixed[~shifted.bad & (shifted.after + 4 == end[prefixed])]] += 2
        lists = read_lists(packed, begin, end)
        fits = ~lists.bad & (lists.after + 4 == end)
    alone = ~lists.bad & (lists.after == end)
    dated = fits if only_lists else fits | (end - start == 4)
    generation = np.where(dated, np.maximum(packed.int32(end - 4), messages.NO_GENERATION), messages.NO_GENERATION)
    return lists, fits | alone, generation


def _renumbered(lists: list[tuple[str, ...]], topic_list: IntArray) -> tuple[tuple[tuple[str, ...], ...], IntArray]:
    """Drops lists that only undecodable members sent."""
    used = np.unique(topic_list[topic_list != _NONE])
    if len(used) == len(lists):
        return tuple(lists), topic_list
    number = np.full(len(lists) + 1, _NONE, dtype=np.int32)
    number[used] = np.arange(len(used))
    return tuple(lists[i] for i in used.tolist()), number[topic_list]
