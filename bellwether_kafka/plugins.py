"""The stable interface for plug-ins: assignors of your own, for consumer groups and for Kafka Streams applications.

Names here keep their meaning within a major version; everything else in `bellwether_kafka` may change at any time.
docs/guides/writing-an-assignor.md is the guide.

A consumer assignor implements `ConsumerAssignor`. It gets a `GroupView` and a `ClusterView` and returns one member index
(or `NOBODY`) for each partition. A task assignor extends `TaskAssignor` of KIP-924: an `ApplicationState` goes in, a
`TaskAssignment` comes out; the functions at the end are the building blocks of Kafka's own `TaskAssignmentUtils`.
"""

from bellwether_kafka.assignors.consumer import ConsumerAssignor
from bellwether_kafka.assignors.shared import NO_RACK, NOBODY, ClusterView, GroupView, IntArray, LongArray
from bellwether_kafka.assignors.streams.api import (
    ApplicationState,
    AssignedTask,
    AssignmentConfigs,
    AssignmentError,
    ConsumerAssignment,
    ConsumerSubscription,
    GroupAssignment,
    GroupSubscription,
    KafkaStreamsAssignment,
    KafkaStreamsState,
    LagsNotComputedError,
    ProcessId,
    TaskAssignment,
    TaskAssignmentError,
    TaskAssignor,
    TaskId,
    TaskInfo,
    TaskTopicPartition,
    TaskType,
    UnknownTaskError,
)
from bellwether_kafka.assignors.streams.api.utils import (
    RackAwareOptimizationParams,
    default_standby_task_assignment,
    identity_assignment,
    optimize_rack_aware_active_tasks,
    optimize_rack_aware_standby_tasks,
)

__all__ = [
    "NOBODY",
    "NO_RACK",
    "ApplicationState",
    "AssignedTask",
    "AssignmentConfigs",
    "AssignmentError",
    "ClusterView",
    "ConsumerAssignment",
    "ConsumerAssignor",
    "ConsumerSubscription",
    "GroupAssignment",
    "GroupSubscription",
    "GroupView",
    "IntArray",
    "KafkaStreamsAssignment",
    "KafkaStreamsState",
    "LagsNotComputedError",
    "LongArray",
    "ProcessId",
    "RackAwareOptimizationParams",
    "TaskAssignment",
    "TaskAssignmentError",
    "TaskAssignor",
    "TaskId",
    "TaskInfo",
    "TaskTopicPartition",
    "TaskType",
    "UnknownTaskError",
    "default_standby_task_assignment",
    "identity_assignment",
    "optimize_rack_aware_active_tasks",
    "optimize_rack_aware_standby_tasks",
]
