"""A decision whose bytes are too many: what members can do without.

Every thread gets the map of all hosts, the same bytes for each, and a broker keeps them all in one record of the group.
The maps only serve interactive queries, so they go before the group is given up
(docs/reference/reliability.md#oversized-group-records).
"""

from dataclasses import replace

import numpy as np

from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.assignors.streams.sending import HostMaps, encode_assignments
from bellwether_kafka.assignors.streams.task_plan import TaskPlan


def without_host_maps(decision: Decision[TaskPlan], why: str) -> Decision[TaskPlan] | None:
    """The same decision with empty host maps, and a warning that says `why`; None where there are none to leave out.
    Members are shown empty maps and not maps that lack their endpoint: those would make them rejoin for ever."""
    plan = decision.plan
    hosts = any(process.endpoint for process in plan.view.processes)
    if plan.shutdown or not hosts or plan.out.blind.all():
        return None
    out = replace(plan.out, blind=np.ones(plan.out.rows, dtype=np.bool_))
    theirs = iter(encode_assignments(plan.tasks, HostMaps.none(), out))
    own = decision.raw.own_member_ids
    return replace(
        decision,
        plan=replace(plan, out=out),
        assignments=tuple([(m, blob if m in own else next(theirs)) for m, blob in decision.assignments]),
        warnings=(*decision.warnings, f"interactive queries get no hosts: {why}"),
    )
