"""A process that restarts and hides its stores at first, as Kafka Streams 4.3 does: what is remembered, what it is for,
and when it ends."""

from dataclasses import replace

import numpy as np
import pytest

from bellwether_kafka.assignors.explain import explain
from bellwether_kafka.assignors.shared import Rule
from bellwether_kafka.assignors.streams import STOCK
from bellwether_kafka.protocol.messages import LATEST_OFFSET
from bellwether_kafka.protocol.primitives import TaskId, TopicPartition
from tests.kit.streams import SHOP, ends_of, led
from tests.unit.assignors.streams.members.hidden_stores import COUNTS, END, Scenario, configs

DIED_MS = 20_000
REJOIN_MS = 500
RETURNING_MS = 5_000
HAND_OVER_MS = 3_000
REMEMBERED_MS = 600_000


def test_what_it_ran_is_kept_for_it_while_others_run_it() -> None:
    scenario = Scenario()
    ran, _ = scenario.stateful("b")
    assert len(ran) == 2
    scenario.restart("b")
    scenario.rebalance()
    active, standby = scenario.stateful("b")
    assert not active, "somebody else has caught up, so nobody waits for a memory"
    assert ran <= standby
    assert scenario.last.plan.target.probing


def test_an_explanation_says_that_it_is_a_memory() -> None:
    scenario = Scenario()
    ran, kept = scenario.stateful("b")
    scenario.restart("b")
    decision = scenario.rebalance()
    task = next(t for t in range(decision.plan.view.tasks.size) if decision.plan.view.tasks.task_id(t) in ran)
    reported = {a.owner: a.verdict for a in explain(decision, task).alternatives}
    mine = next(str(p.process_id) for p in decision.plan.view.processes if "b'" in p.members)
    assert "had it before its restart" in reported[mine]
    copy = next(c for c in decision.plan.copies if str(c.process_id) == mine and c.task in ran)
    assert (copy.lag, copy.age_ms) == (int(decision.plan.view.tasks.end_sum[task]), None), (
        "it has not said how far it is"
    )
    assert all("before its restart" not in verdict for name, verdict in reported.items() if name != mine)
    table = decision.plan.view.tasks
    others = [t for t in np.flatnonzero(table.stateful).tolist() if table.task_id(t) not in ran | kept]
    assert others
    reported_of_others = [a.verdict for t in others for a in explain(decision, t).alternatives if a.owner == mine]
    assert all("before its restart" not in verdict for verdict in reported_of_others)


def test_it_gets_back_what_it_ran_as_soon_as_it_says_that_it_has_it() -> None:
    scenario = Scenario()
    ran, _ = scenario.stateful("b")
    scenario.restart("b")
    scenario.rebalance()
    scenario.rebalance()
    assert scenario.stateful("b")[0] == ran


def test_without_standbys_its_tasks_go_back_at_once() -> None:
    """Nobody else has any state of them, so a memory costs nothing even where it is wrong."""
    scenario = Scenario(standbys=0)
    ran, _ = scenario.stateful("b")
    scenario.restart("b")
    scenario.rebalance()
    assert scenario.stateful("b")[0] == ran
    assert not scenario.last.plan.target.probing


def test_real_state_comes_before_what_is_remembered() -> None:
    scenario = Scenario(standbys=0)
    task = min(scenario.stateful("b")[0])
    scenario.restart("b")
    a = scenario.threads["a"]
    scenario.threads["a"] = replace(a, sums={**a.sums, (task.subtopology, task.partition): 10})
    scenario.rebalance()
    assert task in scenario.stateful("a")[0], "it has next to nothing, but it says so"


def test_a_process_that_comes_back_after_a_rebalance_without_it_is_known_too() -> None:
    scenario = Scenario()
    ran, _ = scenario.stateful("b")
    scenario.rebalance("b")
    scenario.restart("b")
    scenario.now_ms += 60_000
    scenario.rebalance()
    assert ran <= set.union(*scenario.stateful("b"))


def test_what_it_does_not_report_although_it_was_given_is_gone() -> None:
    scenario = Scenario()
    scenario.restart("b")
    scenario.rebalance()
    given = set.union(*scenario.stateful("b"))
    scenario.threads["b"] = replace(scenario.threads["b"], sums={})
    scenario.rebalance()
    record = scenario.last.plan.memory.records[scenario.threads["b"].info.process_id]
    hidden = {TaskId(s, p) for s, p, h in zip(record.subtopology, record.partition, record.hidden, strict=True) if h}
    assert given
    assert not given & hidden
    assert not scenario.last.plan.view.report_hidden.any()


@pytest.mark.parametrize(("away_ms", "remembered"), [(REMEMBERED_MS, True), (REMEMBERED_MS + 1, False)])
def test_it_is_forgotten_when_streams_would_delete_its_state(away_ms: int, remembered: bool) -> None:
    scenario = Scenario(standbys=0)
    scenario.rebalance("b")
    scenario.rebalance("b")
    scenario.now_ms += away_ms
    scenario.restart("b")
    scenario.rebalance()
    assert scenario.last.plan.view.report_hidden.any() == remembered


def test_a_process_with_a_new_id_has_nothing_to_remember() -> None:
    scenario = Scenario()
    scenario.restart("b")
    scenario.threads["b"] = replace(scenario.threads["b"], process=9)
    scenario.rebalance()
    assert not scenario.last.plan.view.report_hidden.any()


def test_nothing_is_remembered_of_a_process_that_goes_on() -> None:
    scenario = Scenario()
    scenario.rebalance()
    assert not scenario.last.plan.view.report_hidden.any()


