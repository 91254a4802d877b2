"""Stateful members as Streams threads, and the answer back, which is read before it leaves."""

from dataclasses import replace

import pytest

from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.assignors.stateful import (
    as_streams,
    end_offsets,
    from_streams,
    inspect_stateful,
    read_member,
    stateful_topology,
    topology_of,
)
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, Subtopology, Topology
from bellwether_kafka.protocol.messages import (
    LATEST_OFFSET,
    UNKNOWN_OFFSET_SUM,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    Copy,
    StatefulAssignment,
    StatefulSubscription,
    StatefulTaskState,
    SubscriptionInfo,
    Task,
)
from bellwether_kafka.protocol.primitives import ProcessId, TaskId, TopicPartition
from tests.kit.streams import Thread, group, led


def decision(standbys: int = 0) -> Decision[TaskPlan]:
    return led(group(Thread("a", 1), Thread("b", 2)), configs=AssignmentConfigs(num_standby_replicas=standbys))


@pytest.mark.parametrize("standbys", [0, 1])
def test_a_translation_that_says_what_was_decided_is_fine(standbys: int) -> None:
    made = decision(standbys)
    assert len(made.plan.copies) == 4 * standbys
    assert inspect_stateful(made, from_streams(made)) == ()


def test_bytes_that_do_not_read_back_are_found() -> None:
    made = decision()
    (first, _), *rest = from_streams(made)
    finding = f"the assignment of {first} does not read back"
    assert inspect_stateful(made, ((first, b"\0"), *rest))[0].startswith(finding)
    bare = ConsumerProtocolAssignment(1, (), None).encode()
    assert inspect_stateful(made, ((first, bare), *rest))[0].startswith(finding)


def test_every_assignment_that_does_not_read_back_is_named() -> None:
    made = decision()
    members = [member for member, _ in made.assignments]
    findings = inspect_stateful(made, [(member, b"\0") for member in members])
    assert [finding.partition(" does not read back")[0] for finding in findings] == [
        f"the assignment of {member}" for member in members
    ]


def test_another_plan_is_found() -> None:
    made = decision()
    (first, blob), *rest = from_streams(made)
    partitions = ConsumerProtocolAssignment.decode(blob).partitions
    other = ConsumerProtocolAssignment(1, partitions, StatefulAssignment(active=(Task(9, 9),)).encode()).encode()
    assert inspect_stateful(made, ((first, other), *rest)) == (f"the assignment of {first} is not that of the plan",)


# ---- on the way in -------------------------------------------------------------------------------------------------

COUNTS = {"clicks": 3, "orders": 5}
TOPOLOGY = stateful_topology(
    Topology("g", (Subtopology(0, ("clicks", "orders")), Subtopology(2, ("none",))), "file"), COUNTS
)


def metadata(info: StatefulSubscription, *owned: TopicPartition, rack: str | None = None) -> bytes:
    message = ConsumerProtocolSubscription(3, ("clicks", "orders"), info.encode(), owned, 4, rack)
    return message.encode()


def translated(info: StatefulSubscription, *owned: TopicPartition) -> SubscriptionInfo:
    blob = as_streams(read_member(metadata(info, *owned)), TOPOLOGY, COUNTS)
    return SubscriptionInfo.decode(ConsumerProtocolSubscription.decode(blob).user_data or b"")


def test_a_member_is_a_thread_of_its_process_with_its_capacity_as_a_tag() -> None:
    info = StatefulSubscription(ProcessId(3, -4), capacity=7, tags=(("zone", "a"), ("capacity", "99")))
    assert translated(info) == SubscriptionInfo(
        process_id=ProcessId(3, -4), client_tags=(("zone", "a"), ("capacity", "7"))
    )


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (StatefulTaskState(Task(0, 2), 40, 50), 40),
        (StatefulTaskState(Task(0, 2), 0, 50), 0),
        (StatefulTaskState(Task(0, 2)), UNKNOWN_OFFSET_SUM),
        (StatefulTaskState(Task(0, 2), 50, 50, running=True), LATEST_OFFSET),
        (StatefulTaskState(Task(0, 4), 5, 5), 5),  # only one of its topics has that partition
        (StatefulTaskState(Task(0, 5), 5, 5), None),
        (StatefulTaskState(Task(1, 0), 5, 5), None),
        (StatefulTaskState(Task(2, 0), 5, 5), None),
    ],
)
def test_what_a_task_has_is_what_its_position_says(state: StatefulTaskState, expected: int | None) -> None:
    sums = translated(StatefulSubscription(ProcessId(0, 1), tasks=(state,))).task_offset_sums
    assert sums == (() if expected is None else ((TaskId(*state.task), expected),))


