"""What an assignor sees: processes, lags, tasks and the partitions behind them. KIP-924's KafkaStreamsStateTest and the
differences to shipped Java that the docstrings name."""

import numpy as np
import pytest

from bellwether_kafka.assignors.streams.api import (
    LagsNotComputedError,
    TaskAssignmentError,
    TaskInfo,
    UnknownTaskError,
    from_view,
)
from bellwether_kafka.assignors.streams.application import LATEST_OFFSET, AssignmentConfigs, Subtopology
from bellwether_kafka.protocol.primitives import HostInfo, TaskId, TopicPartition
from tests.unit.assignors.streams.api.api_scenes import (
    END,
    Application,
    Process,
    changelog,
    process_id,
    source,
    task,
    tasks,
)

TWO_TASKS = Application(stateful=(2,), stateless=(1,))


def test_tasks_come_by_lag() -> None:
    state = TWO_TASKS.state(Process(1, lags={"0_0": 700, "0_1": 300}))
    process = state.kafka_streams_states(compute_task_lags=True)[process_id(1)]
    assert process.lag_for(task("0_0")) == 700
    assert process.lag_for(task("0_1")) == 300
    assert process.prev_tasks_by_lag("1-0") == tasks("0_1", "0_0")
    assert process.prev_tasks_by_lag("nobody") == ()
    assert process.stateful_tasks_to_lag_sums() == {task("0_0"): 700, task("0_1"): 300}


def test_equal_lags_go_by_task_and_running_tasks_come_first() -> None:
    app = Application(stateful=(3,))
    state = app.state(Process(1, active=("0_2",), lags={"0_0": 5, "0_1": 5}))
    process = state.kafka_streams_states(True)[process_id(1)]
    assert process.lag_for(task("0_2")) == LATEST_OFFSET
    assert process.prev_tasks_by_lag("1-0") == tasks("0_2", "0_0", "0_1")


def test_each_thread_has_its_own_tasks() -> None:
    app = Application(stateful=(4,))
    first = Process(1, threads=3, lags={"0_0": 9})
    state = app.state(first, Process(2, threads=2, lags={"0_1": 1, "0_2": 2, "0_3": 3}))
    two = state.kafka_streams_states(True)[process_id(2)]
    assert two.consumer_client_ids == ("2-0", "2-1")
    assert two.prev_tasks_by_lag("2-0") == tasks("0_1", "0_3")
    assert two.prev_tasks_by_lag("2-1") == tasks("0_2")
    assert two.prev_tasks_by_lag("1-0") == ()


def test_a_process_without_state_restores_everything() -> None:
    state = TWO_TASKS.state(Process(1, active=("0_0", "0_1")), Process(2))
    two = state.kafka_streams_states(True)[process_id(2)]
    assert two.lag_for(task("0_1")) == END
    assert two.stateful_tasks_to_lag_sums() == {task("0_0"): END, task("0_1"): END}


def test_lag_operations_need_lags() -> None:
    process = TWO_TASKS.state(Process(1, active=("0_0",))).kafka_streams_states(compute_task_lags=False)[process_id(1)]
    for ask in (
        lambda: process.lag_for(task("0_0")),
        lambda: process.prev_tasks_by_lag("1-0"),
        process.stateful_tasks_to_lag_sums,
    ):
        with pytest.raises(LagsNotComputedError, match="compute_task_lags=True"):
            ask()
    assert process.previous_active_tasks == tasks("0_0")


@pytest.mark.parametrize("unknown_task", [TaskId(0, 7), TaskId(1, 0), TaskId(0, 0, "named")])
def test_only_stateful_tasks_of_the_application_have_a_lag(unknown_task: TaskId) -> None:
    process = TWO_TASKS.state(Process(1)).kafka_streams_states(True)[process_id(1)]
    with pytest.raises(UnknownTaskError, match="not a stateful task of app"):
        process.lag_for(unknown_task)


def test_lags_that_could_not_be_read_raise_where_java_answers_minus_three() -> None:
    state = Application(stateful=(1,), lags_known=False).state(Process(1, active=("0_0",)))
    with pytest.raises(TaskAssignmentError, match="end offsets of the changelogs of app"):
        state.kafka_streams_states(compute_task_lags=True)
    assert state.kafka_streams_states(compute_task_lags=False)[process_id(1)].previous_active_tasks == tasks("0_0")


