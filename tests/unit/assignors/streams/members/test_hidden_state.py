"""A process that restarts and hides its stores at first, as Kafka Streams 4.3 does: what is remembered, what it is for,
and when it ends."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from bellwether_kafka.assignors.explain.explanation import explain
from bellwether_kafka.assignors.shared.decision import Decision
from bellwether_kafka.assignors.shared.rules import Rule
from bellwether_kafka.assignors.streams.application.model import AssignmentConfigs
from bellwether_kafka.assignors.streams.decide import STOCK, stock
from bellwether_kafka.assignors.streams.members.expected import DIED_MS
from bellwether_kafka.assignors.streams.members.hidden_state import ASK_MS, REMEMBERED_MS, RETURNING_MS
from bellwether_kafka.assignors.streams.members.memory import HAND_OVER_MS
from bellwether_kafka.assignors.streams.plan import TaskPlan
from bellwether_kafka.assignors.streams.policies.assign import KAFKA, STREAMS_HA
from bellwether_kafka.assignors.streams.stages.configs import StageConfigs
from bellwether_kafka.protocol.messages.streams_assignment import NEVER_MS
from bellwether_kafka.protocol.messages.streams_subscription import LATEST_OFFSET
from bellwether_kafka.protocol.primitives.types import TaskId, TopicPartition
from tests.unit.assignors.streams.world import NOW_MS, SHOP, Thread, ends_of, group, led, sent

COUNTS = {"orders": 6, "shop-by-user-repartition": 6, "shop-totals-changelog": 6}
END = 5_000
NEAR = END - 10
NOTHING: Mapping[tuple[int, int], int] = {}


def configs(standbys: int) -> AssignmentConfigs:
    return AssignmentConfigs(acceptable_recovery_lag=100, num_standby_replicas=standbys)


@dataclass
class Story:
    """Three processes, one thread each, that have come to rest; rounds are appended as they are decided."""

    standbys: int = 1
    policy: str = STREAMS_HA
    durable: bool = False
    rules: tuple[Rule, ...] = ()
    most_warmups: int = 2
    now_ms: int = NOW_MS
    threads: dict[str, Thread] = field(default_factory=lambda: {n: Thread(n, i) for i, n in enumerate("abc", start=1)})
    decisions: list[Decision[TaskPlan]] = field(default_factory=list)

    def __post_init__(self) -> None:
        while not self.decisions or self.last.followup or self.last.plan.target.probing:
            self.round()

    @property
    def last(self) -> Decision[TaskPlan]:
        return self.decisions[-1]

    def round(self, *absent: str) -> Decision[TaskPlan]:
        here = [t for name, t in self.threads.items() if name not in absent]
        decision = led(
            group(*here, generation=len(self.decisions) + 1),
            counts=COUNTS,
            ends=ends_of(SHOP, COUNTS, END),
            memory=self.last.plan.memory if self.decisions else None,
            configs=replace(configs(self.standbys), max_warmup_replicas=self.most_warmups),
            assignors=stock(StageConfigs(rules=self.rules), durable=self.durable),
            policy=self.policy,
            now_ms=self.now_ms,
        )
        self.decisions.append(decision)
        for name, thread in self.threads.items():
            if name not in absent:
                kept = {task: NEAR for task, value in thread.after(decision).sums.items() if value >= 0}
                self.threads[name] = replace(thread.after(decision), sums=thread.after(decision).sums | kept)
        return decision

    def restart(self, name: str, sums: Mapping[tuple[int, int], int] = NOTHING) -> None:
        """The same process under a new member id; it owns nothing and reports no more than `sums`."""
        old = self.threads[name]
        self.threads[name] = Thread(f"{old.member_id}'", old.process, sums=sums)

    def stateful(self, name: str) -> tuple[set[TaskId], set[TaskId]]:
        """(active, standby) stateful tasks that the plan means for this process."""
        plan, view = self.last.plan, self.last.plan.view
        process = next(p for p, v in enumerate(view.processes) if self.threads[name].member_id in v.members)
        active = {view.tasks.task_id(t) for t, p in enumerate(plan.target.active.tolist()) if p == process}
        standby = {
            view.tasks.task_id(t) for t in plan.target.standby_task[plan.target.standby_process == process].tolist()
        }
        return {t for t in active if t.subtopology == 1}, standby

    def asked_ms(self, name: str) -> int:
        return sent(self.last, self.threads[name].member_id)[1].next_rebalance_ms


def test_what_it_ran_is_kept_for_it_while_others_run_it() -> None:
    story = Story()
    ran, _ = story.stateful("b")
    assert len(ran) == 2
    story.restart("b")
    story.round()
    active, standby = story.stateful("b")
    assert not active, "somebody else has caught up, so nobody waits for a memory"
    assert ran <= standby
    assert story.last.plan.target.probing


def test_an_explanation_says_that_it_is_a_memory() -> None:
    story = Story()
    ran, kept = story.stateful("b")
    story.restart("b")
    decision = story.round()
    task = next(t for t in range(decision.plan.view.tasks.size) if decision.plan.view.tasks.task_id(t) in ran)
    told = {a.owner: a.verdict for a in explain(decision, task).alternatives}
    mine = next(str(p.process_id) for p in decision.plan.view.processes if "b'" in p.members)
    assert "had it before its restart" in told[mine]
    copy = next(c for c in decision.plan.copies if str(c.process_id) == mine and c.task in ran)
    assert (copy.lag, copy.age_ms) == (int(decision.plan.view.tasks.end_sum[task]), None), (
        "it has not said how far it is"
    )
    assert all("before its restart" not in verdict for name, verdict in told.items() if name != mine)
    table = decision.plan.view.tasks
    others = [t for t in np.flatnonzero(table.stateful).tolist() if table.task_id(t) not in ran | kept]
    assert others
    told_of_others = [a.verdict for t in others for a in explain(decision, t).alternatives if a.owner == mine]
    assert all("before its restart" not in verdict for verdict in told_of_others)


def test_it_gets_back_what_it_ran_as_soon_as_it_says_that_it_has_it() -> None:
    story = Story()
    ran, _ = story.stateful("b")
    story.restart("b")
    story.round()
    story.round()
    assert story.stateful("b")[0] == ran


def test_without_standbys_its_tasks_go_back_at_once() -> None:
    """Nobody else has any state of them, so a memory costs nothing even where it is wrong."""
    story = Story(standbys=0)
    ran, _ = story.stateful("b")
    story.restart("b")
    story.round()
    assert story.stateful("b")[0] == ran
    assert not story.last.plan.target.probing


def test_real_state_comes_before_what_is_remembered() -> None:
    story = Story(standbys=0)
    task = min(story.stateful("b")[0])
    story.restart("b")
    a = story.threads["a"]
    story.threads["a"] = replace(a, sums={**a.sums, (task.subtopology, task.partition): 10})
    story.round()
    assert task in story.stateful("a")[0], "it has next to nothing, but it says so"


def test_a_process_that_comes_back_after_a_round_without_it_is_known_too() -> None:
    story = Story()
    ran, _ = story.stateful("b")
    story.round("b")
    story.restart("b")
    story.now_ms += 60_000
    story.round()
    assert ran <= set.union(*story.stateful("b"))


def test_what_it_does_not_report_although_it_was_given_is_gone() -> None:
    story = Story()
    story.restart("b")
    story.round()
    given = set.union(*story.stateful("b"))
    story.threads["b"] = replace(story.threads["b"], sums={})
    story.round()
    held = story.last.plan.memory.held[story.threads["b"].info.process_id]
    hidden = {TaskId(s, p) for s, p, h in zip(held.subtopology, held.partition, held.hidden, strict=True) if h}
    assert given
    assert not given & hidden
    assert not story.last.plan.view.report_hidden.any()


@pytest.mark.parametrize(("away_ms", "remembered"), [(REMEMBERED_MS, True), (REMEMBERED_MS + 1, False)])
def test_it_is_forgotten_when_streams_would_delete_its_state(away_ms: int, remembered: bool) -> None:
    story = Story(standbys=0)
    story.round("b")
    story.round("b")
    story.now_ms += away_ms
    story.restart("b")
    story.round()
    assert story.last.plan.view.report_hidden.any() == remembered


def test_a_process_with_a_new_id_has_nothing_to_remember() -> None:
    story = Story()
    story.restart("b")
    story.threads["b"] = replace(story.threads["b"], process=9)
    story.round()
    assert not story.last.plan.view.report_hidden.any()


def test_nothing_is_remembered_of_a_process_that_goes_on() -> None:
    story = Story()
    story.round()
    assert not story.last.plan.view.report_hidden.any()


def test_policy_kafka_decides_as_java_does() -> None:
    """Byte by byte the same with and without a memory."""
    story = Story(policy=KAFKA)
    story.restart("b")
    story.round()
    before = story.decisions[-2].plan.memory
    assert not before.held
    with_held = replace(before, held=Story().last.plan.memory.held)
    again = led(
        story.last.raw,
        counts=COUNTS,
        ends=ends_of(SHOP, COUNTS, END),
        memory=with_held,
        configs=configs(1),
        assignors=STOCK,
        policy=KAFKA,
    )
    assert with_held.held
    assert again.assignments == story.last.assignments


class TestEmptiedBefore:
    """A planned restart: others took over what it ran, it kept its copies, and stopped."""

    @staticmethod
    def back(story: Story) -> set[TaskId]:
        """It is in the group again, and has said nothing yet; returns what it ran at first."""
        ran, _ = story.stateful("b")
        story.rules = (Rule("ban", "*", "member:b"),)
        story.round()
        while story.last.followup:
            story.round()
        assert not story.stateful("b")[0]
        story.rules = ()
        story.round("b")
        while story.last.followup or story.last.plan.target.probing:
            story.round("b")
        story.now_ms += HAND_OVER_MS
        story.restart("b")
        story.round()
        return ran

    def test_it_gets_all_its_copies_at_once_and_then_its_tasks(self) -> None:
        story = Story(most_warmups=1)
        ran = self.back(story)
        assert len(ran) == 2
        active, standby = story.stateful("b")
        assert not active, "it has not said yet that it has them"
        assert len(standby) > 2, "one at a time would take two rebalances each"
        assert {story.asked_ms(name) for name in "abc"} == {story.now_ms + ASK_MS}
        story.now_ms += ASK_MS
        story.round()
        assert len(story.stateful("b")[0]) == 2

    def test_what_takes_longer_counts_as_a_warm_up_again(self) -> None:
        story = Story(most_warmups=1)
        self.back(story)
        assert story.last.plan.view.resumed.any()
        story.now_ms += RETURNING_MS + 1
        story.threads["b"] = replace(story.threads["b"], sums=dict.fromkeys(story.threads["b"].sums, 1))
        story.round()
        assert story.last.plan.target.warmup.sum() <= 1


class TestDiedBefore:
    """It went without an order."""

    @staticmethod
    def back_after(away_ms: int) -> Story:
        """It is in the group again."""
        story = Story(most_warmups=1)
        story.round("b")
        story.now_ms += away_ms
        story.round("b")
        while story.last.followup or story.last.plan.target.probing:
            story.round("b")
        story.restart("b")
        story.round()
        return story

    def test_one_that_is_back_soon_gets_all_its_copies_at_once(self) -> None:
        story = self.back_after(DIED_MS - 1)
        assert len(story.stateful("b")[1]) == 4
        assert story.last.plan.view.resumed.any()

    def test_one_that_is_late_warms_up_as_others_do(self) -> None:
        story = self.back_after(DIED_MS)
        assert story.last.plan.target.warmup.sum() == 1
        assert not story.last.plan.view.resumed.any()


class TestAskingAgain:
    """Everybody is called soon after a restart, so that the process can say what it has."""

    def test_soon_and_all_at_the_same_time(self) -> None:
        story = Story()
        story.restart("b")
        story.round()
        assert {story.asked_ms(name) for name in "abc"} == {story.now_ms + ASK_MS}

    def test_each_time_later_until_it_counts_as_slow(self) -> None:
        story = Story()
        story.restart("b")
        story.round()
        asked = []
        for _ in range(9):
            at_ms = story.asked_ms("b")
            if at_ms == NEVER_MS:
                break
            asked.append(at_ms - story.now_ms)
            story.now_ms = at_ms
            behind = dict.fromkeys(story.threads["b"].sums, END - 1_000)
            story.threads["b"] = replace(story.threads["b"], sums=behind)
            story.round()
        assert asked == [500, 500, 1000, 2000, 4000]
        assert sum(asked) <= 2 * RETURNING_MS

    def test_not_again_where_it_has_more_than_half_to_restore(self) -> None:
        """Its disk was wiped: rates tell when it will have caught up, and each look costs a rebalance."""
        story = Story()
        story.restart("b")
        story.round()
        assert story.asked_ms("b") == story.now_ms + ASK_MS
        story.now_ms += ASK_MS
        story.threads["b"] = replace(story.threads["b"], sums=dict.fromkeys(story.threads["b"].sums, END // 2 - 1))
        story.round()
        assert story.last.plan.target.probing
        assert story.asked_ms("b") == NEVER_MS

    def test_not_where_nothing_waits_for_it(self) -> None:
        story = Story(standbys=0)
        story.restart("b")
        story.round()
        assert {story.asked_ms(name) for name in "abc"} == {NEVER_MS}

    def test_no_longer_where_the_clock_has_been_set_back(self) -> None:
        """It was asked twice a second until the clock was again where it had been."""
        story = Story()
        story.restart("b")
        story.round()
        story.now_ms -= 3_600_000
        began_ms = story.now_ms
        for _ in range(40):
            behind = dict.fromkeys(story.threads["b"].sums, END - 1_000)
            story.threads["b"] = replace(story.threads["b"], sums=behind)
            story.round()
            if story.asked_ms("b") == NEVER_MS:
                break
            story.now_ms = story.asked_ms("b")
        assert story.now_ms - began_ms <= 2 * RETURNING_MS

    def test_not_for_a_process_that_is_new(self) -> None:
        story = Story()
        story.threads["d"] = Thread("d", 4)
        story.round()
        assert story.last.plan.target.probing
        assert story.asked_ms("d") in (0, NEVER_MS)

    def test_who_gets_a_withheld_task_comes_at_once_all_the_same(self) -> None:
        story = Story()
        story.restart("b")
        story.round()
        story.round()
        assert story.last.followup
        assert {story.asked_ms(name) for name in "abc"} == {0}


class TestPromises:
    """What the last plan withheld for a process."""

    def promised(self) -> tuple[Story, set[TaskId]]:
        """A story in which b was promised what it ran before its restart, and a and c have let go of it."""
        story = Story()
        ran, _ = story.stateful("b")
        story.restart("b")
        story.round()
        story.round()
        assert story.last.followup
        assert story.stateful("b")[0] == ran
        for name in "ac":
            sums = story.threads[name].sums
            story.threads[name] = replace(
                story.threads[name], sums={t: END if TaskId(*t) in ran else v for t, v in sums.items()}
            )
        return story, ran

    def test_are_kept_where_the_changelog_has_grown_meanwhile(self) -> None:
        story, ran = self.promised()
        b = story.threads["b"]
        late = {t: END - 1_000 if TaskId(*t) in ran else v for t, v in b.sums.items()}
        story.threads["b"] = replace(b, sums=late)
        story.round()
        assert story.stateful("b")[0] == ran
        assert not story.last.followup
        assert story.last.moves.moved == 0

    def test_are_not_kept_where_the_state_is_gone(self) -> None:
        story, ran = self.promised()
        b = story.threads["b"]
        story.threads["b"] = replace(b, sums={t: v for t, v in b.sums.items() if TaskId(*t) not in ran})
        story.round()
        assert not ran & story.stateful("b")[0]

    def test_are_not_kept_beside_who_runs_the_task(self) -> None:
        """Its owner has not let go of it."""
        story, ran = self.promised()
        late = {t: END - 1_000 if TaskId(*t) in ran else v for t, v in story.threads["b"].sums.items()}
        story.threads["b"] = replace(story.threads["b"], sums=late)
        task = min(ran)
        a = story.threads["a"]
        owned = (*a.owned, TopicPartition(SHOP.subtopologies[1].sources[0], task.partition))
        sums = {**a.sums, (task.subtopology, task.partition): LATEST_OFFSET}
        story.threads["a"] = replace(a, sums=sums, owned=owned, generation=-1)
        story.round()
        assert task not in story.stateful("b")[0]


class TestDurableStores:
    """What a process ran when it stopped, and nobody has run since, is its own at once."""

    def restarted(self) -> tuple[Story, set[TaskId]]:
        story = Story(durable=True)
        ran, _ = story.stateful("b")
        assert ran
        story.restart("b")
        story.round()
        return story, ran

    def test_it_has_its_tasks_back_in_the_round_in_which_it_returns(self) -> None:
        story, ran = self.restarted()
        assert story.stateful("b")[0] == ran
        assert not story.last.followup
        assert story.last.moves.moved == 0

    def test_it_is_asked_soon_whether_it_really_has_them(self) -> None:
        story, ran = self.restarted()
        assert {story.asked_ms(name) for name in "abc"} == {story.now_ms + ASK_MS}
        story.now_ms += ASK_MS
        story.round()
        assert story.stateful("b")[0] == ran
        assert {story.asked_ms(name) for name in "abc"} == {NEVER_MS}, "it runs them, so that is that"

    def test_where_it_is_far_behind_after_all_they_go_to_who_has_caught_up(self) -> None:
        story, ran = self.restarted()
        story.now_ms += ASK_MS
        b = story.threads["b"]
        story.threads["b"] = replace(b, sums={**b.sums, **{(t.subtopology, t.partition): 10 for t in ran}})
        story.round()
        assert not ran & story.stateful("b")[0]
        assert ran <= story.stateful("b")[1], "and it restores them meanwhile"

    def test_a_store_that_is_not_open_yet_is_waited_for_but_not_for_long(self) -> None:
        story, ran = self.restarted()
        silent = {t: v for t, v in story.threads["b"].sums.items() if TaskId(*t) not in ran}
        began_ms = story.now_ms
        while story.stateful("b")[0] == ran:
            story.now_ms = story.asked_ms("b")
            assert story.now_ms - began_ms <= 2 * RETURNING_MS
            story.threads["b"] = replace(story.threads["b"], sums=silent)
            story.round()
        assert story.now_ms - began_ms > RETURNING_MS

    def test_what_it_was_only_promised_is_not_trusted(self) -> None:
        story = Story()
        story.restart("b")
        story.round()
        story.round()
        assert story.last.followup, "its tasks are still with those that helped out"
        story.durable = True
        story.restart("b")
        story.round()
        assert not story.stateful("b")[0]

    def test_nor_what_others_have_run_meanwhile(self) -> None:
        story = Story(durable=True)
        ran, _ = story.stateful("b")
        story.round("b")
        story.restart("b")
        story.round()
        assert not ran & story.stateful("b")[0]
