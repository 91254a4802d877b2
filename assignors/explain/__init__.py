"""Explains decisions: why something is where it is, what the alternatives cost, and traffic with its cost."""

from bellwether_kafka.assignors.explain.explanation import FARTHER, Explanation, explain, gains, imbalance
from bellwether_kafka.assignors.explain.traffic import Pair, Traffic, cost_per_hour, flows, traffic_of
