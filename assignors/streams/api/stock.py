"""The stock policies behind the plug-in API: to start from, to compare with, or to use for some rounds of one's own."""

from bellwether_kafka.assignors.streams.api.assignment import TaskAssignment
from bellwether_kafka.assignors.streams.api.assignor import TaskAssignor
from bellwether_kafka.assignors.streams.api.bridge import from_plan
from bellwether_kafka.assignors.streams.api.state import ApplicationState
from bellwether_kafka.assignors.streams.policies import KAFKA, STICKY, assign_streams


class HighAvailabilityTaskAssignor(TaskAssignor):
    """KIP-441, as policy `kafka`. Where warm-ups are pending, the first process asks for a rebalance after
    probing.rebalance.interval.ms."""

    policy = KAFKA

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        configs = application_state.assignment_configs
        plan = assign_streams(application_state.view, configs, self.policy)
        placed = list(from_plan(application_state, plan).values())
        if plan.probing and placed:
            deadline_ms = application_state.now_ms + configs.probing_rebalance_interval_ms
            placed[0] = placed[0].with_followup_rebalance(deadline_ms)
        return TaskAssignment(placed)


class StickyTaskAssignor(HighAvailabilityTaskAssignor):
    """KIP-924's StickyTaskAssignor: tasks go back to where they ran, then to where their state is. Never probes."""

    policy = STICKY
