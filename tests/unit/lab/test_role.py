"""What counts as a report that is not true."""

from dataclasses import asdict, replace

from bellwether_kafka.coordinator.membership import NotLeading, Role
from bellwether_kafka.coordinator.observation import Group, role_status
from tests.lab.role import Comparison, Reported, Shown, from_api, from_metrics

LEADS, WATCHES = Reported(leading=True, reason=""), Reported(leading=False, reason="fenced")


def compared(*refreshes: tuple[float, Reported | None, bool]) -> Comparison:
    comparison = Comparison()
    for at_s, message, leads in refreshes:
        comparison.add(at_s, "/metrics", "orders", message, leads=leads)
    return comparison


def test_a_report_may_be_late_by_two_heartbeats() -> None:
    comparison = compared((0, LEADS, False), (1, LEADS, False), (2, LEADS, False), (3, WATCHES, False))
    assert (comparison.differences, comparison.durations.longest_s) == ([], 2)


def test_a_report_that_stays_wrong_is_counted_once() -> None:
    comparison = compared(*((second, LEADS, False) for second in range(6)))
    assert len(comparison.differences) == 1
    assert comparison.durations.longest_s == 5


def test_it_is_counted_again_after_it_was_right() -> None:
    wrong = [(float(second), WATCHES, True) for second in range(4)]
    again = [(at + 10, message, leads) for at, message, leads in wrong]
    assert len(compared(*wrong, (5, LEADS, True), *again).differences) == 2


def test_a_group_that_is_not_named_is_reported_as_not_led() -> None:
    assert compared((0, None, False), (9, None, False)).differences == []
    assert len(compared((0, None, True), (9, None, True)).differences) == 1


def test_a_process_that_is_away_says_nothing() -> None:
    comparison = compared((0, LEADS, False))
    comparison.durations.forget()
    comparison.add(5, "/metrics", "orders", LEADS, leads=False)
    assert comparison.differences == []


def test_bellwether_leads_as_a_member_whose_assignment_was_the_last_one() -> None:
    assert Shown("Stable", "bellwether-new", 2, "bellwether-old").led_by_bellwether
    assert not Shown("Stable", "bellwether-new", 2, "consumer-1").led_by_bellwether
    assert not Shown("Stable", "", 2, "bellwether-old").led_by_bellwether


def test_the_role_is_read_as_the_process_writes_it() -> None:
    fenced = Group(group="orders", mode="lead", role=role_status(Role(NotLeading.FENCED, "x"), 0.0))
    assert from_api(asdict(fenced)) == WATCHES
    assert from_api(asdict(replace(fenced, leading=True, role=role_status(Role(None, ""), 0.0)))) == LEADS
    assert from_api(asdict(replace(fenced, role=None))) == Reported(False, "")
    text = (
        'bellwether_group_leading{group="orders"} 0.0\n'
        'bellwether_group_not_leading{group="orders",reason="fenced"} 1.0\n'
    )
    assert from_metrics(text) == {"orders": WATCHES}
