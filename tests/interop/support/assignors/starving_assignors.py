"""Task assignors that starve an application or a member, as a plug-in may: for `streams/test_hand_backs.py`."""

from collections.abc import Sequence

from bellwether_kafka.plugins import (
    ApplicationState,
    AssignedTask,
    KafkaStreamsAssignment,
    TaskAssignment,
    TaskAssignor,
)
from bellwether_kafka.protocol.primitives import TaskId


class Greedy(TaskAssignor):
    """One process has all tasks, the others have none."""

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        first, *others = sorted(application_state.kafka_streams_states(compute_task_lags=False))
        all_of_them = [AssignedTask.active(task) for task in self.tasks(application_state)]
        nothing = [KafkaStreamsAssignment.of(process) for process in others]
        return TaskAssignment([KafkaStreamsAssignment.of(first, all_of_them), *nothing])

    def tasks(self, application_state: ApplicationState) -> Sequence[TaskId]:
        return list(application_state.all_tasks)


class Drops(Greedy):
    """The same, and tasks of partition 0 have no process."""

    def tasks(self, application_state: ApplicationState) -> Sequence[TaskId]:
        return [task for task in application_state.all_tasks if task.partition]