def test_what_a_member_does_not_own_does_not_run_there_whatever_it_says() -> None:
    running = StatefulSubscription(
        ProcessId(0, 1), tasks=tuple(StatefulTaskState(Task(0, p), 9, 9, running=True) for p in range(3))
    )
    sums = dict(translated(running, TopicPartition("orders", 1), TopicPartition("clicks", 2)).task_offset_sums)
    assert sums == {TaskId(0, 0): 9, TaskId(0, 1): LATEST_OFFSET, TaskId(0, 2): LATEST_OFFSET}


@pytest.mark.parametrize(
    ("outside", "inside", "expected"), [("az1", "az2", "az1"), (None, "az2", "az2"), (None, None, None)]
)
def test_the_rack_of_the_subscription_goes_before_that_of_the_user_data(
    outside: str | None, inside: str | None, expected: str | None
) -> None:
    member = read_member(metadata(StatefulSubscription(ProcessId(0, 1), inside), rack=outside))
    decoded = ConsumerProtocolSubscription.decode(as_streams(member, TOPOLOGY, COUNTS))
    assert (decoded.version, decoded.rack_id, decoded.generation_id) == (3, expected, 4)


def test_members_that_cannot_be_read_say_nothing() -> None:
    assert as_streams(read_member(b"\0"), TOPOLOGY, COUNTS) == b"\0"
    odd = ConsumerProtocolSubscription(1, ("clicks",), b"odd").encode()
    decoded = ConsumerProtocolSubscription.decode(as_streams(read_member(odd), TOPOLOGY, COUNTS))
    assert (decoded.version, decoded.topics, decoded.user_data) == (3, ("clicks",), None)
    assert topology_of("g", [read_member(b"\0"), read_member(odd)]) is None


def test_the_topics_of_readable_members_are_one_group() -> None:
    good = read_member(metadata(StatefulSubscription(ProcessId(0, 1))))
    more = ConsumerProtocolSubscription(1, ("users", "no topic!"), StatefulSubscription(ProcessId(0, 2)).encode())
    topology = topology_of("g", [good, read_member(more.encode()), read_member(b"")])
    assert topology is not None
    assert topology.subtopologies == (Subtopology(0, ("clicks", "orders", "users")),)


def test_state_is_as_large_as_anybody_knows_it() -> None:
    assert [s.changelogs for s in TOPOLOGY.subtopologies] == [("orders",), ("none",)]
    infos = (
        (
            StatefulTaskState(Task(0, 0), 10, 30),
            StatefulTaskState(Task(0, 1), 70, 20),
            StatefulTaskState(Task(0, 9), 5, 5),
        ),
        (StatefulTaskState(Task(0, 0), 20), StatefulTaskState(Task(0, 4), 3, 4), StatefulTaskState(Task(1, 0), 9, 9)),
    )
    members = [read_member(metadata(StatefulSubscription(ProcessId(0, 1), tasks=tasks))) for tasks in infos]
    ends = end_offsets(TOPOLOGY, COUNTS, [*members, read_member(b"")], 77)
    assert {topic: list(sums) for topic, sums in ends.ends.items()} == {"orders": [30, 70, 0, 0, 4], "none": []}


# ---- on the way out ------------------------------------------------------------------------------------------------


def test_members_are_given_tasks_their_topics_and_copies_by_kind() -> None:
    made = led(group(Thread("a", 1), Thread("b", 2)), configs=AssignmentConfigs(num_standby_replicas=1))
    target = made.plan.target
    warm = replace(
        made, plan=replace(made.plan, target=replace(target, warmup=target.standby_task == target.standby_task[0]))
    )
    first = made.plan.view.tasks.task_id(int(made.plan.target.standby_task[0]))
    for member_id, blob in from_streams(warm):
        read = ConsumerProtocolAssignment.decode(blob)
        data = StatefulAssignment.decode(read.user_data or b"")
        active, standby = made.plan.tasks_of(member_id)
        assert data.active == tuple(Task(*task[:2]) for task in active)
        assert data.copies == tuple(Copy(Task(*task[:2]), int(task == first)) for task in standby)
        used = {task.subtopology for task in (*active, *standby)}
        assert data.groups == tuple(
            (s.id, tuple(sorted(s.sources))) for s in made.plan.topology.subtopologies if s.id in used
        )
