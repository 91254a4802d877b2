"""What keys do to the live table, and in which order its rows are."""

from dataclasses import dataclass

import pytest

from bellwether_kafka.coordinator.cli.top_view import ESCAPE, Order, View, keys_of


@dataclass(frozen=True, slots=True)
class Line:
    group: str
    lag: int | None = None
    members: int = 1
    cross_rack: int | None = None


LINES = [Line("b", 5, 2, 1), Line("a", None, 3, None), Line("d", 9, 1, 0), Line("c", 5, 2, 4)]


def names(view: View) -> str:
    return "".join(line.group for line in view.rows(LINES))


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
    assert (typing.wanted, typing.typed, typing.order) == ("lq", True, Order.NAME), "keys are letters now"
    assert after("\x7fr\n", typing) == View(wanted="lr")
    assert after(ESCAPE, typing) == View()
    assert names(after("/c\r")) == "c"


def test_the_caption_says_what_is_not_as_at_first() -> None:
    assert View().caption == ""
    assert after("lr").caption == "by lag, reversed"
    assert after("/or").caption == "filter: or_"
    assert View(Order.MEMBERS, wanted="x").caption == "by members; filter: x"


def test_without_a_terminal_no_keys_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with keys_of(lambda _: None) as has_keys:
        assert not has_keys
