"""When a leader rebalances for warm-ups and standbys: Kafka's tick, predictions from restore rates, what forbids it."""

from dataclasses import replace

from bellwether_kafka.assignors.streams.application import AssignmentConfigs
from bellwether_kafka.coordinator.triggers import Prober, ProbingFacts, ReportedCopy
from bellwether_kafka.protocol.primitives import ProcessId, TaskId
from tests.kit.streams import NOW_MS, Thread, group, led

EARLY_MAX = 4
EXPECTED = "probe: see which processes have come back, or still run"
MEASURE_MS = 5000
QUIET_MS = 3000
RETRY_MS = 30_000
TOGETHER_MS = 6000

T0 = 1_000_000
TICK = 600_000
P1, P2 = ProcessId(0, 1), ProcessId(0, 2)


def prober(lag: int = 100, standby_lag_max: int | None = None) -> Prober:
    return Prober(lag, TICK, standby_lag_max)


def warmup(position: int, end: int, at_ms: int | None, partition: int = 0, process: ProcessId = P1) -> ReportedCopy:
    return ReportedCopy(TaskId(1, partition), process, True, position, end, at_ms)


def standby(position: int, end: int, at_ms: int | None) -> ReportedCopy:
    return ReportedCopy(TaskId(1, 0), P1, False, position, end, at_ms)


def facts(at_ms: int, *copies: ReportedCopy, pending: bool = True, unsettled: bool = False) -> ProbingFacts:
    return ProbingFacts(at_ms, at_ms + TICK if pending else None, unsettled, copies)


def test_nothing_to_promote_is_nothing_to_probe_for() -> None:
    probe = prober()
    probe.planned(facts(T0, standby(0, 1000, None), pending=False))
    assert probe.next_at_ms is None
    assert probe.due(T0 + 10 * TICK) is None


def test_a_process_that_is_expected_is_waited_for_and_no_copy_makes_it_sooner() -> None:
    probe = prober()
    probe.planned(replace(facts(T0, standby(0, 10_000, None)), promotes=False))
    assert probe.next_at_ms == T0 + TICK
    assert probe.due(T0 + TICK - 1) is None
    assert probe.due(T0 + TICK) == EXPECTED


def test_without_rates_the_second_report_is_fetched_soon_and_then_it_is_known_when() -> None:
    probe = prober(lag=100)
    probe.planned(facts(T0, warmup(0, 10_000, None)))
    assert probe.next_at_ms == T0 + MEASURE_MS
    assert probe.due(T0 + MEASURE_MS - 1) is None
    assert probe.due(T0 + MEASURE_MS) is not None
    # 2,000 records in 10 s: 200 a second; 8,000 - 100 are left: 39.5 s, and a second of margin
    second = T0 + 10_000
    probe.planned(facts(second, warmup(2_000, 10_000, second)))
    assert probe.next_at_ms == second + 39_500 + 1_000
    assert probe.due(second + 40_499) is None
    assert (probe.due(second + 40_500) or "").startswith("early probe")


def test_a_standby_that_is_to_take_over_is_a_warm_up_by_another_name() -> None:
    """Seen in a scale-out: the process that had run the task before was the only other one with a copy, so the new one
    got a plain standby, was ready in seconds and waited for Kafka's tick."""
    probe = prober(lag=100)
    probe.planned(facts(T0, standby(0, 10_000, None)))
    assert probe.next_at_ms == T0 + MEASURE_MS
    second = T0 + 10_000
    probe.planned(facts(second, standby(2_000, 10_000, second)))
    assert probe.next_at_ms == second + 39_500 + 1_000


def test_what_has_caught_up_goes_with_what_is_near_and_does_not_wait_for_what_is_far() -> None:
    second = T0 + 10_000
    # 100 records a second: 89 s more. 725: 3.7 s, and a second of margin.
    for position, waits_ms in ((1_000, QUIET_MS), (7_250, 3_655 + 1_000)):
        probe = prober(lag=100)
        probe.planned(facts(T0, warmup(0, 10_000, None)))
        late, caught_up = warmup(position, 10_000, second), warmup(9_990, 10_000, second, partition=1)
        probe.planned(replace(facts(second, late, caught_up), caught_up=1))
        assert probe.next_at_ms == second + waits_ms
        assert waits_ms <= TOGETHER_MS
        assert (probe.due(second + waits_ms + 1) or "").startswith("next hand-over")


