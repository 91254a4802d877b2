"""What the kinds of replay share: the recorded inputs of a plan of consumers, and what planning it again gives. Pure.

A snapshot has the inputs of `decide` except its memory: the members' bytes, the cluster, the seed and the orders on
placement in force. `replay_rebalances` takes the memory from the plan recorded before, `replay_policies` from the same
policy's plan before. Weights are estimated from recorded traffic. Two things are not recorded: capacities, and userData
that is echoed to old clients, on which no plan depends.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bellwether_kafka.assignors import consumer, shared

Record = Mapping[str, Any]


def cluster_of(snapshot: Record) -> shared.ClusterView:
    """Returns the cluster of the recorded decision."""
    placements = [tuple(row) for row in snapshot["placements"]]
    layout = {topic["name"]: [placements[row] for row in topic["placements"]] for topic in snapshot["topics"]}
    return shared.ClusterView.of(layout, unreadable=frozenset(snapshot["unreadable"]))


def raw_of(snapshot: Record) -> shared.RawGroup:
    """Returns the members of the recorded rebalance."""
    listed = snapshot["members"]
    members = tuple(
        shared.RawMember(
            member_id=m["member_id"],
            instance_id=m["instance_id"],
            metadata=bytes(m["metadata"]),
            rack=m.get("rack"),  # the first versions recorded none
            leader_only=m.get("leader_only", False),
        )
        for m in listed
    )
    own = frozenset(m["member_id"] for m in listed if m["own"])
    return shared.RawGroup(snapshot["group"], snapshot["generation"], snapshot["protocol"], members, own)


def planned_again(
    snapshot: Record,
    raw: shared.RawGroup,
    cluster: shared.ClusterView,
    memory: shared.Memory,
    policy: consumer.Policy,
) -> shared.Decision[consumer.PartitionPlan] | shared.Refusal:
    """Returns a policy's plan for a recorded rebalance. The owned partitions in `raw` may differ from the recorded
    ones. The snapshot's orders on placement are applied, except with a broker's own assignor."""
    rules = tuple(shared.Rule(**rule) for rule in snapshot.get("rules", ()))  # the first versions recorded none
    if rules and policy.name not in consumer.BROKER_SIDE:
        policy = policy.with_rules(rules)
    return consumer.decide(raw, cluster, memory, policy, snapshot["decided_at_ms"], snapshot["seed"])


DIFFERENCES_MAX = 100
ANOTHERS = "the group was only observed"


@dataclass(frozen=True, slots=True)
class Difference:
    """A partition or task whose owner differs. Owners are instance ids, else member ids; None means no owner."""

    item: str
    recorded: str | None
    now: str | None


@dataclass(frozen=True, slots=True)
class PlanCost:
    moved: int
    unowned: int
    cross_rack: int
    spread: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """One rebalance planned again. `differs` counts partitions or tasks, of which `differences` lists the first.
    `failed` is why there is no plan now, "" if there is one. `caveat` is why differences may be insignificant, else
    ""."""

    group: str
    generation: int
    decided_at_ms: int
    policy: str
    recorded_policy: str
    members: int
    partitions: int
    differs: int
    differences: tuple[Difference, ...] = ()
    recorded: PlanCost | None = None
    now: PlanCost | None = None
    failed: str = ""
    caveat: str = ""

    @property
    def same(self) -> bool:
        return not self.differs and not self.failed
