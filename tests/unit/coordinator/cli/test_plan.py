"""What `plan -o wide` says of the crash that would cost most."""

import numpy as np

from bellwether_kafka.coordinator.cli.plan import _crash_in_words
from bellwether_kafka.coordinator.observation.observation import Observation, shadow_of
from tests.unit.coordinator.observation.test_absence_cost import application
from tests.unit.coordinator.web.test_picture import decided, member

SEEN = Observation("g", "classic", "Stable", "range", 0)


def test_the_dearest_crash_is_one_line() -> None:
    decision = decided(member("a-1", None), member("b-1", None))
    (line,) = _crash_in_words(SEEN, shadow_of(decision, np.array([1, 1, 1, 0], dtype=np.int32)))
    assert line == (
        "If b-1 crashed now, nobody would have its 3 partitions for up to 48 s (3.2 s with a guard);"
        " 'bellwether simulate g --crash' has more."
    )
    tasks = application(t0=1000)
    (line,) = _crash_in_words(SEEN, shadow_of(tasks, tasks.plan.owner))
    assert "its 8 tasks for up to 48 s (3.2 s with a guard), and 3,000 records are restored;" in line


def test_a_group_in_which_nobody_has_anything_has_none() -> None:
    decision = decided(member("a-1", None))
    assert _crash_in_words(SEEN, shadow_of(decision, np.full(4, -1, dtype=np.int32))) == []
