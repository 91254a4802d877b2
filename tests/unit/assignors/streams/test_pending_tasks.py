"""A rebalance of a Streams group: tasks that wait until their owner has let go, and who rejoins when."""

from dataclasses import replace

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.assignors.streams import Assignors, TaskPlan
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, Subtopology, Topology
from bellwether_kafka.assignors.streams.members import StreamsMemory
from bellwether_kafka.protocol.messages import NEVER_MS
from bellwether_kafka.protocol.primitives import HostInfo, TaskId, TopicPartition
from tests.kit.streams import (
    NOW_MS,
    REPARTITION,
    SIMPLE,
    TWO,
    Thread,
    always,
    by_turns,
    group,
    led,
    placed,
    round_robin,
    sent,
    tasks_text,
)


def settled(members: tuple[Thread, ...] = TWO, generation: int = 1) -> tuple[tuple[Thread, ...], Decision[TaskPlan]]:
    decision = led(group(*members, generation=generation))
    return tuple(m.after(decision) for m in members), decision


def test_what_stays_is_not_pending() -> None:
    members, first = settled()
    second = led(group(*members, generation=2), memory=first.plan.memory)
    assert not second.followup
    assert (second.moves.kept, second.moves.moved) == (8, 0)
    assert tasks_text(second, "a") == "0_0 0_2 1_0 1_2"


def test_a_moved_task_is_pending_until_its_owner_has_let_go() -> None:
    """StreamsPartitionAssignorTest: interleaved ownership; in Kafka only the receiver has to rejoin at once."""
    members, first = settled()
    swap = placed([0, 1, 0, 1, 0, 1, 0, 0])
    second = led(group(*members, generation=2), memory=first.plan.memory, assignors=always(swap))
    assert second.followup
    assert [str(second.plan.view.tasks.task_id(t)) for t in np.flatnonzero(second.plan.pending)] == ["1_3"]
    assert tasks_text(second, "a") == "0_0 0_2 1_0 1_2"
    assert tasks_text(second, "b") == "0_1 0_3 1_1"
    assert {sent(second, m)[1].next_rebalance_ms for m in ("a", "b")} == {0}
    members = tuple(m.after(second) for m in members)
    third = led(group(*members, generation=3), memory=second.plan.memory, assignors=always(swap))
    assert not third.followup
    assert tasks_text(third, "a") == "0_0 0_2 1_0 1_2 1_3"


@pytest.mark.parametrize("missed", [1, 2])
def test_a_thread_that_never_got_the_last_plan_still_has_what_it_had_before(missed: int) -> None:
    """It counts itself to the generation whose JoinGroup it saw, and the next rebalance began before that plan came:
    found with a million records under load, where the whole application was given to Java for it."""
    (a, b), decision = settled()
    swap = placed([0, 1, 0, 1, 0, 1, 0, 0])
    for generation in range(2, 2 + missed):
        decision = led(group(a, b, generation=generation), memory=decision.plan.memory, assignors=always(swap))
        a = a.after(decision)
        b = replace(b, generation=generation, unique=b.unique + 1)
    assert decision.followup
    again = led(group(a, b, generation=2 + missed), memory=decision.plan.memory, assignors=always(swap))
    assert [str(again.plan.view.tasks.task_id(t)) for t in np.flatnonzero(again.plan.pending)] == ["1_3"]
    assert again.followup
    assert not any("never given" in w for w in again.warnings)
    b = b.after(again)
    last = led(group(a.after(again), b, generation=3 + missed), memory=again.plan.memory, assignors=always(swap))
    assert not last.followup
    assert tasks_text(last, "a") == "0_0 0_2 1_0 1_2 1_3"


def test_everybody_is_called_back_for_a_pending_task_and_not_at_a_heartbeat() -> None:
    """The task runs nowhere until the last member has come, those that neither give nor take included."""
    members, first = settled((Thread("a", 1), Thread("b", 2), Thread("c", 3)))
    owners = first.plan.target.active.tolist()
    moved = owners.index(0)
    second = led(
        group(*members, generation=2),
        memory=first.plan.memory,
        assignors=always(placed([1 if task == moved else owner for task, owner in enumerate(owners)])),
    )
    assert np.flatnonzero(second.plan.pending).tolist() == [moved]
    assert {sent(second, m)[1].next_rebalance_ms for m in ("a", "b", "c")} == {0}


def test_only_receivers_are_called_back_and_later_while_an_owner_does_not_let_go() -> None:
    """Otherwise the whole group would rebalance as fast as it can, for as long as that lasts, and an owner that is slow
    to fetch a plan would find the next rebalance under way each time."""
    members, first = settled((Thread("a", 1), Thread("b", 2), Thread("c", 2)))
    everything_on_process_2 = always(placed([1] * 8))
    second = led(group(*members, generation=2), memory=first.plan.memory, assignors=everything_on_process_2)
    after = (members[0], *(m.after(second) for m in members[1:]))
    again = led(group(*after, generation=3), memory=second.plan.memory, assignors=everything_on_process_2)
    assert np.flatnonzero(again.plan.pending).tolist() == [0, 2, 4, 6]
    waiting = {m: sent(again, m)[1].next_rebalance_ms for m in ("a", "b", "c")}
    assert waiting == {"a": NEVER_MS, "b": again.decided_at_ms + 1_000, "c": NEVER_MS}
    foreign = replace(second.plan.memory, led=False)
    as_in_kafka = led(group(*after, generation=3), memory=foreign, assignors=everything_on_process_2)
    assert {m: sent(as_in_kafka, m)[1].next_rebalance_ms for m in ("a", "b", "c")} == waiting | {"b": 0}


