"""The stages of `streams-ha`: host affinity, co-location, capacity, a budget of moves, the operator's rules."""

from bellwether_kafka.assignors.streams.stages.rules import against, infeasible, last_copies, means
from bellwether_kafka.assignors.streams.stages.steps import NO_STAGES, StageConfigs, Steps
