"""Bellwether's Avro events without Spark: schemas, registry, history, and recorded rebalances decided again."""

from bellwether_kafka.pipeline.records.backtest import (
    BACKTEST_POLICIES,
    OUTCOME_SCHEMA,
    PRICE_PER_GB,
    BacktestOutcome,
    recommendation,
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
    ANOTHERS,
    DIFFERENCES_MAX,
    OBSERVED,
    PLANNED,
    Difference,
    PlanCost,
    Replayed,
    replay_rounds,
    rounds_of,
)
