"""Recorded rebalances as their leader had them."""

from collections.abc import Iterator

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import ClusterView, Memory
from bellwether_kafka.coordinator.events import SchemaSet, assignment_entries
from bellwether_kafka.coordinator.telemetry.event_records import snapshot_record
from tests.support import decisions
from tests.unit.assignors.consumer.wire import LiveMember, live_group

RACKS = ("az1", "az2", "az3")
SCHEMAS = SchemaSet.load()


def recorded(sizes: list[int], policy: str, protocol: str = "cooperative-sticky") -> Iterator[bytes]:
    """What a leader publishes of a group that has `sizes[n]` members in rebalance n; partitions stand in one rack
    each."""
    cluster = ClusterView.of({"t": [[RACKS[p // 4]] for p in range(12)]})
    memory = Memory.empty()
    members = [LiveMember(f"m{i}", ("t",), RACKS[(i + 1) % 3]) for i in range(max(sizes))]
    for n, size in enumerate(sizes):
        raw = live_group(members[:size], n + 1, protocol)
        decision = decisions.decided(raw, cluster, memory, Policy(policy), now_ms=1_000 * n, seed=n)
        memory = decision.plan.memory
        members = [m.after(decision) if i < size else m for i, m in enumerate(members)]
        head = {"group": "group", "generation": n + 1, "decided_at_ms": 1_000 * n, "part": 0}
        yield SCHEMAS.encode("assignment", {**head, "entries": list(assignment_entries(decision.plan))})
        yield SCHEMAS.encode("snapshot", snapshot_record(decision))
