"""A process that returns: when it is asked whether it has its stores, and stores that are known to last."""

from dataclasses import replace

from bellwether_kafka.protocol.messages import NEVER_MS
from bellwether_kafka.protocol.primitives import TaskId
from tests.kit.streams import Thread
from tests.unit.assignors.streams.members.hidden_stores import END, Scenario

REJOIN_MS = 500
RETURNING_MS = 5_000


class TestAskingAgain:
    """Everybody is called soon after a restart, so that the process can say what it has."""

    def test_soon_and_all_at_the_same_time(self) -> None:
        scenario = Scenario()
        scenario.restart("b")
        scenario.rebalance()
        assert {scenario.asked_ms(name) for name in "abc"} == {scenario.now_ms + REJOIN_MS}

    def test_each_time_later_until_it_counts_as_slow(self) -> None:
        scenario = Scenario()
        scenario.restart("b")
        scenario.rebalance()
        asked = []
        for _ in range(9):
            at_ms = scenario.asked_ms("b")
            if at_ms == NEVER_MS:
                break
            asked.append(at_ms - scenario.now_ms)
            scenario.now_ms = at_ms
            behind = dict.fromkeys(scenario.threads["b"].sums, END - 1_000)
            scenario.threads["b"] = replace(scenario.threads["b"], sums=behind)
            scenario.rebalance()
        assert asked == [500, 500, 1000, 2000, 4000]
        assert sum(asked) <= 2 * RETURNING_MS

    def test_not_again_where_it_has_more_than_half_to_restore(self) -> None:
        """Its disk was wiped: rates show when it will have caught up, and each sample costs a rebalance."""
        scenario = Scenario()
        scenario.restart("b")
        scenario.rebalance()
        assert scenario.asked_ms("b") == scenario.now_ms + REJOIN_MS
        scenario.now_ms += REJOIN_MS
        scenario.threads["b"] = replace(
            scenario.threads["b"], sums=dict.fromkeys(scenario.threads["b"].sums, END // 2 - 1)
        )
        scenario.rebalance()
        assert scenario.last.plan.target.probing
        assert scenario.asked_ms("b") == NEVER_MS

    def test_not_where_nothing_waits_for_it(self) -> None:
        scenario = Scenario(standbys=0)
        scenario.restart("b")
        scenario.rebalance()
        assert {scenario.asked_ms(name) for name in "abc"} == {NEVER_MS}

    def test_no_longer_where_the_clock_has_been_set_back(self) -> None:
        """It was asked twice a second until the clock was again where it had been."""
        scenario = Scenario()
        scenario.restart("b")
        scenario.rebalance()
        scenario.now_ms -= 3_600_000
        began_ms = scenario.now_ms
        for _ in range(40):
            behind = dict.fromkeys(scenario.threads["b"].sums, END - 1_000)
            scenario.threads["b"] = replace(scenario.threads["b"], sums=behind)
            scenario.rebalance()
            if scenario.asked_ms("b") == NEVER_MS:
                break
            scenario.now_ms = scenario.asked_ms("b")
        assert scenario.now_ms - began_ms <= 2 * RETURNING_MS

    def test_not_for_a_process_that_is_new(self) -> None:
        scenario = Scenario()
        scenario.threads["d"] = Thread("d", 4)
        scenario.rebalance()
        assert scenario.last.plan.target.probing
        assert scenario.asked_ms("d") in (0, NEVER_MS)

    def test_who_gets_a_pending_task_comes_at_once_all_the_same(self) -> None:
        scenario = Scenario()
        scenario.restart("b")
        scenario.rebalance()
        scenario.rebalance()
        assert scenario.last.followup
        assert {scenario.asked_ms(name) for name in "abc"} == {0}


class TestDurableStores:
    """What a process ran when it stopped, and nobody has run since, is its own at once."""

    def restarted(self) -> tuple[Scenario, set[TaskId]]:
        scenario = Scenario(durable=True)
        ran, _ = scenario.stateful("b")
        assert ran
        scenario.restart("b")
        scenario.rebalance()
        return scenario, ran

    def test_it_has_its_tasks_back_in_the_rebalance_in_which_it_returns(self) -> None:
        scenario, ran = self.restarted()
        assert scenario.stateful("b")[0] == ran
        assert not scenario.last.followup
        assert scenario.last.moves.moved == 0

    def test_it_is_asked_soon_whether_it_really_has_them(self) -> None:
        scenario, ran = self.restarted()
        assert {scenario.asked_ms(name) for name in "abc"} == {scenario.now_ms + REJOIN_MS}
        scenario.now_ms += REJOIN_MS
        scenario.rebalance()
        assert scenario.stateful("b")[0] == ran
        assert {scenario.asked_ms(name) for name in "abc"} == {NEVER_MS}, "it runs them, so that is that"

    def test_where_it_is_far_behind_after_all_they_go_to_who_has_caught_up(self) -> None:
        scenario, ran = self.restarted()
        scenario.now_ms += REJOIN_MS
        b = scenario.threads["b"]
        scenario.threads["b"] = replace(b, sums={**b.sums, **{(t.subtopology, t.partition): 10 for t in ran}})
        scenario.rebalance()
        assert not ran & scenario.stateful("b")[0]
        assert ran <= scenario.stateful("b")[1], "and it restores them meanwhile"

    def test_a_store_that_is_not_open_yet_is_waited_for_but_not_for_long(self) -> None:
        scenario, ran = self.restarted()
        silent = {t: v for t, v in scenario.threads["b"].sums.items() if TaskId(*t) not in ran}
        began_ms = scenario.now_ms
        while scenario.stateful("b")[0] == ran:
            scenario.now_ms = scenario.asked_ms("b")
            assert scenario.now_ms - began_ms <= 2 * RETURNING_MS
            scenario.threads["b"] = replace(scenario.threads["b"], sums=silent)
            scenario.rebalance()
        assert scenario.now_ms - began_ms > RETURNING_MS

    def test_what_it_was_only_promised_is_not_trusted(self) -> None:
        scenario = Scenario()
        scenario.restart("b")
        scenario.rebalance()
        scenario.rebalance()
        assert scenario.last.followup, "its tasks are still with those that helped out"
        scenario.durable = True
        scenario.restart("b")
        scenario.rebalance()
        assert not scenario.stateful("b")[0]

    def test_nor_what_others_have_run_meanwhile(self) -> None:
        scenario = Scenario(durable=True)
        ran, _ = scenario.stateful("b")
        scenario.rebalance("b")
        scenario.restart("b")
        scenario.rebalance()
        assert not ran & scenario.stateful("b")[0]