def test_tasks_that_wait_for_their_turn_only_need_no_patience_and_no_early_probes() -> None:
    probe = prober()
    for number in range(EARLY_MAX + 2):
        at_ms = T0 + number * 10_000
        probe.planned(replace(facts(at_ms), deferred=3))
        assert probe.next_at_ms == at_ms + QUIET_MS
        assert (probe.due(at_ms + QUIET_MS) or "").startswith("next moves")
    probe.planned(replace(facts(T0, warmup(0, 10_000, None)), deferred=3))
    assert probe.next_at_ms == T0 + MEASURE_MS, "first the warm-ups that are under way"


def test_a_growing_changelog_is_chased_and_one_that_grows_faster_is_never_caught() -> None:
    probe = prober(lag=100)
    probe.planned(facts(T0, warmup(0, 10_000, None)))
    second = T0 + 10_000
    probe.planned(facts(second, warmup(2_000, 11_000, second)))  # gains 200 - 100 a second
    assert probe.next_at_ms == second + 89_000 + 1_000
    third = second + 10_000
    probe.planned(facts(third, warmup(3_000, 31_000, third)))
    assert probe.next_at_ms == third + TICK


def test_what_was_learned_of_one_warmup_serves_the_next() -> None:
    probe = prober(lag=0)
    probe.planned(facts(T0, warmup(0, 1_000, T0)))
    probe.planned(facts(T0 + 10_000, warmup(1_000, 1_000, T0 + 10_000)))
    third = T0 + 20_000
    probe.planned(facts(third, warmup(0, 2_000, None, partition=5)))
    assert probe.next_at_ms == third + 20_000 + 1_000


def test_warmups_that_are_ready_soon_after_the_first_are_waited_for_and_others_not() -> None:
    probe = prober(lag=0)
    probe.planned(facts(T0, warmup(0, 9_000, T0), warmup(0, 9_000, T0, 1, P2), warmup(0, 9_000, T0, 2)))
    second = T0 + 1_000  # 1,000, 900 and 100 records a second
    probe.planned(
        facts(second, warmup(1_000, 9_000, second), warmup(900, 9_000, second, 1, P2), warmup(100, 9_000, second, 2))
    )
    assert probe.next_at_ms == second + 9_000 + 1_000


def test_early_probes_that_lead_nowhere_are_bounded_and_a_promotion_earns_new_ones() -> None:
    probe, now = prober(lag=0), T0
    early = 0
    for _ in range(EARLY_MAX + 3):
        probe.planned(facts(now, warmup(0, 1_000, None)))
        at_ms = probe.next_at_ms
        assert at_ms is not None
        early += at_ms < now + TICK
        assert probe.due(at_ms) is not None
        now = at_ms + 100
    assert early == EARLY_MAX
    probe.planned(facts(now, warmup(0, 1_000, None, partition=1)))
    assert probe.next_at_ms == now + MEASURE_MS


def test_unknown_lags_are_asked_for_again_soon_but_not_for_ever() -> None:
    probe, now = prober(), T0
    for _ in range(EARLY_MAX):
        probe.planned(replace(facts(now), lags_known=False))
        now += RETRY_MS
        assert probe.due(now) == "probe: see whether lags are known again"
    probe.planned(replace(facts(now), lags_known=False))
    assert probe.next_at_ms == now + TICK


def test_kafkas_tick_comes_even_when_nothing_is_predicted() -> None:
    probe = prober()
    probe.planned(replace(facts(T0, warmup(0, 10_000, None)), probing_at_ms=T0 + 5_000))
    assert (probe.due(T0 + 5_000) or "").startswith("probe")


