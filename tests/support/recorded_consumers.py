"""Recorded rebalances of plain groups, and their traffic."""

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import ClusterView, Memory
from bellwether_kafka.coordinator.events import SchemaSet
from bellwether_kafka.coordinator.telemetry.event_records import snapshot_record
from tests.support import decisions
from tests.unit.assignors.consumer.wire import LiveMember, live_group

RACKS = ("az1", "az2", "az3")
SCHEMAS = SchemaSet.load()
LOADS = [900, 800, 100, 100, 100, 100, 500, 400, 100, 100, 100, 100]


def recorded(sizes: list[int], protocol: str = "cooperative-sticky", *, racks: bool = False) -> list[bytes]:
    """A group that has `sizes[n]` members in recorded rebalance n, led by sticky-min-churn, as events."""
    placed = [[RACKS[p // 4]] if racks else [None] for p in range(12)]
    cluster = ClusterView.of({"t": placed})
    memory, values = Memory.empty(), []
    members = [LiveMember(f"m{i}", ("t",), RACKS[i % 3] if racks else None) for i in range(max(sizes))]
    for n, size in enumerate(sizes):
        raw = live_group(members[:size], n + 1, protocol)
        decision = decisions.decided(raw, cluster, memory, Policy("sticky-min-churn"), now_ms=1_000 * n)
        memory = decision.plan.memory
        members = [m.after(decision) if i < size else m for i, m in enumerate(members)]
        values.append(SCHEMAS.encode("snapshot", snapshot_record(decision)))
    return values


def traffic(loads: list[int]) -> bytes:
    entries: list[dict[str, object]] = [
        {
            "topic": "t",
            "partition": p,
            "member": None,
            "rack": None,
            "leader_rack": None,
            "replica_racks": [],
            "records": 1,
            "bytes": load,
        }
        for p, load in enumerate(loads)
    ]
    return SCHEMAS.encode("traffic", {"group": "group", "since_ms": 0, "sampled_at_ms": 1_000, "entries": entries})
