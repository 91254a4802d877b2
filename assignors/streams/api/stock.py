"""The stock assignors behind the plug-in API: to start from, to compare with, or to fall back to inside one's own."""

from assignors.streams.api.assignment import TaskAssignment
from assignors.streams.api.assignor import TaskAssignor
from assignors.streams.api.bridge import from_plan
from assignors.streams.api.state import ApplicationState
from assignors.streams.high_availability import assign_high_availability
from assignors.streams.model import AssignmentConfigs, StreamsPlan, StreamsView
from assignors.streams.rack_aware import RackOptimiser
from assignors.streams.sticky_task import assign_sticky


class HighAvailabilityTaskAssignor(TaskAssignor):
    """KIP-441. Where warm-ups are pending, the first process asks for a rebalance after the probing interval."""

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        state = application_state
        plan = high_availability(state.view, state.assignment_configs)
        placed = list(from_plan(state, plan).values())
        if plan.probing:
            deadline_ms = state.now_ms + state.assignment_configs.probing_rebalance_interval_ms
            placed[0] = placed[0].with_followup_rebalance(deadline_ms)
        return TaskAssignment(placed)


class StickyTaskAssignor(TaskAssignor):
    """KIP-924's StickyTaskAssignor: tasks go back to where they ran, then to where their state is."""

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        state = application_state
        plan = assign_sticky(state.view, state.assignment_configs, racks_of(state.view, state.assignment_configs))
        return TaskAssignment(from_plan(state, plan).values())


def high_availability(view: StreamsView, configs: AssignmentConfigs) -> StreamsPlan:
    """HighAvailability with the racks that the strategy asks for, where they are known."""
    return assign_high_availability(view, configs, racks_of(view, configs))


def racks_of(view: StreamsView, configs: AssignmentConfigs) -> RackOptimiser | None:
    """The rack stage, None where the strategy is none or a rack is not known."""
    found = RackOptimiser.of(view, configs)
    return found if isinstance(found, RackOptimiser) else None
