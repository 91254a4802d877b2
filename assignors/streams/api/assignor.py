"""The task assignor that a plug-in implements, and what can be wrong with what it returns (KIP-924)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from bellwether_kafka.assignors.streams.api.assignment import TaskAssignment
from bellwether_kafka.assignors.streams.api.state import ApplicationState
from bellwether_kafka.protocol.primitives import HostInfo, ProcessId, TaskId, TopicPartition


class AssignmentError(Enum):
    """What is wrong with a TaskAssignment; the value says it in words.

    The last three are not in shipped Java. It lets an active task go to nobody and a process be listed twice (the
    later entry wins there, and the tasks of the earlier one are lost). KIP-924 lists the error of a task that is active
    and standby on one process; Java dropped it, because one entry cannot say so, but two entries can.
    """

    NONE = "the assignment is valid"
    ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES = "an active task is assigned to more than one process"
    INVALID_STANDBY_TASK = "a stateless task is assigned as standby"
    MISSING_PROCESS_ID = "a process of the application is not in the assignment"
    UNKNOWN_PROCESS_ID = "a process in the assignment is not of this application"
    UNKNOWN_TASK_ID = "a task in the assignment is not of this application"
    ACTIVE_AND_STANDBY_TASK_ASSIGNED_TO_SAME_KAFKASTREAMS = "a task is active and standby on one process"
    PROCESS_ID_ASSIGNED_MULTIPLE_TIMES = "a process is in the assignment more than once"
    ACTIVE_TASK_NOT_ASSIGNED = "an active task is assigned to no process"

    @property
    def unreadable(self) -> bool:
        """Whether there is no telling what was meant: then on_assignment_computed gets an empty GroupAssignment."""
        return self in (AssignmentError.UNKNOWN_PROCESS_ID, AssignmentError.UNKNOWN_TASK_ID)


@dataclass(frozen=True, slots=True)
class ConsumerAssignment:
    """What one consumer (one stream thread) gets: its partitions, and its tasks in each role. All ascending."""

    partitions: tuple[TopicPartition, ...] = ()
    active_tasks: tuple[TaskId, ...] = ()
    standby_tasks: tuple[TaskId, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupAssignment:
    """The final assignment by member id: the target, so with tasks that wait until their present owner lets go."""

    group_assignment: Mapping[str, ConsumerAssignment] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConsumerSubscription:
    """What one consumer said when it joined, as far as tasks go. `previous_tasks`: the stateful ones, ascending."""

    process_id: ProcessId
    rack: str | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    host_info: HostInfo | None = None
    previous_tasks: tuple[TaskId, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupSubscription:
    """All consumers of the application by member id."""

    group_subscription: Mapping[str, ConsumerSubscription] = field(default_factory=dict)


class TaskAssignor(Protocol):
    """A task assignor. Only `assign` is required; subclass this to inherit the other two as no-ops.

    Shipped Java makes a new assignor for every rebalance. Here one lives as long as the group is led, so an assignor
    must keep nothing between calls that its answer depends on: equal states must give equal answers, or a recorded
    decision cannot be replayed. Use `ApplicationState.now_ms`, never a clock.
    """

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Places every active task on one process, and standbys as it likes.

        Raise TaskAssignmentError to keep the present assignment and have the rebalance retried. Shipped Java fails
        every thread of the application on it; here it does what the KIP promises. Any other exception and any invalid
        assignment has the same outcome, but counts as a failure: three in a row and the assignor is not asked again.
        """
        ...

    def on_assignment_computed(
        self, assignment: GroupAssignment, subscription: GroupSubscription, error: AssignmentError
    ) -> None:
        """Shows what the group gets, and what was wrong with the answer of `assign` (NONE if nothing).

        After an error `assignment` is what is delivered instead, and empty for UNKNOWN_PROCESS_ID and UNKNOWN_TASK_ID.
        It is not called when `assign` itself has raised. What it raises is noted and otherwise ignored.
        """

    def configure(self, configs: Mapping[str, object]) -> None:
        """Gets the settings of the group, once, before anything else."""
