"""The codec of consumers' assignments for whole groups, in columns as `consumer_subscriptions`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from bellwether_kafka.protocol import messages
from bellwether_kafka.protocol.bulk.columns import BoolArray, IntArray, LongArray, Packed
from bellwether_kafka.protocol.bulk.consumer_fields import columns_of, reasons, skip_user_data
from bellwether_kafka.protocol.bulk.layout import header, lay_out
from bellwether_kafka.protocol.bulk.lists import TopicLists, read_lists
from bellwether_kafka.protocol.primitives import LocalProtocolError

_NONE = -1


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


def read_assignments(blobs: Sequence[bytes]) -> AssignmentColumns:
    """Decodes the assignments of all members, as DescribeGroups returns them. No blob can make it raise."""
    packed = Packed(blobs)
    version, lists, bad, at = _assignment_lists(packed)
    at[bad] = packed.end[bad]
    data_at, data_end = skip_user_data(packed, at, packed.end, bad)
    version[bad] = _NONE
    names, member, topic, partition = columns_of(packed, lists, np.arange(len(blobs)), ~bad, set())
    return AssignmentColumns(
        topic_names=names,
        version=version.astype(np.int16),
        user_data=packed.cut(np.where(bad, _NONE, data_at), data_end),
        member=member,
        topic=topic,
        partition=partition,
        errors=reasons(blobs, bad, messages.ConsumerProtocolAssignment.decode),
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
    at = skip_user_data(packed, at, packed.end, bad)[1]
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


def _assignment_lists(packed: Packed) -> tuple[LongArray, TopicLists, BoolArray, LongArray]:
    """Returns (version, lists, bad, where the list ends) of assignments."""
    version = packed.int16(packed.start)
    lists = read_lists(packed, packed.start + 2, packed.end)
    bad = lists.bad | (version < 0)
    return version, lists, bad, lists.after.copy()
