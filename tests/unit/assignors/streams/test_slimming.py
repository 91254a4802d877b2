"""Host maps are what a group that is too large for its record does without."""

from bellwether_kafka.assignors.streams import without_host_maps
from bellwether_kafka.coordinator.planning import inspect, record_bytes
from tests.kit.streams import OWN, Thread, group, led, sent

RAW = group(Thread("a", 1, endpoint="one:8080"), Thread("b", 2, endpoint="two:8080"))


def test_tasks_stay_and_host_maps_go() -> None:
    full = led(RAW)
    slim = without_host_maps(full, "too large")
    assert slim is not None
    assert inspect(RAW, slim) == ()
    assert slim.warnings == (*full.warnings, "interactive queries get no hosts: too large")
    for member in ("a", "b"):
        partitions, before = sent(full, member)
        still, after = sent(slim, member)
        assert before.partitions_by_host
        assert not after.partitions_by_host
        assert not after.standby_partitions_by_host
        assert (still, after.active_tasks, after.standby_tasks) == (
            partitions,
            before.active_tasks,
            before.standby_tasks,
        )
        assert after.next_rebalance_ms == before.next_rebalance_ms
    assert dict(slim.assignments)[OWN] == dict(full.assignments)[OWN]
    assert record_bytes(RAW, slim.assignments) < record_bytes(RAW, full.assignments)


def test_nothing_is_left_out_twice_or_where_nothing_is() -> None:
    slim = without_host_maps(led(RAW), "too large")
    assert slim is not None
    assert without_host_maps(slim, "too large") is None
    assert without_host_maps(led(group(Thread("a", 1), Thread("b", 2))), "too large") is None
