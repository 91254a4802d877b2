"""The reasons for which a leader asks for a rebalance, hands the lead back or alerts: a table of pure functions."""

from bellwether_kafka.coordinator.triggers.evidence import NOTHING_COMMITTED, Doing, Evidence, Fact, Progress
from bellwether_kafka.coordinator.triggers.load import LoadRequests, LoadState, tasks_to_move, would_move
from bellwether_kafka.coordinator.triggers.picture import Finding, Picture, RacksGain, Reading
from bellwether_kafka.coordinator.triggers.probing import Prober, ProbingFacts, Rates, ReportedCopy
from bellwether_kafka.coordinator.triggers.table import TRIGGERS, Trigger
from bellwether_kafka.coordinator.triggers.work import WorkWatch
