"""Threads that are removed so that Bellwether leads, and what their successors have back."""

from dataclasses import replace

import pytest

from bellwether_kafka.assignors.shared import AssignedMember
from bellwether_kafka.assignors.streams.members import recall_streams
from bellwether_kafka.protocol.messages import LATEST_OFFSET
from tests.kit.streams import Thread
from tests.unit.assignors.streams.members.hidden_stores import NEAR, Scenario


class TestRemovedThreads:
    """Who takes the lead removes the leader's thread, and sometimes the next one's: the threads that come back in their
    place report what they have on disk, often less than the standbys of others."""

    def adopted(self, scenario: Scenario) -> None:
        """The memory is what the group's description showed."""
        members = [
            AssignedMember(m.member_id, m.instance_id, m.metadata, dict(scenario.last.assignments)[m.member_id])
            for m in scenario.last.raw.others
        ]
        memory = recall_streams(-1, "stream", scenario.last.cluster, members)
        scenario.decisions[-1] = replace(scenario.last, plan=replace(scenario.last.plan, memory=memory))

    def removed(self, scenario: Scenario, names: str) -> None:
        """Their checkpoints are a little behind what they ran, and more so than everybody's standbys are."""
        for name, thread in scenario.threads.items():
            behind = NEAR if name not in names else NEAR - 50
            sums = {task: behind if value == LATEST_OFFSET else NEAR for task, value in thread.sums.items()}
            if name in names:
                scenario.threads[name] = Thread(f"{thread.member_id}'", thread.process, sums=sums)

    @pytest.mark.parametrize("names", ["b", "bc", "abc"])
    @pytest.mark.parametrize("adopted", [True, False])
    def test_have_back_what_they_ran(self, names: str, adopted: bool) -> None:
        scenario = Scenario(durable=True)
        before = {name: scenario.stateful(name)[0] for name in "abc"}
        if adopted:
            self.adopted(scenario)
        self.removed(scenario, names)
        scenario.rebalance()
        assert {name: scenario.stateful(name)[0] for name in "abc"} == before
        assert not scenario.last.followup

    @pytest.mark.parametrize("adopted", [True, False])
    def test_one_thread_of_a_process_that_goes_on(self, adopted: bool) -> None:
        threads = {name: Thread(name, process) for name, process in (("a", 1), ("b", 2), ("c", 2), ("d", 3))}
        scenario = Scenario(threads=threads)
        before = {process: scenario.stateful(name)[0] for process, name in ((1, "a"), (2, "b"), (3, "d"))}
        if adopted:
            self.adopted(scenario)
        self.removed(scenario, "ab")
        scenario.rebalance()
        assert {process: scenario.stateful(name)[0] for process, name in ((1, "a"), (2, "c"), (3, "d"))} == before

    def test_not_where_they_are_too_far_behind(self) -> None:
        scenario = Scenario(durable=True)
        ran, _ = scenario.stateful("b")
        self.adopted(scenario)
        self.removed(scenario, "b")
        b = scenario.threads["b"]
        scenario.threads["b"] = replace(b, sums={**b.sums, **{(t.subtopology, t.partition): 10 for t in ran}})
        scenario.rebalance()
        assert not ran & scenario.stateful("b")[0]
