"""Operators' placement rules (pins, bans and evacuations) as a hard stage at the end of a chain.

    where   "rack:az1", "member:X" (X a member id, an instance id, or the client id in a member id)
    item    "orders-3" (a partition), "orders" (a topic), "*" (everything)

A pin allows an item only at its place, a ban forbids it there; an evacuation is a ban of everything. The places of an
applied plan are pins that yield to these. Rules that cannot be carried out (no such member, no other subscriber) are
skipped and reported.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors.consumer.chain import Problem
from bellwether_kafka.assignors.consumer.derived import mismatched, subscriptions
from bellwether_kafka.assignors.shared import (
    EVERYTHING,
    NOBODY,
    BoolArray,
    IntArray,
    LongArray,
    Members,
    MemberView,
    Plan,
    Rule,
    applicable,
    behind,
    known_racks,
    ordered,
    yielding_last,
)

NO_MEMBER: BoolArray = np.zeros(1, dtype=np.bool_)
_UUID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


@dataclass(frozen=True, slots=True)
class OperatorRules:
    """Moves items that violate the rules: to the member that had the item before, if that is allowed, else to the
    member with the fewest partitions, local members first. All other items stay."""

    rules: tuple[Rule, ...]
    name: str = "operator's rules"
    hard: bool = True

    def apply(self, problem: Problem, plan: Plan) -> Plan:
        allowed = _Allowed(problem, self.rules)
        owner = np.array(plan.owner)
        wrong = allowed.violations(owner)
        if not len(wrong):
            return plan
        remaining = owner.copy()
        remaining[wrong] = NOBODY
        partition_counts: LongArray = np.bincount(remaining[remaining != NOBODY], minlength=problem.group.size).astype(
            np.int64
        )
        for flat in wrong.tolist():
            target = _target(problem, flat, allowed.members(flat), partition_counts)
            owner[flat] = target
            partition_counts[target] += 1
        return Plan.of(owner)

    def score(self, problem: Problem, plan: Plan) -> float:
        """Returns how many partitions violate a rule that could be kept."""
        return float(len(_Allowed(problem, self.rules).violations(plan.owner)))

    def orders(self, problem: Problem) -> str:
        """Returns the orders behind the rules that have an effect in this group."""
        return ordered(applicable(self.rules, problem.group.members))

    def outcome(self, problem: Problem, wrong: float) -> str:
        """Describes what became of the `wrong` partitions that violated rules, whose orders these are, and which rules
        could not be carried out."""
        done = f"{wrong:g} partitions are placed elsewhere" if wrong else "They hold"
        pins_and_bans = [rule for rule in self.rules if rule.kind != "plan"]
        idle = [reason for rule in pins_and_bans if (reason := infeasible(problem, rule, ()))]
        yielding = len(_Allowed(problem, self.rules).yielding)
        idle += [f"the applied plan for {yielding} partitions, which its member may not have"] * bool(yielding)
        return f"{done}{behind(self.orders(problem))}.{''.join(f' Not carried out: {reason}.' for reason in idle)}"


def matches(member: MemberView, where: str) -> bool:
    """Returns whether `where` refers to this member."""
    kind, _, name = where.partition(":")
    if kind == "rack":
        return member.rack == name
    return name in (member.member_id, member.instance_id, _UUID.sub("", member.member_id))


def infeasible(problem: Problem, rule: Rule, others: Sequence[Rule]) -> str:
    """Returns why this rule cannot be kept here together with the others, as a part of a sentence; "" if it can."""
    members = problem.group.members
    if not any(matches(member, rule.where) for member in members):
        racks = sorted({member.rack for member in members if member.rack is not None})
        return f"no member is {rule.where}; {known_racks(racks)}"
    flats = _flats(problem, rule.item)
    if not len(flats):
        topics = ", ".join(problem.cluster.topics)
        return f"{rule.item} is neither a topic nor a partition of the group; its topics are {topics}"
    stuck = _Allowed(problem, (*others, rule)).without_members(flats)
    if not len(stuck):
        return ""
    topic, number = problem.cluster.name(int(stuck[0]))
    more = f" and {len(stuck) - 1} more" if len(stuck) > 1 else ""
    return f"no member that subscribes to it may have {topic}-{number}{more} then"


def against(problem: Problem, rules: Sequence[Rule], owner: IntArray) -> IntArray:
    """Returns the partitions whose owner may not have them although another member may."""
    return _Allowed(problem, rules).violations(owner)


class _Allowed:
    """Which members may have which partitions, computed once. Partitions under the same rules share one row.
    `yielding` are the partitions whose place in an applied plan has no effect."""

    def __init__(self, problem: Problem, rules: Sequence[Rule]) -> None:
        group, cluster = problem.group, problem.cluster
        self._subscribed = subscriptions(group, len(cluster.topics))[group.topic_set]  # member x topic
        self._topic = cluster.topic_of()
        self._row = np.zeros(cluster.partition_total, dtype=np.int64)
        self._masks: list[BoolArray] = [np.ones(group.size, dtype=np.bool_)]
        self._joined: dict[tuple[int, bool, str], int] = {}  # a row and a rule on it: the row under both
        self.yielding: list[int] = []
        applied: dict[str, BoolArray] = {}
        for rule in yielding_last(applicable(rules, group.members)):
            flats = _flats(problem, rule.item)
            if rule.kind == "plan":
                applied = applied or _by_id(group.members)
                meant = applied.get(rule.where, NO_MEMBER)
                flats = self._not_yielding(flats, meant)
            else:
                meant = np.array([matches(member, rule.where) for member in group.members], dtype=np.bool_)
            if meant.any():
                self._limit(rule, flats, meant)

    def _limit(self, rule: Rule, flats: IntArray, meant: BoolArray) -> None:
        """Limits partitions to the members that the rule allows in addition to those before it."""
        ban = rule.kind == "ban"
        rows = self._row[flats]
        for row in np.unique(rows).tolist():
            if (row, ban, rule.where) not in self._joined:
                self._joined[row, ban, rule.where] = len(self._masks)
                self._masks.append(self._masks[row] & (~meant if ban else meant))
        self._row[flats] = [self._joined[row, ban, rule.where] for row in rows.tolist()]

    def _not_yielding(self, flats: IntArray, meant: BoolArray) -> IntArray:
        """Returns those of `flats` that a subscriber among `meant` may have, and records the others."""
        may = [bool((self._subscribed[:, self._topic[f]] & self._masks[self._row[f]] & meant).any()) for f in flats]
        self.yielding += flats[~np.array(may, dtype=np.bool_)].tolist()
        kept: IntArray = flats[np.array(may, dtype=np.bool_)]
        return kept

    def members(self, flat: int) -> IntArray:
        """Returns the members that may have a partition: the subscribers that the rules allow, or all subscribers if
        the rules allow none."""
        subscribed = self._subscribed[:, self._topic[flat]]
        left = np.flatnonzero(subscribed & self._masks[self._row[flat]])
        chosen = left if len(left) else np.flatnonzero(subscribed)
        return chosen.astype(np.int32)

    def without_members(self, flats: IntArray) -> IntArray:
        """Returns those of `flats` that have subscribers, but none that the rules allow."""
        wanted = [f for f in flats.tolist() if self._subscribed[:, self._topic[f]].any()]
        unassignable = [
            f for f in wanted if not (self._subscribed[:, self._topic[f]] & self._masks[self._row[f]]).any()
        ]
        return np.array(unassignable, dtype=np.int32)

    def violations(self, owner: IntArray) -> IntArray:
        """Returns the partitions whose owner may not have them although another member may."""
        constrained = np.flatnonzero((self._row != 0) & (owner != NOBODY))
        return np.array([f for f in constrained.tolist() if owner[f] not in self.members(f)], dtype=np.int32)


def _by_id(members: Members) -> dict[str, BoolArray]:
    """Returns a mask of the one member by each place that its member id or instance id makes."""
    masks: dict[str, BoolArray] = {}
    for i, member in enumerate(members):
        mask = np.zeros(len(members), dtype=np.bool_)
        mask[i] = True
        masks |= {f"member:{name}": mask for name in (member.member_id, member.instance_id) if name is not None}
    return masks


def _flats(problem: Problem, item: str) -> IntArray:
    cluster = problem.cluster
    if item == EVERYTHING:
        return np.arange(cluster.partition_total, dtype=np.int32)
    return cluster.flats_of(item)


def _target(problem: Problem, flat: int, members: IntArray, partition_counts: LongArray) -> int:
    before = int(problem.before[flat])
    if before in members:
        return before
    remote = mismatched(problem.cluster, problem.group.rack[members], np.full(len(members), flat, dtype=np.int32))
    return int(members[np.lexsort((members, remote, partition_counts[members]))[0]])
