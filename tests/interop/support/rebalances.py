"""The rebalances of a group as the brokers logged them: the only place that says who led which generation."""

import re
from dataclasses import dataclass

from tests.interop.support.brokers import KafkaCluster

ASSIGNED = re.compile(
    r"Assignment received from leader (?P<leader>\S+) for group (?P<group>\S+) for generation (?P<generation>\d+)\."
    r" The group has (?P<members>\d+) members"
)


@dataclass(frozen=True, slots=True, order=True)
class Rebalance:
    """A generation whose leader delivered a plan; `members` counts all, an instance of Bellwether included."""

    generation: int
    leader: str
    members: int


def rebalances(cluster: KafkaCluster, group_id: str, after: int = 0) -> list[Rebalance]:
    """The completed rebalances of a group above generation `after`, oldest first."""
    by_generation = set()
    for path in cluster.log_paths():
        with path.open(errors="replace") as log:
            for line in log:
                hit = ASSIGNED.search(line)
                if hit and hit["group"] == group_id and int(hit["generation"]) > after:
                    by_generation.add(Rebalance(int(hit["generation"]), hit["leader"], int(hit["members"])))
    return sorted(by_generation)


def last_rebalance(cluster: KafkaCluster, group_id: str) -> Rebalance:
    """The newest completed rebalance. Raises AssertionError when there is none."""
    completed = rebalances(cluster, group_id)
    assert completed, f"no leader has assigned anything in {group_id}"
    return completed[-1]
