"""When the soak says that a group is not led."""

from tests.lab.role import Durations
from tests.lab.soak.processes import LED_WITHIN_S


def test_a_group_that_is_not_led_for_too_long_is_reported_once_however_rarely_one_refreshes() -> None:
    unled = Durations(LED_WITHIN_S)
    refreshes = [unled.add(at_s, "orders", wrong=True) for at_s in (0.0, LED_WITHIN_S - 5, LED_WITHIN_S + 7, 400.0)]
    assert refreshes == [None, None, LED_WITHIN_S + 7, None]
    assert unled.longest_s == 400


def test_it_is_reported_again_after_it_was_led() -> None:
    unled = Durations(LED_WITHIN_S)
    spans = [(0.0, False), (61.0, False), (62.0, True), (63.0, False), (124.0, False)]
    assert [unled.add(at_s, "orders", wrong=not led) is not None for at_s, led in spans] == [
        False,
        True,
        False,
        False,
        True,
    ]


def test_time_counts_from_the_start_of_the_process() -> None:
    unled = Durations(LED_WITHIN_S)
    unled.add(0.0, "orders", wrong=True)
    unled.begin(50.0)
    assert unled.add(100.0, "orders", wrong=True) is None
    assert unled.add(111.0, "orders", wrong=True) == 61
