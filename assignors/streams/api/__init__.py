"""The task assignor API of KIP-924 in Python. What is named here is public; where it differs from shipped Java, the
docstring of the thing says so.

The rules of Java to Python: accessors without arguments are properties, an Instant is an integer of milliseconds since
the epoch, an Optional is a value or None, a sorted set is an ascending tuple.
"""

from assignors.streams.api.assignment import AssignedTask, KafkaStreamsAssignment, TaskAssignment, TaskType
from assignors.streams.api.assignor import (
    AssignmentError,
    ConsumerAssignment,
    ConsumerSubscription,
    GroupAssignment,
    GroupSubscription,
    TaskAssignor,
)
from assignors.streams.api.bridge import from_view, to_plan
from assignors.streams.api.errors import LagsNotComputedError, TaskAssignmentError, UnknownTaskError
from assignors.streams.api.state import ApplicationState, KafkaStreamsState, TaskInfo, TaskTopicPartition
from assignors.streams.api.validation import (
    InvalidAssignmentError,
    MalformedAssignmentError,
    validate_task_assignment,
)
from assignors.streams.model import AssignmentConfigs
from protocol.types import ProcessId, TaskId

__all__ = [
    "ApplicationState",
    "AssignedTask",
    "AssignmentConfigs",
    "AssignmentError",
    "ConsumerAssignment",
    "ConsumerSubscription",
    "GroupAssignment",
    "GroupSubscription",
    "InvalidAssignmentError",
    "KafkaStreamsAssignment",
    "KafkaStreamsState",
    "LagsNotComputedError",
    "MalformedAssignmentError",
    "ProcessId",
    "TaskAssignment",
    "TaskAssignmentError",
    "TaskAssignor",
    "TaskId",
    "TaskInfo",
    "TaskTopicPartition",
    "TaskType",
    "UnknownTaskError",
    "from_view",
    "to_plan",
    "validate_task_assignment",
]
