"""Output of a process: metrics, logs and Avro events. Also reads the partition weights that are derived from events."""

from bellwether_kafka.coordinator.telemetry.decision_log import decision_fields, log_decision
from bellwether_kafka.coordinator.telemetry.history_reader import HistoryUnreadError, recorded
from bellwether_kafka.coordinator.telemetry.logs import configure_logs
from bellwether_kafka.coordinator.telemetry.metrics import Metrics, client_of
from bellwether_kafka.coordinator.telemetry.metrics_cost import CostMetrics
from bellwether_kafka.coordinator.telemetry.metrics_groups import LagMetrics, ObservedMetrics, PauseMetrics
from bellwether_kafka.coordinator.telemetry.metrics_lag_exporter import LagExporterMetrics
from bellwether_kafka.coordinator.telemetry.metrics_process import ControlMetrics, ServedMetrics
from bellwether_kafka.coordinator.telemetry.metrics_streams import StreamsMetrics
from bellwether_kafka.coordinator.telemetry.observed_rebalances import ObservedRebalances
from bellwether_kafka.coordinator.telemetry.observed_samples import ObservedSamples
from bellwether_kafka.coordinator.telemetry.publish import EventPublisher
from bellwether_kafka.coordinator.telemetry.samples import Followed, Sampler
from bellwether_kafka.coordinator.telemetry.weight_reader import WeightReader
