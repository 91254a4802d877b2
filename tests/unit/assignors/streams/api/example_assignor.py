"""The example of docs/guides/writing-an-assignor.md: tasks stay where they ran, the rest goes where most state is."""

from bellwether_kafka.assignors.streams.api import ApplicationState, AssignedTask, TaskAssignment, TaskAssignor
from bellwether_kafka.plugins import default_standby_task_assignment, identity_assignment


class StateFirst(TaskAssignor):
    """Never moves a running task; gives every other one to the process with the least lag, then the least tasks."""

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        states = application_state.kafka_streams_states(compute_task_lags=True)
        placed = identity_assignment(application_state)
        taken = set()
        for mine in placed.values():
            for task in list(mine.tasks.values()):
                if task.id in taken or task == AssignedTask.standby(task.id):
                    mine.remove_task(task)
                else:
                    taken.add(task.id)
        for task, info in application_state.all_tasks.items():
            if task not in taken:
                lag = {p: s.lag_for(task) if info.is_stateful else 0 for p, s in states.items()}
                best = min(placed, key=lambda p: (lag[p], len(placed[p].tasks) / states[p].num_processing_threads, p))
                placed[best].assign_task(AssignedTask.active(task))
        default_standby_task_assignment(application_state, placed)
        return TaskAssignment(placed.values())
