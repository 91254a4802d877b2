"""One validator for the answers of both sides: whatever is fast must also be right."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, IntArray, LongArray
from bellwether_kafka.protocol.bulk import owner_of
from tests.lab.bench.scenario import ISLANDS, RACKS, Scenario


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a plan costs: `moved` partitions leave a living owner, `pending` ones wait for the next rebalance, `foreign`
    ones have no replica in the rack of their owner."""

    moved: int
    pending: int
    foreign: int


def check(scenario: Scenario, assignments: Sequence[bytes]) -> Verdict:
    """Raises AssertionError or a protocol error unless the plan is valid and balanced.

    Each partition has one owner, which subscribes to it; only the cooperative protocol may leave some out, and only
    such as a member claims. What is left out must be enough to bring each member to its quota, where all subscribe to
    the same topics; among mixed subscriptions counts may differ as far as the best that is known.
    """
    shape, cluster = scenario.shape, scenario.cluster
    assert len(assignments) == len(scenario.member_ids), "an answer for every member"
    owner = owner_of(assignments, cluster.topics, cluster.first)  # strict: no partition twice, none that is unknown
    pending = owner == NOBODY
    if shape.protocol == "cooperative-sticky":
        assert (scenario.claimed[pending] != NOBODY).all(), "pending, though no member claims it"
    else:
        assert not pending.any(), "every partition has an owner"
    _subscribed(scenario, owner)
    if shape.subscribe == "mixed":
        _no_cheap_move(scenario, owner, int(pending.sum()))
    elif shape.protocol == "range":
        _balanced_per_topic(owner, shape.topics, shape.members)
    else:
        islands = ISLANDS if shape.subscribe == "disjoint" else 1
        topic = np.repeat(np.arange(shape.topics), shape.partitions_per_topic)
        for island in range(islands):
            inside = topic % islands == island
            _balanced(owner[inside], np.flatnonzero(scenario.numbers % islands == island), pending[inside])
    moved = (scenario.claimed != NOBODY) & (scenario.claimed != owner)
    return Verdict(int(moved.sum()), int(pending.sum()), _foreign(scenario, owner))


def _subscribed(scenario: Scenario, owner: IntArray) -> None:
    shape = scenario.shape
    table = np.zeros((len(scenario.numbers), shape.topics), dtype=np.bool_)
    for m, number in enumerate(scenario.numbers.tolist()):
        table[m, shape.topics_of(number)] = True
    owned = np.flatnonzero(owner != NOBODY)
    assert table[owner[owned], owned // shape.partitions_per_topic].all(), "a member gets what it does not subscribe to"


def _no_cheap_move(scenario: Scenario, owner: IntArray, pending: int) -> None:
    """Members of one kind of subscription differ by one at most, and those with half of the topics have no more than
    those with all: what they can have, the others can have too."""
    counts = np.bincount(owner[owner != NOBODY], minlength=len(scenario.numbers))
    whole, half = counts[scenario.numbers % 2 == 0], counts[scenario.numbers % 2 == 1]
    slack = 1 + pending
    assert max(np.ptp(whole), np.ptp(half), half.max() - whole.min()) <= slack, "mixed subscriptions are uneven"


def _balanced(owner: IntArray, members: LongArray, pending: BoolArray) -> None:
    counts = np.bincount(owner[owner != NOBODY], minlength=int(members.max()) + 1)[members]
    low, high = len(owner) // len(members), -(-len(owner) // len(members))
    assert counts.max() <= high, f"a member has {counts.max()} partitions, more than {high}"
    missing = np.maximum(low - counts, 0).sum()
    assert missing <= pending.sum(), f"a member has {counts.min()} partitions, less than {low}"


def _balanced_per_topic(owner: IntArray, topics: int, members: int) -> None:
    for row in owner.reshape(topics, -1):
        counts = np.bincount(row, minlength=members)
        assert np.ptp(counts) <= 1, "a topic is spread unevenly"


def _foreign(scenario: Scenario, owner: IntArray) -> int:
    if not scenario.shape.racks:
        return 0
    racks = np.array([RACKS.index(_rack(blob)) for blob in scenario.metadata], dtype=np.int32)
    owned = owner != NOBODY
    local = scenario.cluster.signature_racks[scenario.cluster.signature[owned], racks[owner[owned]]]
    return int((~local).sum())


def _rack(metadata: bytes) -> str:
    return metadata[-len(RACKS[0]) :].decode()  # the last field of a subscription of version 3
