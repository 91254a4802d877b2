"""Every row of the table of triggers: what holds for all of them, and for new ones."""

from typing import Any

import pytest

from bellwether_kafka.coordinator.membership import State
from bellwether_kafka.coordinator.triggers import TRIGGERS, Picture, Reading
from tests.kit.applications import App
from tests.kit.membership import Play
from tests.kit.runtime import picture

CONFIG = App().kind.config
ROWS = [(name, state) for name, trigger in TRIGGERS.items() for state in trigger.states]


def seen(name: str, play: Play | None = None, **fields: Any) -> Picture:
    """A group of the kind that the trigger is for."""
    config = CONFIG if TRIGGERS[name].of_application else None
    return picture((play or Play().stable()).machine.view, now=1_000.0, config=config, **fields)


@pytest.mark.parametrize(("name", "state"), ROWS, ids=[f"{name}-{state.name}" for name, state in ROWS])
def test_a_group_of_which_nothing_is_read_is_left_alone(name: str, state: State) -> None:
    trigger, nothing = TRIGGERS[name], seen(name)
    assert trigger.judges(state, None)
    first, findings = trigger.judge(nothing, None)
    assert findings == ()
    assert trigger.judge(nothing, first)[1] == ()


@pytest.mark.parametrize("name", TRIGGERS)
def test_a_trigger_is_judged_when_what_it_wants_has_been_read(name: str) -> None:
    """Otherwise the reading would be made for nobody."""
    trigger, wanted = TRIGGERS[name], set[Reading]()
    for play in (Play().stable(), Play(protocols=("stream",)).stable_alone()):
        shown = seen(name, play, racks=(1, 0))
        state, _ = trigger.judge(shown, None)
        wanted |= set(trigger.wants(shown, state)) if trigger.wants is not None else set()
    assert wanted - {Reading.TOPICS, Reading.HOSTS} <= trigger.reads


@pytest.mark.parametrize("name", TRIGGERS)
def test_a_reading_that_fails_is_no_finding(name: str) -> None:
    trigger = TRIGGERS[name]
    for reading in trigger.reads:
        failed = seen(name, unanswered=reading)
        assert trigger.judge(failed, trigger.judge(failed, None)[0])[1] == ()


def test_what_is_read_is_judged_by_a_trigger() -> None:
    judged = frozenset[Reading]().union(*(trigger.reads for trigger in TRIGGERS.values()))
    assert judged == {*Reading} - {Reading.TOPICS, Reading.HOSTS}
