"""One validator for the answers of both sides: whatever is fast must also be right."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assignors.model import NOBODY, IntArray
from protocol.bulk import owner_of
from tests.bench.scenario import RACKS, Scenario


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a plan costs: `moved` partitions leave a living owner, `withheld` ones wait a round, `foreign` ones have no
    replica in the rack of their owner."""

    moved: int
    withheld: int
    foreign: int


def check(scenario: Scenario, assignments: Sequence[bytes]) -> Verdict:
    """Raises AssertionError or a protocol error unless the plan is valid and balanced (all members subscribe to all).

    Each partition has one owner; only the cooperative protocol may leave some out, and only such as a member claims.
    What is left out must be enough to bring everybody to their quota.
    """
    shape, cluster = scenario.shape, scenario.cluster
    assert len(assignments) == len(scenario.member_ids), "an answer for every member"
    owner = owner_of(assignments, cluster.topics, cluster.first)  # strict: no partition twice, none that is unknown
    withheld = owner == NOBODY
    if shape.protocol == "cooperative-sticky":
        assert (scenario.claimed[withheld] != NOBODY).all(), "withheld, though nobody holds it"
    else:
        assert not withheld.any(), "every partition has an owner"
    if shape.protocol == "range":
        _balanced_per_topic(owner, shape.topics, shape.members)
    else:
        _balanced(owner, shape.members, int(withheld.sum()))
    moved = (scenario.claimed != NOBODY) & (scenario.claimed != owner)
    return Verdict(int(moved.sum()), int(withheld.sum()), _foreign(scenario, owner))


def _balanced(owner: IntArray, members: int, withheld: int) -> None:
    held = np.bincount(owner[owner != NOBODY], minlength=members)
    low, high = len(owner) // members, -(-len(owner) // members)
    assert held.max() <= high, f"a member has {held.max()} partitions, more than {high}"
    assert np.maximum(low - held, 0).sum() <= withheld, f"a member has {held.min()} partitions, less than {low}"


def _balanced_per_topic(owner: IntArray, topics: int, members: int) -> None:
    for row in owner.reshape(topics, -1):
        held = np.bincount(row, minlength=members)
        assert held.max() - held.min() <= 1, "a topic is spread unevenly"


def _foreign(scenario: Scenario, owner: IntArray) -> int:
    if not scenario.shape.racks:
        return 0
    racks = np.array([RACKS.index(_rack(blob)) for blob in scenario.metadata], dtype=np.int32)
    held = owner != NOBODY
    local = scenario.cluster.signature_racks[scenario.cluster.signature[held], racks[owner[held]]]
    return int((~local).sum())


def _rack(metadata: bytes) -> str:
    return metadata[-len(RACKS[0]) :].decode()  # the last field of a subscription of version 3
