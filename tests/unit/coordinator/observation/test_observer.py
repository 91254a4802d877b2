"""An observer keeps its last look and the rebalances between looks, passes both on, and survives its listeners."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from structlog.testing import capture_logs

from bellwether_kafka.assignors.consumer.registry import Policy
from bellwether_kafka.coordinator.membership.config import MembershipConfig
from bellwether_kafka.coordinator.observation.observation import Observation
from bellwether_kafka.coordinator.observation.observer import GroupObserver, Sources
from bellwether_kafka.coordinator.runtime.process import present_of
from tests.unit.coordinator.observation.test_rebalances import look, one

SOURCES = cast("Sources", SimpleNamespace(transport=None, reader=SimpleNamespace(admin=None), offsets=None))


def observed(*seen: Observation, on_observation: Any = ()) -> GroupObserver:
    """An observer that has had these looks."""
    left = list(seen)

    class Shown(GroupObserver):
        async def look(self) -> Observation:
            return left.pop(0)

    found = Shown(MembershipConfig("g"), SOURCES, Policy(), on_observation=on_observation)
    while left:
        asyncio.run(found.refresh())
    return found


def test_the_page_has_the_last_look_and_the_rebalances_before_it() -> None:
    found = present_of(observed(look(10, one("a-1", "t-0")), look(20, one("a-1", "t-0"), one("b-1"))))
    assert found is not None
    assert [holder.name for holder in found.holders] == ["a-1", "b-1"]
    assert [line["cause"] for line in found.observed["rebalances"]] == ["b joined"]


def test_of_a_group_that_has_not_been_looked_at_nothing_is_shown() -> None:
    assert present_of(None) is None
    assert present_of(GroupObserver(MembershipConfig("g"), SOURCES, Policy())) is None


def test_a_listener_that_fails_is_logged_and_disturbs_nobody() -> None:
    heard: list[Observation] = []

    def broken(_: Observation) -> None:
        raise ValueError

    with capture_logs() as lines:
        found = observed(look(10, one("a-1", "t-0")), on_observation=(broken, heard.append))
    assert heard == [found.last]
    assert [line["event"] for line in lines if line["log_level"] == "error"] == ["observer_failed"]
