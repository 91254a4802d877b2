"""How often uneven load may request a rebalance of an application.

If the application is at rest again with the owners that it had when the last request was made, then the plan did not
do what the check foresaw, and the next request would not either. The interval doubles until the owners change.
"""

from dataclasses import dataclass

from bellwether_kafka.assignors.shared import NOBODY, Decision, IntArray
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.protocol.primitives import ProcessId

LOAD_INTERVAL_S = 60.0
LOAD_INTERVAL_MAX_S = 3_600.0

Owners = tuple[ProcessId | None, ...]


@dataclass(frozen=True, slots=True)
class LoadRequests:
    """The seconds between checks of load, and the owner of each task when the last request was made; None if there was
    none, or if owners have changed since."""

    interval_s: float = LOAD_INTERVAL_S
    owners: Owners | None = None

    def planned(self, decision: Decision[TaskPlan]) -> "LoadRequests":
        """Takes a plan that was delivered. Owners between two plans of one move do not count."""
        if self.owners is None or decision.followup or decision.probing_at_ms is not None:
            return self
        return self if self.owners == processes_of(decision.plan, decision.plan.target.active) else LoadRequests()

    def requested(self, decision: Decision[TaskPlan]) -> "LoadRequests":
        """Takes a request for a rebalance, made while this decision was in force."""
        if self.owners is None:
            return LoadRequests(owners=processes_of(decision.plan, decision.plan.target.active))
        return LoadRequests(interval_s=min(2 * self.interval_s, LOAD_INTERVAL_MAX_S), owners=self.owners)


def processes_of(plan: TaskPlan, numbers: IntArray) -> Owners:
    """Returns the process of each task, from its number in the plan; None for none."""
    processes = plan.view.processes
    return tuple(processes[p].process_id if p != NOBODY else None for p in numbers.tolist())
