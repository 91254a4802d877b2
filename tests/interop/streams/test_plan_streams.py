"""A dry run on a live Streams application: what `plan` shows is what the leader then does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.interop.support.bellwether import Bellwether, run_to_end
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import wait_until
from tests.interop.support.reported import configured, reported
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_application import Application
from tests.interop.support.streams_led import generation_of, sending, settings_of
from tests.interop.support.streams_load import Load

SETTLE_S = 240


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_the_plan_for_an_application_is_what_the_leader_then_does(kafka: KafkaCluster, tmp_path: Path) -> None:
    """Each task is in one rack, tasks were dealt in turns, and every process has a copy of everything. Then the leader
    hands over to one that uses racks, which gets the order to rebalance."""
    name, control = "planned-counts", "planned-control"
    common = Application(name, (f"{name}-in",), f"{name}-out", 4, standbys=1, acceptable_recovery_lag=100)
    internal = [t for of in (common.sources, common.changelogs) for topics in of.values() for t in topics]
    for topic in {*internal, common.output}:
        kafka.create_topic(topic, assignment=[(n // 2 + 1,) for n in range(4)])
    plain = settings_of(common, tmp_path, leave_on_stop=False)
    racks = plain | {"rack.aware.assignment.strategy": "min_traffic"}
    path = configured(tmp_path, {"bootstrap.servers": kafka.bootstrap}, {"name": name, "mode": "lead", **racks})

    def ordered(*arguments: str) -> str:
        ended = run_to_end([*arguments, "--bootstrap", kafka.bootstrap, "--topic", control], limit_s=180)
        assert ended.code == 0, ended.text
        return ended.stdout

    with (
        Bellwether(kafka, [name], options=plain, control_topic=control, standby=True) as before,
        StreamsApp(kafka, common) as app,
        Load(kafka, common.topics[0], keys=100) as load,
        sending(before, app),
    ):
        load.produce(1_000)
        for instance, rack in (("one", "az1"), ("two", "az2")):
            app.add(instance, rack)
        app.wait_settled(spread=1, limit_s=SETTLE_S)
        app.wait_counted(load.expected)
        # What threads have of state is as old as their last JoinGroup, for a dry run too: have them say it again.
        generation = generation_of(kafka, name)
        ordered("rebalance", name, "--wait", "60")
        wait_until(lambda: generation_of(kafka, name) > generation, 120, app.send)
        app.wait_settled(spread=1, limit_s=SETTLE_S)
        plan = reported("plan", name, path)
        assert plan["moved"] == len(plan["moves"]) > 0
        assert plan["cross_rack"] == 0
        explained = reported("explain", name, path)
        assert {e["item"] for e in explained} == {move["item"] for move in plan["moves"]}
        assert all(e["stage"].startswith("placement by") for e in explained)
        with Bellwether(kafka, [name], options=racks, control_topic=control, standby=True) as after:
            wait_until(lambda: ordered("orders").count("instance of Bellwether ") == 2, 120, after.tail)
            ordered("drain", "--wait", "60")
            wait_until(lambda: bool(after.log("membership", what="LEADING")), 120, after.tail)
            ordered("rebalance", name, "--wait", "60")
            wanted = tasks_placed(plan)
            wait_until(lambda: app.complete() and app.owners() == wanted, SETTLE_S, lambda: f"{wanted}\n{after.tail()}")
            assert app.wait_settled(limit_s=SETTLE_S) == wanted
            app.wait_counted(load.expected)


def tasks_placed(picture: Mapping[str, Any]) -> dict[str, str]:
    """Task -> instance, as a picture has it: its client ids begin with the names of the instances."""
    return {
        item["name"]: holder["members"][0].split("-")[0]
        for holder in picture["holders"]
        for item in holder["items"]
        if item["state"] not in ("standby", "warm-up")
    }
