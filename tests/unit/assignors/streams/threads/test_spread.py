"""Every copy of the plan lands on a thread of its process."""

import numpy as np
import pytest

from bellwether_kafka.assignors.streams import Assignors
from bellwether_kafka.assignors.streams.application import AssignmentConfigs
from bellwether_kafka.assignors.streams.policies import assign_fallback_prior, assign_streams
from bellwether_kafka.assignors.streams.threads import spread
from tests.kit.streams import Thread, group, led, tasks_text

STOCK = Assignors(assign_streams, assign_fallback_prior, spread)


@pytest.mark.parametrize("standbys", [0, 1, 2])
def test_copies_keep_their_process(standbys: int) -> None:
    threads = [Thread(f"{process}-{number}", process) for process in (1, 2, 3) for number in range(process)]
    decision = led(group(*threads), assignors=STOCK, configs=AssignmentConfigs(num_standby_replicas=standbys))
    process = np.repeat(np.arange(decision.plan.view.size), decision.plan.view.capacity)
    assert (process[decision.plan.threads.active] == decision.plan.target.active).all()
    assert (process[decision.plan.threads.standby] == decision.plan.target.standby_process).all()
    assert len(decision.plan.target.standby_task) == 4 * standbys


def test_one_thread_gets_everything_of_its_process() -> None:
    decision = led(group(Thread("a", 1)), assignors=STOCK)
    assert tasks_text(decision, "a") == "0_0 0_1 0_2 0_3 1_0 1_1 1_2 1_3"