def test_a_clock_that_is_set_back_keeps_nobody_waiting() -> None:
    """Found by the simulation's clock jumps: probes were due at the old time of day, an hour later."""
    probe = prober()
    probe.planned(facts(T0 + 3_600_000, warmup(0, 10_000, None)))
    assert (probe.due(T0) or "").startswith("probe: the clock")
    probe.planned(facts(T0, warmup(0, 10_000, None)))
    assert probe.due(T0 + QUIET_MS) is None, "the new plan is dated by the new clock"
    probe.planned(facts(T0 + 3_600_000, standby(0, 1000, None), pending=False))
    assert probe.due(T0) is None


def test_an_unsettled_or_just_rebalanced_group_is_left_alone() -> None:
    probe = prober()
    probe.planned(replace(facts(T0, warmup(0, 10_000, None), unsettled=True), probing_at_ms=T0))
    assert probe.due(T0 + TICK) is None
    probe.planned(replace(facts(T0, warmup(0, 10_000, None)), probing_at_ms=T0))
    assert probe.due(T0 + QUIET_MS - 1) is None
    assert probe.due(T0 + QUIET_MS) is not None
    probe.forget()
    assert probe.due(T0 + TICK) is None


def test_a_standby_that_falls_behind_is_reported_once_per_interval() -> None:
    probe = prober(standby_lag_max=500)
    probe.planned(facts(T0, standby(1_000, 1_000, T0), pending=False))
    second = T0 + 60_000
    probe.planned(facts(second, standby(2_000, 2_100, second), pending=False))  # 1,000 a minute
    ends = {TaskId(1, 0): 3_000}
    assert probe.due(second + 60_000, ends) is None  # expected at 3,000: nothing is wrong
    ends = {TaskId(1, 0): 4_000}
    assert "the standby of 1_0" in (probe.due(second + 60_000, ends) or "")
    assert probe.due(second + 61_000, ends) is None
    assert probe.due(second + 60_000 + TICK, ends) is None, "a report this old says nothing"


def test_nothing_is_concluded_from_one_report_or_about_a_copy_known_to_be_behind() -> None:
    probe = prober(standby_lag_max=500)
    probe.planned(facts(T0, standby(1_000, 1_000, T0), pending=False))
    assert probe.due(T0 + 60_000, {TaskId(1, 0): 9_000}) is None
    second = T0 + 60_000
    probe.planned(facts(second, standby(1_000, 2_000, second), pending=False))
    assert probe.due(second + 60_000, {TaskId(1, 0): 9_000}) is None
    assert prober().due(second, {}) is None


def test_facts_come_from_a_decision() -> None:
    threads = (Thread("a", 1), Thread("b", 2, sums={(1, 0): 400}))
    decision = led(group(*threads), configs=AssignmentConfigs(num_standby_replicas=1))
    period = ProbingFacts.of(decision)
    assert (period.decided_at_ms, period.probing_at_ms, period.unsettled) == (NOW_MS, None, False)
    copies = {(c.process_id, c.task): c for c in period.copies}
    lag = copies[P2, TaskId(1, 0)]
    assert (lag.position, lag.end, lag.reported_at_ms, lag.warmup) == (400, 1000, NOW_MS, False)
    nothing = copies[P2, TaskId(1, 2)]
    assert (nothing.position, nothing.reported_at_ms) == (0, None)


def test_an_order_waits_for_its_warm_ups_and_for_no_tick_whatever_rates_say() -> None:
    """Live, five of six tasks were handed over in 0.5 s and the last, a second's work, waited for the tick."""
    probe = prober(lag=100)
    copy = warmup(0, 9_600, None)
    probe.planned(replace(facts(T0, copy), ordered=True))
    assert probe.next_at_ms == T0 + QUIET_MS
    at_ms, waits = T0, []
    for number in range(6):
        due_ms = probe.next_at_ms
        assert due_ms is not None
        waits.append(due_ms - at_ms)
        assert (probe.due(due_ms) or "").startswith("early probe")
        at_ms = due_ms
        # the end grows faster than the copy
        grown = replace(copy, position=10 * (number + 1), end=9_600 + 100_000 * (number + 1), reported_at_ms=at_ms)
        probe.planned(replace(facts(at_ms, grown), ordered=True))
    assert waits == [QUIET_MS * 2**n for n in range(6)], "each after twice the time, and not only EARLY_MAX of them"