def test_a_process_shows_what_it_is() -> None:
    busy = Process(
        3, threads=2, rack="az1", tags={"zone": "a"}, active=("0_0", "1_0"), standby=("0_1",), endpoint=HostInfo("h", 9)
    )
    process = TWO_TASKS.state(busy).kafka_streams_states(False)[process_id(3)]
    assert process.process_id == process_id(3)
    assert process.num_processing_threads == 2
    assert process.consumer_client_ids == ("3-0", "3-1")
    assert process.previous_active_tasks == tasks("0_0", "1_0")
    assert process.previous_standby_tasks == tasks("0_1")
    assert process.host_info == HostInfo("h", 9)
    assert process.client_tags == {"zone": "a"}
    assert process.rack_id == "az1"
    bare = TWO_TASKS.state(Process(4)).kafka_streams_states(False)[process_id(4)]
    assert (bare.host_info, bare.client_tags, bare.rack_id) == (None, {}, None)


def test_states_are_cached_by_flag_and_ordered_by_process() -> None:
    state = TWO_TASKS.state(Process(1), Process(2), Process(3))
    assert state.kafka_streams_states(True) is state.kafka_streams_states(True)
    assert state.kafka_streams_states(True) is not state.kafka_streams_states(False)
    assert list(state.kafka_streams_states(True)) == [process_id(1), process_id(2), process_id(3)]


def test_the_application_has_its_tasks_configs_and_time() -> None:
    configs = AssignmentConfigs(num_standby_replicas=2)
    state = TWO_TASKS.state(Process(1), configs=configs, now_ms=77)
    assert tuple(state.all_tasks) == tasks("0_0", "0_1", "1_0")
    assert state.assignment_configs is configs
    assert state.now_ms == 77
    assert TaskId(5, 0) not in state.all_tasks
    assert state.all_tasks[task("0_1")] == TaskInfo(
        task("0_1"), True, Subtopology(0, (source(0),), changelogs=(changelog(0),))
    )


def test_a_task_knows_its_stores_and_partitions() -> None:
    racks = {"0_0": ("az1", "az2"), "0_1": ("az3", None)}
    infos = Application(stateful=(2,), stateless=(1,), racks=racks).state(Process(1)).all_tasks
    first, stateless = infos[task("0_1")], infos[task("1_0")]
    assert (first.is_stateful, first.state_store_names) == (True, ("store-0",))
    assert (stateless.is_stateful, stateless.state_store_names) == (False, ())
    partitions = {p.topic_partition: (p.is_source, p.is_changelog, p.rack_ids) for p in first.topic_partitions}
    assert partitions == {
        TopicPartition(changelog(0), 1): (False, True, frozenset({"az3"})),
        TopicPartition(source(0), 1): (True, False, frozenset({"az3"})),
    }
    assert [p.rack_ids for p in infos[task("0_0")].topic_partitions] == [frozenset({"az1", "az2"})] * 2
    assert [p.rack_ids for p in stateless.topic_partitions] == [None]


def test_a_source_topic_reused_as_changelog_is_both_and_names_no_store() -> None:
    cluster = Application(stateless=(2,)).cluster()
    info = TaskInfo(task("0_1"), True, Subtopology(0, (source(0),), changelogs=(source(0),)), "app", cluster)
    (only,) = info.topic_partitions
    assert (only.topic_partition, only.is_source, only.is_changelog) == (TopicPartition(source(0), 1), True, True)
    assert info.state_store_names == ()


def test_a_short_source_topic_has_no_partition_for_the_last_tasks() -> None:
    cluster = Application(stateless=(3, 1)).cluster()
    both = Subtopology(0, (source(0), source(1)), changelogs=("app-new-changelog",))
    info = TaskInfo(task("0_2"), True, both, "app", cluster)
    assert [p.topic_partition.topic for p in info.topic_partitions] == ["app-new-changelog", source(0)]
    assert info.topic_partitions[0].rack_ids is None
    blind = TaskInfo(task("0_2"), True, both, "app")
    assert [p.topic_partition.topic for p in blind.topic_partitions] == ["app-new-changelog", source(0), source(1)]


def test_nothing_can_be_written_through_the_state() -> None:
    view = TWO_TASKS.view(Process(1, active=("0_0",)))
    state = from_view(view, AssignmentConfigs())
    for array in (state.view.capacity, state.view.tasks.end_sum, state.view.previous_active.values):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5
    view.capacity[0] = 9
    assert view.tasks.end_sum.flags.writeable
    with pytest.raises(TypeError):
        state.kafka_streams_states(False)[process_id(1)] = None  # type: ignore[index]  # that is the point
    assert not hasattr(state.all_tasks, "__setitem__")
    assert np.array_equal(view.previous_active.values, [0])
