"""The lead survives ordinary operations with the configuration that README shows, read out of README itself."""

import re
import tomllib
from typing import Any

import pytest

from tests.interop.support.absences import LEAD_LIMIT_S, SESSION_S, Stage, consumers
from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.groups import until_led
from tests.interop.support.members import Flock
from tests.interop.support.raw import GroupMember
from tests.paths import ROOT

pytestmark = pytest.mark.broker


def readme() -> dict[str, Any]:
    """The options of the group in README's first configuration; the rest is where the brokers are."""
    section = (ROOT / "README.md").read_text().split("## Lead a group")[1]
    hit = re.search(r"```toml\n(.*?)```", section, re.DOTALL)
    assert hit is not None
    reported = tomllib.loads(hit[1])
    assert reported.keys() == {"kafka", "groups"}
    (group,) = reported["groups"]
    assert (group.pop("name"), group.pop("mode")) == ("orders", "lead")
    return dict(group)


def leads_in_the_end(stage: Stage) -> None:
    named = {member.name: member for member in stage.members}

    def restart(member: GroupMember) -> None:
        named[member.client_id].stop()
        named[member.client_id].start()

    until_led(stage.kafka, stage.group, stage.bellwether, restart, LEAD_LIMIT_S)


@pytest.mark.smoke
def test_a_restart_costs_nothing_and_an_absence_one_member_at_most(kafka: KafkaCluster) -> None:
    """One restart lost the lead for good, silently (D1)."""
    with Flock(kafka.bootstrap) as flock, Bellwether(kafka, ["lasting"], options=readme()) as bellwether:
        stage = Stage.prepare(kafka, flock, "lasting", bellwether)
        for kill in (False, True):
            cost = stage.restart(kill=kill)
            assert (cost.generations, cost.disturbed, cost.without_owner_s) == (0, 0, 0.0), cost
            assert cost.led_after_s is not None
        cost = stage.restart(after_s=2 * SESSION_S)
        assert cost.led_after_s is not None, bellwether.tail()
        assert cost.disturbed <= 1, cost


def test_application_first_ends_with_bellwethers_lead(kafka: KafkaCluster) -> None:
    name = "lasting-late"
    kafka.create_topic(name, 6)
    with Flock(kafka.bootstrap) as flock, Bellwether(kafka, [name], options=readme()) as bellwether:
        bellwether.stop()
        stage = Stage(kafka, name, consumers(flock, name), bellwether)
        stage.settle()
        bellwether.start(wait=False)
        leads_in_the_end(stage)


def test_both_at_once_ends_with_bellwethers_lead(kafka: KafkaCluster) -> None:
    name = "lasting-together"
    kafka.create_topic(name, 6)
    bellwether = Bellwether(kafka, [name], options=readme())
    with Flock(kafka.bootstrap) as flock:
        stage = Stage(kafka, name, consumers(flock, name), bellwether)
        try:
            bellwether.start(wait=False)
            stage.settle()
            leads_in_the_end(stage)
        finally:
            bellwether.__exit__(None, None, None)
