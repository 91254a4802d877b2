"""An application whose copies are all in one process."""

from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.assignors.streams.application import AssignmentConfigs
from tests.unit.assignors.streams.world import Thread, always, group, led, placed

# Tasks 0-3 have no state, 4-7 have 1,000 records each. Process 1 runs all of them.
ALL_ON_1 = placed([0] * 8)
CONFIGS = AssignmentConfigs(acceptable_recovery_lag=100, max_warmup_replicas=2)
STATE = {(1, partition): -2 for partition in range(4)}


def application(policy: str = "streams-ha", **standbys: int) -> Decision[TaskPlan]:
    """Process 2 has standbys of task 1_n at `t<n>` records."""
    sums = {(1, int(name[1:])): position for name, position in standbys.items()}
    threads = Thread("a", 1, sums=STATE), Thread("b", 2, sums=sums)
    return led(group(*threads), assignors=always(ALL_ON_1), configs=CONFIGS, policy=policy)
