"""A running, warm application whose leader we become and cease to be, again and again: nobody loses a task by it."""

import time
from pathlib import Path

import pytest

from tests.interop.bellwether import INSTANCE
from tests.interop.brokers import KafkaCluster
from tests.interop.members import wait_until
from tests.interop.rounds import last_round
from tests.interop.streams_app import StreamsApp
from tests.interop.streams_led import application, failures, led, telling
from tests.interop.streams_load import Load

pytestmark = pytest.mark.timeout(300)
TURNS = 5


def now_ms() -> int:
    return int(time.time() * 1000)


def test_a_warm_application_is_adopted_and_released_five_times(kafka: KafkaCluster, tmp_path: Path) -> None:
    """Nothing is produced meanwhile: the leader that makes way loses its partitions and replays what it has written
    since its last commit, which is no loss of state."""
    common = application(kafka, "adopted-warm", standbys=1)
    group = common.application_id

    def ours() -> bool:
        return last_round(kafka, group).leader.startswith(INSTANCE)

    with StreamsApp(kafka, common) as app, Load(kafka, common.topics[0], keys=300) as load:
        load.produce(3_000)
        app.add("one")
        app.add("two")
        before = app.wait_settled(spread=1)
        app.wait_counted(load.expected)
        began_ms = now_ms()
        for _ in range(TURNS):
            with led(kafka, common, tmp_path, adopt="take-over", stores="persistent") as lead, telling(lead, app):
                wait_until(ours, 30, app.tell)
                assert app.wait_settled(quiet_s=1.0) == before
                assert lead.stop() == 0
                wait_until(lambda: not ours(), 30, app.tell)
                assert app.wait_settled(quiet_s=1.0) == before
        ended_ms = now_ms()
        line = app.timeline()
        unowned = line.unowned_ms(common.tasks, began_ms, ended_ms)
        print(f"unowned for {max(unowned.values())} ms at most, restored {line.restored(began_ms, ended_ms)}")
        assert line.moves(began_ms, ended_ms) == 0
        assert line.restored(began_ms, ended_ms) == 0
        load.produce(1_000)
        app.wait_counted(load.expected)
        assert line.overlaps() == []
        assert failures(app) == []