def test_a_task_between_threads_of_one_process_is_pending_too() -> None:
    members, first = settled((Thread("a", 1), Thread("b", 1)))
    other = Assignors(
        round_robin,
        round_robin,
        lambda view, plan: replace(by_turns(view, plan), active=1 - by_turns(view, plan).active),
    )
    second = led(group(*members, generation=2), memory=first.plan.memory, assignors=other)
    assert second.plan.pending.all()
    assert {sent(second, m)[1].next_rebalance_ms for m in ("a", "b")} == {0}


def test_one_partition_of_another_member_makes_pending_the_whole_task() -> None:
    topology = Topology("app", (Subtopology(0, ("b", "z")),), "file")
    members = (
        Thread("a", 1, ("b", "z"), owned=(TopicPartition("b", 0),), generation=4),
        Thread("b", 2, ("b", "z"), owned=(TopicPartition("z", 0),), generation=4),
    )
    decision = led(group(*members, generation=5), topology=topology, counts={"b": 1, "z": 1})
    assert decision.plan.pending.tolist() == [True]
    assert sent(decision, "a")[0] == ()


def test_a_pending_task_keeps_its_open_store_as_a_temporary_standby() -> None:
    configs = AssignmentConfigs(num_standby_replicas=1)
    first = led(group(*TWO), configs=configs)
    members = tuple(m.after(first) for m in TWO)
    promoted = placed([0, 1, 0, 1, 0, 1, 0, 0], [(4, 1), (5, 0), (6, 1), (7, 1)])
    second = led(group(*members, generation=2), memory=first.plan.memory, configs=configs, assignors=always(promoted))
    assert tasks_text(second, "a") == "0_0 0_2 1_0 1_2 | 1_1 1_3"
    assert [second.plan.view.tasks.task_id(t) for _, t in second.plan.temporary.tolist()] == [TaskId(1, 3)]
    # Its old owner keeps its store as a standby at once.
    assert tasks_text(second, "b").endswith("| 1_0 1_2 1_3")


def test_a_pending_task_never_becomes_a_new_standby() -> None:
    members, first = settled()
    swap = placed([0, 1, 0, 1, 0, 1, 0, 0])
    second = led(group(*members, generation=2), memory=first.plan.memory, assignors=always(swap))
    assert len(second.plan.temporary) == 0
    assert sent(second, "a")[1].standby_tasks == ()


def test_host_maps_show_the_target_with_what_is_pending() -> None:
    threads = (Thread("a", 1, endpoint="h:9"), Thread("b", 2, endpoint="http://[::1]:10"))
    members, first = settled(threads)
    swap = placed([0, 1, 0, 1, 0, 1, 0, 0])
    second = led(group(*members, generation=2), memory=first.plan.memory, assignors=always(swap))
    for member in ("a", "b"):
        hosts = dict(sent(second, member)[1].partitions_by_host)
        assert TopicPartition(REPARTITION, 3) in hosts[HostInfo("h", 9)]
        assert TopicPartition(REPARTITION, 3) not in hosts[HostInfo("::1", 10)]


def test_a_deadline_goes_to_the_first_member_of_its_process() -> None:
    plan = replace(placed([0] * 8), deadlines=((0, NOW_MS + 5),))
    decision = led(group(Thread("b", 1), Thread("a", 1), Thread("c", 2)), assignors=always(plan))
    times = {m: sent(decision, m)[1].next_rebalance_ms for m in ("a", "b", "c")}
    assert times == {"a": NOW_MS + 5, "b": NEVER_MS, "c": NEVER_MS}


def test_a_process_that_rejoins_at_once_gets_no_deadline() -> None:
    members, first = settled()
    plan = replace(placed([0, 1, 0, 1, 0, 1, 0, 0]), deadlines=((0, NOW_MS + 5),))
    second = led(group(*members, generation=2), memory=first.plan.memory, assignors=always(plan))
    assert sent(second, "a")[1].next_rebalance_ms == 0


def test_a_zombie_with_an_older_claim_waits_for_the_present_owner() -> None:
    here = (TopicPartition(REPARTITION, 0),)
    members = (Thread("a", 1, owned=here, generation=3), Thread("b", 2, owned=here, generation=4))
    decision = led(group(*members, generation=5), memory=StreamsMemory.empty(), assignors=SIMPLE)
    assert TaskId(1, 0) not in sent(decision, "a")[1].active_tasks
    assert sent(decision, "a")[1].next_rebalance_ms == 0
    assert decision.plan.before[4] == 1
