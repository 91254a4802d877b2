"""Bellwether's Avro events without Spark: schemas, registry, history, and recorded rebalances decided again."""

from bellwether_kafka.pipeline.records.backtest import (
    BACKTEST_POLICIES,
    OUTCOME_SCHEMA,
    PRICE_PER_GB,
    Outcome,
    recommendation,
    rows_of,
    summary,
)
from bellwether_kafka.pipeline.records.codec import (
    CONFLUENT_BYTES,
    CONFLUENT_MARKER,
    HEADER_BYTES,
    MARKER,
    EventError,
    EventSchema,
    SchemaSet,
    confluent,
    single_object,
)
from bellwether_kafka.pipeline.records.history import (
    History,
    HistoryError,
    read_history,
    replay_here,
    write_history,
    write_json_lines,
)
from bellwether_kafka.pipeline.records.registry import RegistryError, register, registered
from bellwether_kafka.pipeline.records.replay import (
    DIFFERENCES_MAX,
    Difference,
    PlanCost,
    Replayed,
    replay_rounds,
    rounds_of,
)

__all__ = [
    "BACKTEST_POLICIES",
    "CONFLUENT_BYTES",
    "CONFLUENT_MARKER",
    "DIFFERENCES_MAX",
    "HEADER_BYTES",
    "MARKER",
    "OUTCOME_SCHEMA",
    "PRICE_PER_GB",
    "Difference",
    "EventError",
    "EventSchema",
    "History",
    "HistoryError",
    "Outcome",
    "PlanCost",
    "RegistryError",
    "Replayed",
    "SchemaSet",
    "confluent",
    "read_history",
    "recommendation",
    "register",
    "registered",
    "replay_here",
    "replay_rounds",
    "rounds_of",
    "rows_of",
    "single_object",
    "summary",
    "write_history",
    "write_json_lines",
]
