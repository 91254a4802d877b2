"""Plans for Kafka Streams applications: KIP-441, KIP-924 and KIP-925, from bytes to a decision."""

from bellwether_kafka.assignors.streams.decide import STOCK, Assignors, decide_streams, stock
from bellwether_kafka.assignors.streams.plugin_runner import PluginError, PluginHealth, load_task_assignor, run_plugin
from bellwether_kafka.assignors.streams.report import Report, report
from bellwether_kafka.assignors.streams.task_plan import TaskPlan, without_host_maps
from bellwether_kafka.assignors.streams.whatif import HeldTasks, next_rebalance, rebalances_of_tasks
