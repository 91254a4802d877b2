"""Reduces a decision whose bytes exceed the broker's limit by what members do not need.

Every thread gets the map of all hosts, with the same bytes, and a broker stores them all in one record of the group.
The maps only serve interactive queries, so they are left out before Bellwether gives up the group
(docs/internals/reliability.md#oversized-group-records).
"""

from dataclasses import replace

import numpy as np

from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.assignors.streams.sending import HostMaps, encode_assignments
from bellwether_kafka.assignors.streams.task_plan import TaskPlan


def without_host_maps(decision: Decision[TaskPlan], why: str) -> Decision[TaskPlan] | None:
    """Returns the same decision with empty host maps, and a warning with the reason `why`; None if there are no maps to
    leave out. The maps are empty for all members, because maps that lack only their own endpoint would make them rejoin
    endlessly."""
    plan = decision.plan
    hosts = any(process.endpoint for process in plan.view.processes)
    if plan.shutdown or not hosts or plan.out.without_hosts.all():
        return None
    out = replace(plan.out, without_hosts=np.ones(plan.out.rows, dtype=np.bool_))
    theirs = iter(encode_assignments(plan.tasks, HostMaps.none(), out))
    own = decision.raw.own_member_ids
    return replace(
        decision,
        plan=replace(plan, out=out),
        assignments=tuple([(m, blob if m in own else next(theirs)) for m, blob in decision.assignments]),
        warnings=(*decision.warnings, f"interactive queries get no hosts: {why}"),
    )
