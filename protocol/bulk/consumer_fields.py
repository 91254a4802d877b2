"""Parts of consumers' messages that subscriptions and assignments share, as columns."""

from collections.abc import Callable, Sequence

import numpy as np

from bellwether_kafka.protocol.bulk.columns import BoolArray, IntArray, LongArray, Packed
from bellwether_kafka.protocol.bulk.lists import TopicLists
from bellwether_kafka.protocol.primitives import RemoteProtocolError

_NONE = -1


def skip_user_data(packed: Packed, at: LongArray, end: LongArray, bad: BoolArray) -> tuple[LongArray, LongArray]:
    """Returns (where userData begins, -1 for null; where it ends). Marks rows that do not fit as bad, with their end as
    result."""
    size = packed.int32(at)
    after = at + 4 + np.maximum(size, 0)
    bad |= after > end
    return np.where(size < 0, _NONE, at + 4), np.where(bad, end, after)


def columns_of(
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


def reasons(blobs: Sequence[bytes], bad: BoolArray, decode: Callable[[bytes], object]) -> dict[int, str]:
    """Returns the plain decoder's errors for the members in `bad`."""
    reasons: dict[int, str] = {}
    for m in np.flatnonzero(bad).tolist():
        reasons[m] = "undecodable"
        try:
            decode(blobs[m])
        except RemoteProtocolError as error:
            reasons[m] = str(error)
    return reasons
