"""The Streams application: its topology, tasks, topics, changelog end offsets and lags."""

from bellwether_kafka.assignors.streams.application.description import CHANGELOG, REPARTITION, named_internal
from bellwether_kafka.assignors.streams.application.lags import (
    EndOffsets,
    TaskLags,
    end_sums,
    has_state,
    is_caught_up,
    lags,
    wanted_offsets,
)
from bellwether_kafka.assignors.streams.application.task_views import (
    BALANCE_SUBTOPOLOGY,
    LATEST_OFFSET,
    NO_STRATEGY,
    PINNED,
    TAG_CHARS_MAX,
    UNKNOWN_OFFSET_SUM,
    AssignmentConfigError,
    AssignmentConfigs,
    ProcessView,
    StreamsPlan,
    StreamsView,
    Subtopology,
    TaskTable,
    ThreadPlan,
)
from bellwether_kafka.assignors.streams.application.tasks import (
    TaskMap,
    build_tasks,
    required_counts,
    resized,
    to_describe,
)
from bellwether_kafka.assignors.streams.application.topology import (
    GUESSED,
    LEARNED,
    Exported,
    InternalTopic,
    Topology,
    TopologyError,
)
from bellwether_kafka.assignors.streams.application.topology_text import DescribedSubtopology, parse_description
