"""A running, warm application whose leader Bellwether becomes and ceases to be, again and again: nobody loses a task by
it."""

import json
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.interop.support.bellwether import INSTANCE, Bellwether, run_to_end, toml
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.groups import PATIENT_WITH_APPLICATIONS
from tests.interop.support.members import wait_until
from tests.interop.support.rebalances import last_rebalance
from tests.interop.support.scenes.exactly_once_adoption import adopt
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_led import (
    app_without_members_in_the_way,
    application,
    failures,
    led,
    sending,
    until_app_is_led,
)
from tests.interop.support.streams_load import Load

pytestmark = pytest.mark.timeout(300)
TURNS = 5


def now_ms() -> int:
    return int(time.time() * 1000)


def test_a_warm_application_is_adopted_and_released_five_times(kafka: KafkaCluster, tmp_path: Path) -> None:
    """Nothing is produced meanwhile: the leader that makes way loses its partitions and replays what it has written
    since its last commit, which is no loss of state."""
    common = application(kafka, "adopted-warm", standbys=1)
    group = common.application_id

    def own() -> bool:
        return last_rebalance(kafka, group).leader.startswith(INSTANCE)

    with StreamsApp(kafka, common) as app, Load(kafka, common.topics[0], keys=300) as load:
        load.produce(3_000)
        app.add("one")
        app.add("two")
        app.wait_settled(spread=1)
        app.wait_counted(load.expected)
        unowned_ms, restored, moves = 0, 0, 0
        options = {"adopt": "take-over", "stores": "persistent", **PATIENT_WITH_APPLICATIONS}
        for _ in range(TURNS):
            app_without_members_in_the_way(kafka, app)
            before = app.owners()
            began_ms = now_ms()
            with led(kafka, common, tmp_path, **options) as lead, sending(lead, app):
                wait_until(own, 60, app.send)
                assert app.wait_settled(quiet_s=1.0) == before
                assert lead.stop() == 0
                wait_until(lambda: not own(), 60, app.send)
                assert app.wait_settled(quiet_s=1.0) == before
            ended_ms = now_ms()
            line = app.timeline()
            unowned_ms = max(unowned_ms, *line.unowned_ms(common.tasks, began_ms, ended_ms).values())
            restored += line.restored(began_ms, ended_ms)
            moves += line.moves(began_ms, ended_ms)
        print(f"unowned for {unowned_ms} ms at most, restored {restored}, moved {moves}")
        assert (moves, restored) == (0, 0)
        load.produce(1_000)
        app.wait_counted(load.expected)
        assert line.overlaps() == []
        assert failures(app) == []


UNDECLARED = {"kind": "streams", "stores": "persistent"}
IN_MEMORY = {"kind": "streams", "processing.guarantee": "at_least_once"}
EXACTLY_ONCE = {"kind": "streams", "processing.guarantee": "exactly_once_v2", "stores": "persistent"}


def guarantee(kafka: KafkaCluster, group: str, folder: Path, declared: Mapping[str, object]) -> str:
    """The verdict of `doctor`."""
    file = folder / "doctor.toml"
    entry = {"name": group, "mode": "lead", **declared}
    file.write_text(toml({"bootstrap.servers": kafka.bootstrap}, [entry], http_address=""))
    ended = run_to_end(["doctor", group, "--config", str(file), "--output", "json"])
    return str({check["kind"]: check["level"] for check in json.loads(ended.stdout)}["guarantee"])


@pytest.mark.proof
def test_an_application_is_taken_over_only_where_that_is_declared_to_cost_no_state(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """Neither the guarantee nor the kind of its stores is on the wire: the application is exactly once, and what is
    said of it differs. It is left alone, with a reason, until an operator insists."""
    common = application(kafka, "adopted-guarded", guarantee="exactly_once_v2", threads=2, session_timeout_ms=10_000)
    group = common.application_id
    with StreamsApp(kafka, common) as app, Load(kafka, common.topics[0], keys=100) as load:
        load.produce(1_000)
        app.add("one")
        before = app.wait_settled()
        app.wait_counted(load.expected)
        rested = last_rebalance(kafka, group)
        for reported, reason in (
            (UNDECLARED, "processing.guarantee is not declared"),
            (IN_MEMORY, 'stores = "persistent" is not declared'),
            (EXACTLY_ONCE, "under exactly_once_v2 the removed leader would lose the local state"),
        ):
            refuses(kafka, group, reported, reason)
            assert last_rebalance(kafka, group) == rested, f"{reason}, and yet the group was disturbed"
        assert guarantee(kafka, group, tmp_path, IN_MEMORY) == "fail", "its transactional ids show what it is"
        assert guarantee(kafka, group, tmp_path, EXACTLY_ONCE) == "pass"
        insisted = {
            **EXACTLY_ONCE,
            "adopt": "take-over",
            "takeover_forced": True,
            "evictions_max": 2,
            **PATIENT_WITH_APPLICATIONS,
        }
        options = {k: v for k, v in insisted.items() if k not in ("kind", "processing.guarantee")}
        with led(kafka, common, tmp_path, **options) as lead, sending(lead, app):
            wait_until(lambda: last_rebalance(kafka, group).leader.startswith(INSTANCE), 60, app.send)
            assert app.wait_settled(quiet_s=1.0) == before
            load.produce(1_000)
            app.wait_counted(load.expected)
        assert app.timeline().overlaps() == []
        assert failures(app) == []


def test_a_new_application_is_led_once_a_java_member_has_made_its_topics(kafka: KafkaCluster, tmp_path: Path) -> None:
    """With a file from `topology parse` the first generation was refused, and Bellwether never came back (D23)."""
    common = application(kafka, "adopted-new")
    options = {"stores": "persistent", **PATIENT_WITH_APPLICATIONS}
    with (
        led(kafka, common, tmp_path, described=False, **options) as lead,
        StreamsApp(kafka, common) as app,
        Load(kafka, common.topics[0], keys=100) as load,
        sending(lead, app),
    ):
        load.produce(500)
        app.add("one")
        (refused, *_) = lead.logged("membership", limit_s=60, what="REFUSED")
        assert "instead of its bare name under StateChangelogTopics" in refused["reason"]
        until_app_is_led(kafka, app, lead)
        app.wait_settled()
        load.produce(500)
        app.wait_counted(load.expected, exactly_once=False)  # what the removed leader had not committed comes again
        assert failures(app) == []


def refuses(kafka: KafkaCluster, group: str, reported: dict[str, str], reason: str) -> None:
    """An instance that may take over says why it does not, once it has seen the group at rest."""
    instance = Bellwether(kafka, [group], options={**reported, "adopt": "take-over"})
    try:
        instance.start(wait=False)
        wait_until(lambda: f"not taken over: {reason}" in instance.text().replace('\\"', '"'), 60, instance.tail)
    finally:
        instance.__exit__(None, None, None)


@pytest.mark.timeout(420)
def test_an_exactly_once_application_is_adopted_by_the_restart_of_its_leader(kafka: KafkaCluster) -> None:
    """With the default settings it never was: ghosts were gone before Bellwether was in the rebalance."""
    adoption = adopt(kafka, cycles=2)
    print("\n".join((*adoption.transcript, *adoption.bellwether)))
    assert adoption.adopted, adoption
    assert adoption.avoidable == [], adoption
    assert adoption.overlaps == []
