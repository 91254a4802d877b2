"""Orders in applications that a 4.4 broker assigns by Bellwether's plans: a rolling restart, and topologies of which a
broker does not show everything. The rest is in test_broker_task_assignor_live.py."""

import os
import re
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.interop.support.bellwether import Bellwether, ordered, run_to_end
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.guarded import guard_command
from tests.interop.support.members import wait_until
from tests.interop.support.scenes.served import address_in, begun_for_orders
from tests.interop.support.scenes.served_tasks import (
    GROUP,
    PARTITIONS,
    SETTLE_S,
    application,
    counting_application,
    settled,
)
from tests.interop.support.streams_app import DEFAULT_CLIENT_ID, StreamsApp
from tests.interop.support.streams_application import Application
from tests.interop.support.streams_led import sending

pytestmark = [pytest.mark.broker, pytest.mark.timeout(900)]

CONTROL = "served-tasks-control"
OTHER = f"{GROUP}-other"
REFUSED = r"its broker refused \d+ possible topologies, so it asks when the group changes"
RACK_OF = {"a": "az1", "c": "az2", "e": "az3"}


@contextmanager
def served(broker: KafkaCluster, folder: Path, described: Application) -> Iterator[tuple[StreamsApp, Bellwether]]:
    """One instance in each of three racks, with their tasks by Bellwether's plan. In the end every record is counted
    once."""
    options, address = {"mode": "observe"}, address_in(folder)
    bellwether = Bellwether(broker, [GROUP], options=options, assignor_address=address, control_topic=CONTROL)
    with counting_application(broker, bellwether, described, RACK_OF) as app, sending(bellwether, app):
        settled(app)
        bellwether.logged("group_observed", group=GROUP, members=len(RACK_OF))
        yield app, bellwether


def test_roll_restarts_each_process_of_an_application_that_the_broker_assigns(
    broker: KafkaCluster, folder: Path
) -> None:
    """Each process runs nothing when it is restarted, and has its share again before the next. No order is left in
    force."""
    asked = folder / "restart"
    restart = (
        f"sh -c 'echo {{member}} > {asked}.part; mv {asked}.part {asked}; while [ -e {asked} ]; do sleep 0.1; done'"
    )
    restarted: list[str] = []
    with served(broker, folder, application()) as (app, bellwether), ThreadPoolExecutor() as threads:
        names = {app.instances[name].process_id(GROUP): name for name in RACK_OF}
        rolled = threads.submit(ordered, broker, CONTROL, "roll", GROUP, "--exec", restart, "--wait", "120")
        while not rolled.done():
            if asked.exists():
                name = names[asked.read_text().strip()]
                assert not app.instances[name].running, "it was emptied before"
                app.instances[name].stop()
                app.start(name, settings={"client.rack": RACK_OF[name]})
                restarted.append(name)
                asked.unlink()
            time.sleep(0.1)
        print(rolled.result().text)
        assert sorted(restarted) == sorted(RACK_OF), bellwether.tail()
        shares = [sum(owner == name for owner in settled(app).values()) for name in RACK_OF]
        assert max(shares) - min(shares) <= 1, shares
        assert "evacuate" not in ordered(broker, CONTROL, "orders").text


def test_an_instance_under_the_guard_runs_nothing_before_it_gets_sigterm(broker: KafkaCluster, folder: Path) -> None:
    options = ("--topic", CONTROL, "--grace", "60", "--state-dir")
    with served(broker, folder, application()) as (app, bellwether):
        rack = {"client.rack": "az2"} | DEFAULT_CLIENT_ID
        app.add("g", "az2", rack, launcher=lambda state_dir: guard_command(broker, GROUP, *options, str(state_dir)))
        guarded = app.instances["g"]
        wait_until(lambda: bool(guarded.running), SETTLE_S, bellwether.tail)
        settled(app)
        os.kill(guarded.pid, signal.SIGTERM)
        wait_until(lambda: not guarded.alive, SETTLE_S, guarded.complaints)
        said = guarded.complaints()
        assert re.search(r"It is empty after [\d.]+ s", said), said
        assert "g" not in settled(app).values()


