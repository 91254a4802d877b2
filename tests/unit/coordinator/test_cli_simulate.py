"""What an imagined round restores, in bytes: as far as brokers tell sizes."""

from coordinator.cli_simulate import task_bytes
from protocol.types import TaskId
from tests.unit.assignors.streams.world import Thread, group, led


def test_a_task_is_as_large_as_its_changelogs_on_disk() -> None:
    decision = led(group(Thread("a", 1)))
    sizes = {("shop-totals-changelog", partition): 1_000 + partition for partition in range(3)}
    assert task_bytes(decision, sizes) == {
        **{TaskId(0, partition): 0 for partition in range(4)},
        **{TaskId(1, partition): 1_000 + partition for partition in range(3)},
    }, "nothing is known of 1_3, and 0 has no state"
