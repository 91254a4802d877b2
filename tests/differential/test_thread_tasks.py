"""Tasks to threads beside Java's own distribution on the same random processes: the same tasks for every thread."""

import os
from random import Random

import pytest

from bellwether_kafka.assignors.streams.threads import assign_threads
from tests.differential.referees import TIMEOUT_S, ask
from tests.differential.thread_problems import by_member, random_threads
from tests.interop.support.jvm import Java

INPUTS = int(os.environ.get("BELLWETHER_INPUTS", "1000"))
REFEREE = "org.apache.kafka.streams.processor.internals.ThreadReferee"

pytestmark = [pytest.mark.broker, pytest.mark.timeout(TIMEOUT_S)]


@pytest.mark.parametrize(("inputs", "most_tasks"), [(INPUTS, 24), (INPUTS // 4, 200)], ids=["usual", "large"])
def test_threads_equal_java(jvm: Java, inputs: int, most_tasks: int) -> None:
    random = Random(4 + most_tasks)
    problems = [random_threads(random, most_tasks=most_tasks) for _ in range(inputs)]
    for problem, theirs in zip(problems, ask(jvm, REFEREE, problems), strict=True):
        view = problem.view()
        own = by_member(assign_threads(view, problem.plan()), view)
        expected = {m: (sorted(theirs["active"][m]), sorted(theirs["standby"][m])) for m, _ in problem.members}
        assert own == expected, problem