def test_a_topology_of_which_a_broker_hides_details_is_sent_until_the_broker_accepts_it(
    broker: KafkaCluster, folder: Path
) -> None:
    """Its first subtopology reads two topics that it does not join, unlike the likely topology. The broker refuses
    that one, and so the next rebalance begins with the one that it has accepted."""
    broker.create_topic(f"{GROUP}-second", PARTITIONS)
    merged = replace(application(), topics=(f"{GROUP}-in", f"{GROUP}-second"))
    with served(broker, folder, merged) as (app, bellwether):
        for place, name in (("rack:az1", "a"), ("member:c", "c")):
            begun = begun_for_orders(bellwether)
            ordered(broker, CONTROL, "evacuate", GROUP, place, "--wait", "60")
            wait_until(lambda name=name: not app.instances[name].running, SETTLE_S, bellwether.tail)
            assert name not in settled(app).values()
            assert begun_for_orders(bellwether) == begun + 1, bellwether.tail()
            ordered(broker, CONTROL, "unpin", GROUP, "--all")
            wait_until(lambda name=name: bool(app.instances[name].running), SETTLE_S, bellwether.tail)
            settled(app)
        assert not bellwether.log("rebalance_not_begun")


def test_an_order_takes_effect_at_the_next_change_where_a_broker_accepts_no_topology(
    broker: KafkaCluster, folder: Path
) -> None:
    """Its first subtopology reads three topics and joins two of them, which no guess does."""
    for name in ("second", "table"):
        broker.create_topic(f"{GROUP}-{name}", PARTITIONS)
    more = {"app.second": f"{GROUP}-second", "app.table": f"{GROUP}-table"}
    joined = replace(application(), topology="v7", settings=application().settings | more)
    with served(broker, folder, joined) as (app, bellwether):
        before = settled(app)
        evacuated = run_to_end(
            ["evacuate", GROUP, "rack:az1", "--wait", "15", "--bootstrap", broker.bootstrap, "--topic", CONTROL]
        )
        assert evacuated.code == 1, evacuated.text
        assert "It is not in effect within 15 s" in evacuated.stderr
        # Once for the order, and again once two observations show that it is not followed, ten seconds apart.
        reasons = {entry["reason"] for entry in bellwether.logged("rebalance_not_begun", group=GROUP)}
        assert all(re.fullmatch(REFUSED, reason) for reason in reasons), reasons
        assert settled(app) == before, "nobody is disturbed"
        app.add("f", "az2", {"client.rack": "az2"})
        wait_until(lambda: not app.instances["a"].running, SETTLE_S, bellwether.tail)
        assert "a" not in settled(app).values()


def toggle(app: StreamsApp, name: str) -> None:
    """Stops an instance that runs, and starts one that does not."""
    rack = {"client.rack": RACK_OF.get(name, "az2")}
    if name not in app.instances:
        app.add(name, rack["client.rack"], rack)
    elif app.instances[name].alive:
        app.instances[name].stop()
    else:
        app.start(name, settings=rack)


@pytest.mark.proof
def test_no_task_is_lost_or_moved_while_bellwether_is_stopped_in_five_rebalances(
    broker: KafkaCluster, folder: Path
) -> None:
    """SIGSTOP: it holds its connections and answers nothing. A process joins, leaves and joins, another one leaves and
    joins. Once Bellwether continues, its plans are used again."""
    with served(broker, folder, application()) as (app, bellwether):
        owners, seen_plans = settled(app), len(bellwether.log("plan_served"))
        os.kill(bellwether.pid, signal.SIGSTOP)
        try:
            for name in ("f", "f", "f", "e", "e"):
                toggle(app, name)
                after = settled(app)
                moved = [t for t, owner in owners.items() if app.instances[owner].alive and after[t] != owner]
                assert not moved, (moved, owners, after)
                owners = after
        finally:
            os.kill(bellwether.pid, signal.SIGCONT)
        continued = time.monotonic()
        wait_until(lambda: len(bellwether.log("plan_served")) > seen_plans, SETTLE_S, bellwether.tail)
        print(f"a plan was used {time.monotonic() - continued:.1f} s after SIGCONT")
        shares = [list(settled(app).values()).count(name) for name in app.instances]
        assert max(shares) - min(shares) <= 1, shares
