"""Plans recorded rebalances again: each with its leader's inputs, or all of them in sequence under chosen policies."""

from bellwether_kafka.coordinator.replay.history import (
    History,
    HistoryError,
    read_history,
    write_history,
    write_json_lines,
)
from bellwether_kafka.coordinator.replay.policy_replay import PolicyOutcome, PolicySummary, replay_policies, summary
from bellwether_kafka.coordinator.replay.rebalance_replay import RecordedRebalance, rebalances_of, replay_rebalances
from bellwether_kafka.coordinator.replay.recorded import Replayed
from bellwether_kafka.coordinator.replay.task_policy_replay import replay_task_policies
from bellwether_kafka.coordinator.replay.task_replay import replay_tasks