def test_policy_kafka_decides_as_java_does() -> None:
    """Byte by byte the same with and without a memory."""
    scenario = Scenario(policy="kafka")
    scenario.restart("b")
    scenario.rebalance()
    before = scenario.decisions[-2].plan.memory
    assert not before.records
    with_records = replace(before, records=Scenario().last.plan.memory.records)
    again = led(
        scenario.last.raw,
        counts=COUNTS,
        ends=ends_of(SHOP, COUNTS, END),
        memory=with_records,
        configs=configs(1),
        assignors=STOCK,
        policy="kafka",
    )
    assert with_records.records
    assert again.assignments == scenario.last.assignments


class TestEvacuatedBefore:
    """A planned restart: others took over what it ran, it kept its copies, and stopped."""

    @staticmethod
    def back(scenario: Scenario) -> set[TaskId]:
        """It is in the group again, and has said nothing yet; returns what it ran at first."""
        ran, _ = scenario.stateful("b")
        scenario.rules = (Rule("ban", "*", "member:b"),)
        scenario.rebalance()
        while scenario.last.followup:
            scenario.rebalance()
        assert not scenario.stateful("b")[0]
        scenario.rules = ()
        scenario.rebalance("b")
        while scenario.last.followup or scenario.last.plan.target.probing:
            scenario.rebalance("b")
        scenario.now_ms += HAND_OVER_MS
        scenario.restart("b")
        scenario.rebalance()
        return ran

    def test_it_gets_all_its_copies_at_once_and_then_its_tasks(self) -> None:
        scenario = Scenario(most_warmups=1)
        ran = self.back(scenario)
        assert len(ran) == 2
        active, standby = scenario.stateful("b")
        assert not active, "it has not said yet that it has them"
        assert len(standby) > 2, "one at a time would take two rebalances each"
        assert {scenario.asked_ms(name) for name in "abc"} == {scenario.now_ms + REJOIN_MS}
        scenario.now_ms += REJOIN_MS
        scenario.rebalance()
        assert len(scenario.stateful("b")[0]) == 2

    def test_what_takes_longer_counts_as_a_warm_up_again(self) -> None:
        scenario = Scenario(most_warmups=1)
        self.back(scenario)
        assert scenario.last.plan.view.resumed.any()
        scenario.now_ms += RETURNING_MS + 1
        scenario.threads["b"] = replace(scenario.threads["b"], sums=dict.fromkeys(scenario.threads["b"].sums, 1))
        scenario.rebalance()
        assert scenario.last.plan.target.warmup.sum() <= 1


class TestDiedBefore:
    """It went without an order."""

    @staticmethod
    def back_after(away_ms: int) -> Scenario:
        """It is in the group again."""
        scenario = Scenario(most_warmups=1)
        scenario.rebalance("b")
        scenario.now_ms += away_ms
        scenario.rebalance("b")
        while scenario.last.followup or scenario.last.plan.target.probing:
            scenario.rebalance("b")
        scenario.restart("b")
        scenario.rebalance()
        return scenario

    def test_one_that_is_back_soon_gets_all_its_copies_at_once(self) -> None:
        scenario = self.back_after(DIED_MS - 1)
        assert len(scenario.stateful("b")[1]) == 4
        assert scenario.last.plan.view.resumed.any()

    def test_one_that_is_late_warms_up_as_others_do(self) -> None:
        scenario = self.back_after(DIED_MS)
        assert scenario.last.plan.target.warmup.sum() == 1
        assert not scenario.last.plan.view.resumed.any()


class TestPromises:
    """What the last plan left pending for a process."""

    def promised(self) -> tuple[Scenario, set[TaskId]]:
        """A scenario in which b was promised what it ran before its restart, and a and c have let go of it."""
        scenario = Scenario()
        ran, _ = scenario.stateful("b")
        scenario.restart("b")
        scenario.rebalance()
        scenario.rebalance()
        assert scenario.last.followup
        assert scenario.stateful("b")[0] == ran
        for name in "ac":
            sums = scenario.threads[name].sums
            scenario.threads[name] = replace(
                scenario.threads[name], sums={t: END if TaskId(*t) in ran else v for t, v in sums.items()}
            )
        return scenario, ran

    def test_are_kept_where_the_changelog_has_grown_meanwhile(self) -> None:
        scenario, ran = self.promised()
        b = scenario.threads["b"]
        late = {t: END - 1_000 if TaskId(*t) in ran else v for t, v in b.sums.items()}
        scenario.threads["b"] = replace(b, sums=late)
        scenario.rebalance()
        assert scenario.stateful("b")[0] == ran
        assert not scenario.last.followup
        assert scenario.last.moves.moved == 0

    def test_are_not_kept_where_the_state_is_gone(self) -> None:
        scenario, ran = self.promised()
        b = scenario.threads["b"]
        scenario.threads["b"] = replace(b, sums={t: v for t, v in b.sums.items() if TaskId(*t) not in ran})
        scenario.rebalance()
        assert not ran & scenario.stateful("b")[0]

    def test_are_not_kept_beside_who_runs_the_task(self) -> None:
        """Its owner has not let go of it."""
        scenario, ran = self.promised()
        late = {t: END - 1_000 if TaskId(*t) in ran else v for t, v in scenario.threads["b"].sums.items()}
        scenario.threads["b"] = replace(scenario.threads["b"], sums=late)
        task = min(ran)
        a = scenario.threads["a"]
        owned = (*a.owned, TopicPartition(SHOP.subtopologies[1].sources[0], task.partition))
        sums = {**a.sums, (task.subtopology, task.partition): LATEST_OFFSET}
        scenario.threads["a"] = replace(a, sums=sums, owned=owned, generation=-1)
        scenario.rebalance()
        assert task not in scenario.stateful("b")[0]
