"""The line of `top` about a group, from what brokers show and what pages of instances say, and what keys do to all."""

import json
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any

import pytest

from bellwether_kafka.coordinator.cli.top import SortOrder, View, keys_of
from bellwether_kafka.coordinator.observation import Group, Observation, ObservedMember
from tests.kit.commands import ShownGroups, page
from tests.kit.observed import group_lag, sample

ESCAPE = "\x1b"

LED = {"reason": "", "detail": "", "remedy": "", "since_ms": 1, "next_attempt_ms": None}
STATUS = {"group": "orders", "leading": True, "role": LED, "generation": 7}
LINES = [
    {"group": "orders", "decided_at_ms": 2_000, "cause": "m2 joined", "moved": 3},
    {"group": "orders", "decided_at_ms": 1_000, "cause": "m1 joined", "moved": 0},
]


def not_led(reason: str) -> dict[str, object]:
    return {**STATUS, "leading": False, "role": {**LED, "reason": reason, "remedy": "Restart."}}


def seen(
    members: int, *, led: bool = False, kind: str = "classic", group: str = "orders", lag: int | None = None
) -> Observation:
    people = tuple(ObservedMember(f"m{i}", None, "c", "/h") for i in range(members))
    own = (ObservedMember("bellwether-1", "bellwether", "c", "/h"),) * led
    shown = Observation(group, kind, "Stable", "range", 0, people, bellwether_members=own)  # type: ignore[arg-type]
    return shown if lag is None else replace(shown, group_lag=group_lag(sample(0, {"t": [0, -1]}, {"t": [lag, 9]})))


SELF_ASSIGNED = replace(seen(0), group_lag=replace(group_lag(sample(0, {"t": [1]}, {"t": [4]})), self_assigned=True))


def row(groups: ShownGroups, shown: Observation, *statuses: object) -> dict[str, Any]:
    """The group's line, if pages of instances have these statuses; without any, no page is asked."""
    groups.seen.clear()
    groups.show(shown)
    with ExitStack() as pages:
        urls = [word for url in statuses for word in ("--url", pages.enter_context(status_page(url)))]
        (only,) = json.loads(groups.says("top", "orders", "--once", "-o", "json", *urls))
    return only  # type: ignore[no-any-return]  # JSON


def status_page(status: object) -> AbstractContextManager[str]:
    """The page of an instance: its groups, and then its rebalances."""
    return page(json.dumps([status]), json.dumps(LINES))


@pytest.mark.parametrize(
    ("shown", "statuses", "expected"),
    [
        (seen(2, led=True, lag=5), [STATUS], {"assigned_by": "Bellwether", "generation": 7, "members": 2, "lag": 5}),
        (seen(2, led=True), [STATUS], {"cause": "m2 joined", "moved": 3, "cause_at_ms": 2_000}),
        (seen(1, led=True), [], {"assigned_by": "Bellwether", "generation": None}),
        (seen(0, led=True), [], {"assigned_by": "Bellwether"}),
        (seen(1), [], {"assigned_by": "a member"}),
        (seen(0), [], {"assigned_by": "nobody"}),
        (seen(1, kind="consumer"), [], {"assigned_by": "its broker"}),
        (SELF_ASSIGNED, [not_led("no_subscribers")], {"assigned_by": "its consumers"}),
        (
            seen(2),
            [not_led("fenced")],
            {"assigned_by": "a member", "generation": None, "role": not_led("fenced")["role"]},
        ),
        (
            seen(1, led=True),
            [not_led("fenced"), STATUS],
            {"assigned_by": "Bellwether", "generation": 7, "role": None},
        ),
        (
            seen(0, led=True),
            [not_led("unknown_group")],
            {"assigned_by": "nobody", "role": not_led("unknown_group")["role"]},
        ),
    ],
    ids=[
        "an instance shows the generation",
        "and the newest cause",
        "without a page it is known by its membership",
        "also alone",
        "a member leads",
        "nobody does",
        "a broker leads its own groups",
        "its consumers assign themselves",
        "a fenced process does not lead and says why",
        "another process makes up for it",
        "where only Bellwether is nobody leads",
    ],
)
@pytest.mark.slow
def test_the_line_of_a_group(
    shown: Observation, statuses: list[object], expected: dict[str, object], groups: ShownGroups
) -> None:
    told = row(groups, shown, *statuses)
    assert {name: told[name] for name in expected} == expected


def test_a_page_that_does_not_answer_is_named(groups: ShownGroups) -> None:
    """It ended with 0 and without a word."""
    groups.show(seen(1))
    ended = groups.run("top", "--once", "--url", "http://127.0.0.1:1")
    assert ended.returncode == 0
    assert "http://127.0.0.1:1 does not answer ([Errno 111] Connection refused), so" in ended.stderr


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "dbca"),
        (("--sort", "name"), "abcd"),
        (("--sort", "lag"), "dbca"),
        (("--sort", "members"), "abcd"),
        (("--sort", "cross-rack"), "abcd"),
        (("--filter", "c"), "c"),
    ],
)
@pytest.mark.slow
def test_rows_are_in_order_and_those_that_are_wanted(
    options: tuple[str, ...], expected: str, groups: ShownGroups
) -> None:
    """What is not known comes last, and equal rows are by name."""
    for group, lag, members in (("b", 5, 2), ("a", None, 3), ("d", 9, 1), ("c", 5, 2)):
        groups.show(seen(members, group=group, lag=lag))
    rows = json.loads(groups.says("top", "--once", "-o", "json", *options))
    assert "".join(each["group"] for each in rows) == expected
    (one,) = groups.says("top", "--once", "--filter", "c").splitlines()[:1]
    assert "1 group" in one


LAG = group_lag(sample(0, {"t": [0]}, {"t": [9]})).summary()


def line(group: str, lag: int | None, members: int, cross_rack: int | None) -> Group:
    summary = None if lag is None else replace(LAG, lag=lag)
    return Group(group=group, members=members, lag=summary, cross_rack=cross_rack)


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
        ("", "dbca"),
        ("r", "acbd"),
        ("n", "abcd"),
        ("nr", "dcba"),
        ("l", "dbca"),
        ("lr", "bcda"),
        ("m", "abcd"),
        ("x", "cbda"),
        ("xn", "abcd"),
        ("?", "dbca"),
    ],
)
def test_keys_choose_the_order(keys: str, expected: str) -> None:
    assert names(after(keys)) == expected


def test_what_is_not_known_comes_last_either_way() -> None:
    assert names(after("l"))[-1] == names(after("lr"))[-1] == "a"


def test_a_filter_is_typed_after_a_slash_until_enter() -> None:
    typing = after("/lq")
    assert (typing.wanted, typing.typed, typing.order) == ("lq", True, SortOrder.WORST), "keys are letters now"
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
