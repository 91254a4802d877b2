"""What each watch of the process needs."""

import asyncio
from typing import Any

import structlog
from structlog.testing import capture_logs

from bellwether_kafka.coordinator.names import listed
from bellwether_kafka.coordinator.watching import Troubles, every

log = structlog.get_logger(__name__)


async def test_a_turn_that_raises_is_logged_and_ends_no_watch() -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        turns += 1
        if turns == 1:
            raise KeyError("a defect")
        watching.cancel()

    with capture_logs() as lines:
        watching = asyncio.create_task(every(0.0, turn, log, "not_watched"))
        await asyncio.wait([watching])
    assert (turns, watching.cancelled()) == (2, True)
    assert [line["event"] for line in lines] == ["not_watched"]


def test_a_reason_is_logged_once_for_each_subject_and_again_after_it_was_over() -> None:
    troubles, logged = Troubles(), []

    def write(event: str, **fields: Any) -> None:
        logged.append((event, fields["of_group"], fields["reason"]))

    for group, reason in (("a", "no answer"), ("b", "no answer"), ("a", "no answer"), ("a", "denied"), ("b", "")):
        troubles.report(write, "unread", reason, of=group, of_group=group)
    assert ("a" in troubles, "b" in troubles) == (True, False)
    troubles.report(write, "unread", "no answer", of="b", of_group="b")
    expected = (("a", "no answer"), ("b", "no answer"), ("a", "denied"), ("b", "no answer"))
    assert logged == [("unread", *each) for each in expected]


def test_of_many_names_the_first_are_listed_and_the_others_counted() -> None:
    assert listed(["a", "b"]) == "a, b"
    assert listed(["a", "b", "c"], 2) == "a, b and 1 more"
    assert listed(["a\n"]) != "a\n"
