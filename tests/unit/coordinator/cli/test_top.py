"""The line of `top` about a group, from what brokers show and what pages of instances say, and what keys do to all."""

from dataclasses import replace

import pytest

from bellwether_kafka.coordinator.cli.output import counted
from bellwether_kafka.coordinator.cli.top import (
    InstanceReports,
    SortOrder,
    TopRow,
    View,
    _reports,
    keys_of,
    row_of,
    unanswered,
)
from bellwether_kafka.coordinator.observation import Observation, ObservedMember
from tests.support.lags import group_lag, sample

ESCAPE = "\x1b"

LED = {"reason": "", "detail": "", "remedy": "", "since_ms": 1, "next_attempt_ms": None}
STATUS = {"group": "orders", "leading": True, "role": LED, "generation": 7}


def not_led(reason: str) -> dict[str, object]:
    return {**STATUS, "leading": False, "role": {**LED, "reason": reason, "remedy": "Restart."}}


LINES = [
    {"group": "orders", "decided_at_ms": 2_000, "cause": "m2 joined", "moved": 3},
    {"group": "orders", "decided_at_ms": 1_000, "cause": "m1 joined", "moved": 0},
]


def seen(
    members: int, *, led: bool = False, kind: str = "classic", group: str = "orders", lag: int | None = None
) -> Observation:
    people = tuple(ObservedMember(f"m{i}", None, "c", "/h") for i in range(members))
    own = (ObservedMember("bellwether-1", "bellwether", "c", "/h"),) * led
    lags = {} if lag is None else {"t": (lag, None)}
    return Observation(group, kind, "Stable", "range", 0, people, lags, bellwether_members=own)  # type: ignore[arg-type]


def test_an_instance_shows_generation_and_the_newest_cause() -> None:
    row = row_of(seen(2, led=True, lag=5), InstanceReports.of([STATUS], LINES))
    assert (row.leader, row.generation, row.members, row.lag) == ("bellwether", 7, 2, 5)
    assert (row.cause, row.moved, row.cause_at_ms) == ("m2 joined", 3, 2_000)


def test_without_a_page_an_instance_is_known_by_its_membership() -> None:
    assert row_of(seen(1, led=True), InstanceReports()).leader == "bellwether"
    assert row_of(seen(0, led=True), InstanceReports()).leader == "bellwether"
    assert row_of(seen(1), InstanceReports()).leader == "a member"
    assert row_of(seen(0), InstanceReports()).leader == "nobody"
    lag = group_lag(sample(0, {"t": [1]}, {"t": [4]}))
    alone = replace(seen(0), group_lag=replace(lag, self_assigned=True))
    assert row_of(alone, InstanceReports.of([not_led("no_subscribers")], LINES)).leader == "its consumers"


def test_a_fenced_process_does_not_lead_and_says_why() -> None:
    row = row_of(seen(2), InstanceReports.of([not_led("fenced")], LINES))
    assert (row.leader, row.generation, row.not_leading, row.remedy) == ("a member", None, "fenced", "Restart.")


def test_another_process_that_leads_makes_up_for_a_fenced_one() -> None:
    row = row_of(seen(1, led=True), InstanceReports.of([not_led("fenced"), STATUS], LINES))
    assert (row.leader, row.generation, row.not_leading) == ("bellwether", 7, "")


def test_a_group_in_which_only_bellwether_is_has_no_leader() -> None:
    row = row_of(seen(0, led=True), InstanceReports.of([not_led("unknown_group")], []))
    assert (row.leader, row.not_leading) == ("nobody", "unknown_group")


def test_a_broker_leads_its_own_groups() -> None:
    assert row_of(seen(1, kind="consumer"), InstanceReports()).leader == "its broker"


def test_rows_keep_their_places_whatever_the_lags() -> None:
    rows = [row_of(seen(1, group=name, lag=lag), InstanceReports()) for name, lag in (("c", 9), ("a", None), ("b", 3))]
    assert [row.group for row in View().rows(rows)] == ["a", "b", "c"]


def test_one_group_is_not_several() -> None:
    assert [counted(n, "group") for n in (0, 1, 2)] == ["0 groups", "1 group", "2 groups"]


def line(group: str, lag: int | None, members: int, cross_rack: int | None) -> TopRow:
    of_bellwether = replace(row_of(seen(members, group=group, lag=lag), InstanceReports()), cross_rack=cross_rack)
    assert (of_bellwether.lag, of_bellwether.members) == (lag, members)
    return of_bellwether


ROWS = [line("b", 5, 2, 1), line("a", None, 3, None), line("d", 9, 1, 0), line("c", 5, 2, 4)]


def names(view: View) -> str:
    return "".join(line.group for line in view.rows(ROWS))


def after(keys: str, view: View | None = None) -> View:
    view = view or View()
    for key in keys:
        view = view.pressed(key)
    return view


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("", "abcd"),
        ("r", "dcba"),
        ("l", "dbca"),
        ("lr", "bcda"),
        ("m", "abcd"),
        ("x", "cbda"),
        ("xn", "abcd"),
        ("?", "abcd"),
    ],
)
def test_keys_choose_the_order(keys: str, expected: str) -> None:
    assert names(after(keys)) == expected


def test_what_is_not_known_comes_last_either_way() -> None:
    assert names(after("l"))[-1] == names(after("lr"))[-1] == "a"


def test_a_filter_is_typed_after_a_slash_until_enter() -> None:
    typing = after("/lq")
    assert (typing.wanted, typing.typed, typing.order) == ("lq", True, SortOrder.NAME), "keys are letters now"
    assert after("\x7fr\n", typing) == View(wanted="lr")
    assert after(ESCAPE, typing) == View()
    assert names(after("/c\r")) == "c"


def test_the_caption_says_what_is_not_as_at_first() -> None:
    assert View().caption == ""
    assert after("lr").caption == "by lag, reversed"
    assert after("/or").caption == "filter: or_"
    assert View(SortOrder.MEMBERS, wanted="x").caption == "by members; filter: x"


def test_without_a_terminal_no_keys_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with keys_of(lambda _: None) as has_keys:
        assert not has_keys


def test_a_page_that_does_not_answer_is_named() -> None:
    """It ended with 0 and without a word."""
    silent: dict[str, str] = {"of the last refresh": "x"}
    assert _reports(["http://127.0.0.1:1"], silent) == InstanceReports()
    (sentence,) = unanswered(silent)
    assert sentence.startswith("http://127.0.0.1:1 does not answer ([Errno 111] Connection refused), so")
