"""The codec of `protocol.messages.consumer` for whole groups. It uses columns instead of objects, because a leader
reads thousands of subscriptions with up to a million owned partitions in every rebalance.

It is faster than the dataclasses, with the same bytes, values and errors (tests/properties compares them).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from bellwether_kafka.protocol import messages
from bellwether_kafka.protocol.bulk.columns import BoolArray, IntArray, LongArray, Packed, read_topics
from bellwether_kafka.protocol.bulk.layout import header, lay_out
from bellwether_kafka.protocol.bulk.lists import TopicLists, read_lists
from bellwether_kafka.protocol.primitives import LocalProtocolError, RemoteProtocolError

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
class AssignmentColumns:
    """The assignments of M members with K partitions in total. Columns are as in SubscriptionColumns."""

    topic_names: tuple[str, ...]
    version: npt.NDArray[np.int16]
    user_data: Sequence[bytes | None]
    member: IntArray
    topic: IntArray
    partition: IntArray
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
    data_at, at = _skip_user_data(packed, packed.start, end, bad)
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
    names, member, topic, partition = _columns(packed, owned, row, ~bad[row], subscribed)
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
        errors=_reasons(blobs, bad, messages.ConsumerProtocolSubscription.decode),
    )


def read_claims(protocol: str, columns: SubscriptionColumns) -> ClaimColumns:
    """Returns the claims of every member under the protocol that the broker chose.

    It applies rules 1 and 2 of docs/reference/wire-formats.md#claims-of-a-member. The caller knows the existing topics;
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
        names, member, topic, partition = _columns(packed, lists, row, usable, set())
        return ClaimColumns(topic_names=names, member=member, topic=topic, partition=partition, generation=generation)
    return owned


def read_assignments(blobs: Sequence[bytes]) -> AssignmentColumns:
    """Decodes the assignments of all members, as DescribeGroups returns them. No blob can make it raise."""
    packed = Packed(blobs)
    version, lists, bad, at = _assignment_lists(packed)
    at[bad] = packed.end[bad]
    data_at, data_end = _skip_user_data(packed, at, packed.end, bad)
    version[bad] = _NONE
    names, member, topic, partition = _columns(packed, lists, np.arange(len(blobs)), ~bad, set())
    return AssignmentColumns(
        topic_names=names,
        version=version.astype(np.int16),
        user_data=packed.cut(np.where(bad, _NONE, data_at), data_end),
        member=member,
        topic=topic,
        partition=partition,
        errors=_reasons(blobs, bad, messages.ConsumerProtocolAssignment.decode),
    )


def owner_of(blobs: Sequence[bytes], topic_names: Sequence[str], first: LongArray) -> IntArray:
    """Returns the owner array of a list of encoded assignments: the position in the list, -1 for none.

    This is the last check of Bellwether's own bytes before they are sent, so it is stricter than a reader. Raises
    LocalProtocolError for a blob that does not decode or has trailing bytes, an unknown topic or partition, or a
    partition that is given twice.
    """
    packed = Packed(blobs)
    version, lists, bad, at = _assignment_lists(packed)
    at[bad] = packed.end[bad]
    at = _skip_user_data(packed, at, packed.end, bad)[1]
    bad |= (at != packed.end) | (version > messages.CONSUMER_VERSION_MAX)
    if bad.any():
        raise LocalProtocolError(f"the assignment of member {int(np.argmax(bad))} does not decode")
    index = {name: t for t, name in enumerate(topic_names)}
    unknown = [name for name in lists.names if name not in index]
    if unknown:
        raise LocalProtocolError(f"an assignment names the unknown topic {unknown[0]!r}")
    member, name, partition = lists.select(packed, ~bad)
    topic = np.array([index[name] for name in lists.names], dtype=np.int64)[name]
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
    headers = [header(name) for name in topic_names]
    if not 0 <= version <= messages.CONSUMER_VERSION_MAX or not all(0 <= m < members for m in user_data):
        raise LocalProtocolError(f"version {version} or the userData of a member that is not there")
    if len(owner) != first[-1] or (len(owner) and not _NONE <= int(owner.min()) <= int(owner.max()) < members):
        raise LocalProtocolError(
            f"owners of {len(owner)} partitions do not fit {first[-1]} partitions, {members} members"
        )
    if not members:
        return []

    owned = (owner != _NONE).nonzero()[0]
    # Sixteen bits if they suffice, because only then is the stable sort a radix sort.
    keys = owner[owned].astype(np.uint16 if members <= 1 << 16 else np.int32)
    order = keys.argsort(kind="stable")
    member, flat = keys[order].astype(np.int64), owned[order]
    topic = np.arange(len(topic_names)).repeat(first[1:] - first[:-1])[flat]

    starts = np.ones(len(flat) + 1, dtype=np.bool_)
    starts[1:-1] = (member[1:] != member[:-1]) | (topic[1:] != topic[:-1])
    run: LongArray = starts.nonzero()[0]
    run, items = run[:-1], run[1:] - run[:-1]
    return lay_out(headers, member[run], topic[run], items, flat - first[topic], members, version, user_data)


def _skip_user_data(packed: Packed, at: LongArray, end: LongArray, bad: BoolArray) -> tuple[LongArray, LongArray]:
    """Returns (where userData begins, -1 for null; where it ends). Marks rows that do not fit as bad, with their end as
    result."""
    size = packed.int32(at)
    after = at + 4 + np.maximum(size, 0)
    bad |= after > end
    return np.where(size < 0, _NONE, at + 4), np.where(bad, end, after)


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


def _assignment_lists(packed: Packed) -> tuple[LongArray, TopicLists, BoolArray, LongArray]:
    """Returns (version, lists, bad, where the list ends) of assignments."""
    version = packed.int16(packed.start)
    lists = read_lists(packed, packed.start + 2, packed.end)
    bad = lists.bad | (version < 0)
    return version, lists, bad, lists.after.copy()


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


def _columns(
    packed: Packed, lists: TopicLists, row: LongArray, usable: BoolArray, others: set[str]
) -> tuple[tuple[str, ...], IntArray, IntArray, IntArray]:
    """Returns (distinct names including `others`, sorted; member; topic; partition) of the usable lists."""
    which, name, partition = lists.select(packed, usable)
    used = np.zeros(len(lists.names), dtype=np.bool_)
    used[name] = True
    names = sorted(others | {lists.names[i] for i in np.flatnonzero(used).tolist()})
    index = {text: i for i, text in enumerate(names)}
    topic = np.array([index.get(text, _NONE) for text in lists.names], dtype=np.int32)
    return tuple(names), row[which].astype(np.int32), topic[name], partition


def _renumbered(lists: list[tuple[str, ...]], topic_list: IntArray) -> tuple[tuple[tuple[str, ...], ...], IntArray]:
    """Drops lists that only undecodable members sent."""
    used = np.unique(topic_list[topic_list != _NONE])
    if len(used) == len(lists):
        return tuple(lists), topic_list
    number = np.full(len(lists) + 1, _NONE, dtype=np.int32)
    number[used] = np.arange(len(used))
    return tuple(lists[i] for i in used.tolist()), number[topic_list]


def _reasons(blobs: Sequence[bytes], bad: BoolArray, decode: Callable[[bytes], object]) -> dict[int, str]:
    """Returns the plain decoder's errors for the members in `bad`."""
    reasons: dict[int, str] = {}
    for m in np.flatnonzero(bad).tolist():
        reasons[m] = "undecodable"
        try:
            decode(blobs[m])
        except RemoteProtocolError as error:
            reasons[m] = str(error)
    return reasons
