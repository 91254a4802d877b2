"""A lead is handed over within a time limit, and kept if nobody has taken it by then."""

from typing import Any

from structlog.testing import capture_logs

from bellwether_kafka.coordinator.control import (
    ControlledGroup,
    GroupRoles,
    InstanceHeartbeat,
    Instances,
)
from bellwether_kafka.coordinator.membership import ActiveRoleChanged
from tests.kit.runtime import Group

HAND_OVER_S = 2.0


class Roles:
    """An instance that leads a group and has a standby. `beats` is how often it has sent its heartbeat."""

    def __init__(self) -> None:
        self.now, self.beats = 100.0, 0
        self.group = Group(standby=False)
        self.group.lead()
        self.state = ControlledGroup(self.group, active=True)
        self.instances = Instances("pod-1")
        self.instances.received(InstanceHeartbeat("pod-2", standby_for=("orders",)))
        groups: Any = {"orders": self.state}
        self.roles = GroupRoles(groups, self.instances, heartbeat=self._beat, clock=lambda: self.now)

    def _beat(self) -> None:
        self.beats += 1

    def changes(self) -> list[bool]:
        return [event.active for event in self.group.posted if isinstance(event, ActiveRoleChanged)]


def test_a_lead_that_nobody_takes_is_kept_after_the_limit_and_not_before() -> None:
    roles = Roles()
    roles.roles.hand_over(["orders"], "this instance stops")
    assert (roles.changes(), roles.beats) == ([False], 1)
    roles.now += HAND_OVER_S - 0.01
    roles.roles.update("orders", roles.state)
    assert (roles.changes(), roles.state.active) == ([False], True)
    roles.now += 0.01
    with capture_logs() as lines:
        roles.roles.update("orders", roles.state)
    assert [line["event"] for line in lines] == ["hand_over_failed"]
    assert (roles.changes(), roles.state.hands_over_until) == ([False, True], 0.0)


def test_a_lead_without_a_standby_is_not_handed_over() -> None:
    roles = Roles()
    roles.instances.gone("pod-2")
    with capture_logs() as lines:
        roles.roles.hand_over(["orders"], "this instance stops")
    assert [line["event"] for line in lines] == ["nobody_to_hand_over_to"]
    assert (roles.changes(), roles.state.hands_over_until) == ([], 0.0)
