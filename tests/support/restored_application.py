"""An application whose members hold their state."""

from collections.abc import Mapping

from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.assignors.streams import STOCK, HeldTasks, TaskPlan
from bellwether_kafka.assignors.streams.application import AssignmentConfigs
from bellwether_kafka.assignors.streams.members import assignment_info
from tests.unit.assignors.streams.world import SHOP, Thread, ends_of, group, led

COUNTS = {"orders": 12, "shop-by-user-repartition": 12, "shop-totals-changelog": 12}
END = 50_000  # records in each changelog partition: far more than Kafka lets a copy lag behind


def application(*racks: str, standbys: int = 0) -> tuple[Decision[TaskPlan], Mapping[str, HeldTasks]]:
    """Two threads in each of as many processes as racks are named, settled under Kafka's assignor."""
    configs = AssignmentConfigs(num_standby_replicas=standbys)
    threads = [Thread(f"{rack}-p{p}-t{t}", p, rack=rack) for p, rack in enumerate(racks, 1) for t in (1, 2)]
    decision, memory = None, None
    for generation in (1, 2, 3):
        raw = group(*threads, generation=generation)
        more = {"counts": COUNTS, "ends": ends_of(SHOP, COUNTS, END), "configs": configs, "assignors": STOCK}
        decision = led(raw, memory=memory, **more)
        memory = decision.plan.memory
        threads = [thread.after(decision) for thread in threads]
    assert decision is not None
    assert not decision.followup
    return decision, holding(decision)


def holding(decision: Decision[TaskPlan]) -> dict[str, HeldTasks]:
    copies = {}
    for member, blob in decision.assignments:
        info = assignment_info(blob)
        if info is not None:
            copies[member] = HeldTasks(tuple(dict.fromkeys(info.active_tasks)), tuple(t for t, _ in info.standby_tasks))
    return copies
