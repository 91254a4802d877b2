"""Threads that are removed so that Bellwether leads, and what their successors have back."""

from dataclasses import replace

import pytest

from bellwether_kafka.assignors.shared.group import AssignedMember
from bellwether_kafka.assignors.streams.members.memory import recall_streams
from bellwether_kafka.protocol.messages.streams_subscription import LATEST_OFFSET
from tests.unit.assignors.streams.members.test_hidden_state import NEAR, Story
from tests.unit.assignors.streams.world import Thread


class TestRemovedThreads:
    """Who takes the lead removes the leader's thread, and sometimes the next one's: the threads that come back in their
    place report what they have on disk, often less than the standbys of others."""

    def adopted(self, story: Story) -> None:
        """The memory is what the group's description told."""
        members = [
            AssignedMember(m.member_id, m.instance_id, m.metadata, dict(story.last.assignments)[m.member_id])
            for m in story.last.raw.others
        ]
        memory = recall_streams(-1, "stream", story.last.cluster, members)
        story.decisions[-1] = replace(story.last, plan=replace(story.last.plan, memory=memory))

    def removed(self, story: Story, names: str) -> None:
        """Their checkpoints are a little behind what they ran, and more so than everybody's standbys are."""
        for name, thread in story.threads.items():
            behind = NEAR if name not in names else NEAR - 50
            sums = {task: behind if value == LATEST_OFFSET else NEAR for task, value in thread.sums.items()}
            if name in names:
                story.threads[name] = Thread(f"{thread.member_id}'", thread.process, sums=sums)

    @pytest.mark.parametrize("names", ["b", "bc", "abc"])
    @pytest.mark.parametrize("adopted", [True, False])
    def test_have_back_what_they_ran(self, names: str, adopted: bool) -> None:
        story = Story(durable=True)
        before = {name: story.stateful(name)[0] for name in "abc"}
        if adopted:
            self.adopted(story)
        self.removed(story, names)
        story.round()
        assert {name: story.stateful(name)[0] for name in "abc"} == before
        assert not story.last.followup

    @pytest.mark.parametrize("adopted", [True, False])
    def test_one_thread_of_a_process_that_goes_on(self, adopted: bool) -> None:
        threads = {name: Thread(name, process) for name, process in (("a", 1), ("b", 2), ("c", 2), ("d", 3))}
        story = Story(threads=threads)
        before = {process: story.stateful(name)[0] for process, name in ((1, "a"), (2, "b"), (3, "d"))}
        if adopted:
            self.adopted(story)
        self.removed(story, "ab")
        story.round()
        assert {process: story.stateful(name)[0] for process, name in ((1, "a"), (2, "c"), (3, "d"))} == before

    def test_not_where_they_are_too_far_behind(self) -> None:
        story = Story(durable=True)
        ran, _ = story.stateful("b")
        self.adopted(story)
        self.removed(story, "b")
        b = story.threads["b"]
        story.threads["b"] = replace(b, sums={**b.sums, **{(t.subtopology, t.partition): 10 for t in ran}})
        story.round()
        assert not ran & story.stateful("b")[0]
