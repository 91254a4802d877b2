"""The task assignor API of KIP-924 in Python. All names here are public; docstrings note where they differ from shipped
Java.

Translation from Java to Python: accessors without arguments are properties, an Instant is an integer of milliseconds
since the epoch, an Optional is a value or None, a sorted set is an ascending tuple.
"""

from bellwether_kafka.assignors.streams.api.application_state import (
    ApplicationState,
    KafkaStreamsState,
    LagsNotComputedError,
    TaskAssignmentError,
    TaskInfo,
    TaskTopicPartition,
    UnknownTaskError,
)
from bellwether_kafka.assignors.streams.api.assignor import (
    AssignedTask,
    AssignmentError,
    ConsumerAssignment,
    ConsumerSubscription,
    GroupAssignment,
    GroupSubscription,
    KafkaStreamsAssignment,
    TaskAssignment,
    TaskAssignor,
    TaskType,
)
from bellwether_kafka.assignors.streams.api.checked import InvalidAssignmentError, check, from_view, plan_of, snapshot
from bellwether_kafka.assignors.streams.application import AssignmentConfigs
from bellwether_kafka.protocol.primitives import ProcessId, TaskId
