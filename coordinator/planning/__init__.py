"""From a JoinGroup answer to an assignment that may be sent: metadata, deadline, plan, guard, fallback, memory."""

from bellwether_kafka.coordinator.planning.applications import Application, ApplicationError, load_application
from bellwether_kafka.coordinator.planning.causes import Cause, cause
from bellwether_kafka.coordinator.planning.consumer_planner import Planned, Planner
from bellwether_kafka.coordinator.planning.fallback import Source
from bellwether_kafka.coordinator.planning.guard import MESSAGE_BYTES_MAX, record_bytes
from bellwether_kafka.coordinator.planning.planner import Compared, D, GroupPlanner, PlannedRound, Timings
from bellwether_kafka.coordinator.planning.recorded_round import UnreadableRoundError, pack, unpack
from bellwether_kafka.coordinator.planning.solver import Solvers, foreign_code
from bellwether_kafka.coordinator.planning.stateful_planner import StatefulPlanner
from bellwether_kafka.coordinator.planning.streams_config import TASK_STALL_MS, StreamsConfig
from bellwether_kafka.coordinator.planning.streams_planner import PlannedTasks, StreamsPlanner, TopologySource
from bellwether_kafka.coordinator.planning.streams_report import Report, report, short, streams_cause
from bellwether_kafka.coordinator.planning.task_plan import TaskRequest, make_tasks
from bellwether_kafka.coordinator.planning.warm_up import warm_up_soon

__all__ = [
    "MESSAGE_BYTES_MAX",
    "TASK_STALL_MS",
    "Application",
    "ApplicationError",
    "Cause",
    "Compared",
    "D",
    "GroupPlanner",
    "Planned",
    "PlannedRound",
    "PlannedTasks",
    "Planner",
    "Report",
    "Solvers",
    "Source",
    "StatefulPlanner",
    "StreamsConfig",
    "StreamsPlanner",
    "TaskRequest",
    "Timings",
    "TopologySource",
    "UnreadableRoundError",
    "cause",
    "foreign_code",
    "load_application",
    "make_tasks",
    "pack",
    "record_bytes",
    "report",
    "short",
    "streams_cause",
    "unpack",
    "warm_up_soon",
]
