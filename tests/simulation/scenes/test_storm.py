"""A storm of members, small enough for every run of the tests; `make storm` has the large ones."""

from dataclasses import replace

import pytest

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import GroupMembership
from tests.simulation.scenes.storm import Storm, line


def test_a_storm_of_members_costs_the_instance_no_more_than_few_do() -> None:
    weather = Storm(1, members=150).run()
    assert not weather.violation, line(1, weather)
    assert weather.events > 300
    assert weather.plans["own"] > 5
    assert weather.work["Sync"] <= 2


def test_work_that_grows_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An instance that sends each of its plans three times."""
    handle = GroupMembership.handle

    def thrice(self: GroupMembership, event: membership.Event, now: float) -> tuple[membership.Command, ...]:
        commands = handle(self, event, now)
        syncs = [command for command in commands if isinstance(command, membership.Sync)]
        more = [replace(sync, request_id=sync.request_id + 10**6 * n) for sync in syncs for n in (1, 2)]
        return (*commands, *more)

    monkeypatch.setattr(GroupMembership, "handle", thrice)
    weather = Storm(1, members=20).run()
    assert "more work in one generation" in weather.violation
