"""Steps on Kafka Streams applications: real instances, led from their first start or taken over."""

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.interop.support.raw import LEAVE, connect_to_coordinator, describe, text
from tests.interop.support.streams_app import Application, StreamsApp
from tests.interop.support.streams_led import application, create_internal_topics
from tests.interop.support.streams_load import Load
from tests.interop.support.streams_stage import write_topology
from tests.measure.trial.order_steps import one_line, refused
from tests.measure.trial.stage import LED_WITHIN_S, Findings, Product, Stage, after, within

SETTLE_S = 60.0
RECORDS = 60_000
KEYS = 500
REJOINS = 4  # more than two make a process suspect
BACK_S = 6.0  # shorter than the session of who stands still meanwhile
LOAD_PER_S = 200
EVACUATED_S = 60.0
SETTLING_S = 10.0


@dataclass(frozen=True, slots=True)
class LedApplication:
    """An application of two instances in az1 and az2, at rest and led by Bellwether."""

    stage: Stage
    product: Product
    app: StreamsApp
    group: str
    control: str


def readme_options(app: Application, folder: Path, **options: Any) -> dict[str, Any]:
    """README's example for an application, with the file that its command makes, the declarations that a take-over
    needs, and the numbers that the application has."""
    (folder / app.application_id).mkdir(exist_ok=True)
    return {
        "kind": "streams",
        "topology": str(write_topology(app, folder / app.application_id)),
        "topology_attested": True,
        "policy": "kafka",
        "num.standby.replicas": app.standbys,
        "processing.guarantee": app.guarantee,
        "stores": "persistent",
        "acceptable.recovery.lag": app.acceptable_recovery_lag,
        "probing.rebalance.interval.ms": app.probing_interval_ms,
        **options,
    }


@contextmanager
def led_application(
    stage: Stage, name: str, *, policy: str = "kafka", application_settings: Mapping[str, Any] | None = None
) -> Iterator[LedApplication]:
    """Internal topics are there, so Bellwether leads from the first generation on."""
    common = application(stage.cluster, name, **(application_settings or {}))
    create_internal_topics(stage.cluster, common)
    control, options = f"{name}-control", readme_options(common, stage.folder, policy=policy)
    with (
        stage.bellwether(name, options=options, control_topic=control) as product,
        StreamsApp(stage.cluster, common) as app,
    ):
        stage.led(product, name)
        for instance, rack in (("one", "az1"), ("two", "az2")):
            app.add(instance, rack)
        app.wait_settled(spread=1, limit_s=SETTLE_S)
        yield LedApplication(stage, product, app, name, control)


def evacuating_an_application_whose_policy_has_no_rules_is_refused(stage: Stage, found: Findings) -> None:
    with led_application(stage, "evacuated-kafka") as scene:
        refused(
            found,
            "evacuate under policy = kafka",
            stage.run("evacuate", scene.group, "rack:az1", "--topic", scene.control),
        )
        in_force = stage.json("orders", "--topic", scene.control)["orders"]
        found.check(not in_force, f"{len(in_force)} orders stand")


def plan_describe_and_explain_agree_after_a_take_over(stage: Stage, found: Findings) -> None:
    name = "taken-over"
    common = application(stage.cluster, name, partitions=6)
    options = readme_options(common, stage.folder, adopt="take-over", evictions_max=2)
    with StreamsApp(stage.cluster, common) as app, Load(stage.cluster, common.topics[0], keys=KEYS) as load:
        load.produce(3_000)
        for instance, rack in (("one", "az1"), ("two", "az2")):
            app.add(instance, rack)
        app.wait_settled(spread=1, limit_s=SETTLE_S)
        with stage.bellwether(name, options=options) as own:
            took_s = stage.wait_led(own, name)
            assert took_s is not None, f"it was not taken over:\n{own.process.log_of(name)}"
            app.wait_settled(limit_s=SETTLE_S)
            stage.rests(name)
            plan = stage.json("plan", name, config=own.config)
            counts = {key: plan[key] for key in ("moved", "new", "lost", "kept", "total")}
            at_rest = (counts["moved"], counts["new"], counts["lost"]) == (0, 0, 0)
            found.check(at_rest and counts["kept"] == counts["total"], f"plan {counts}")
            seen = stage.json("describe", name, config=own.config)
            moves = (seen["shadow"] or {}).get("moves", {})
            kept = moves.get("kept")
            found.check(kept == counts["kept"], f"describe keeps {kept}")
            (why,) = stage.json("explain", name, "0_0", config=own.config)
            found.check("had no owner" not in why["sentence"], f"explain: '{why['sentence']}'")
            learned = own.process.log("topology_learned")
            found.check(not learned, f"{len(learned)} lines topology_learned beside a complete file")


def an_evacuation_does_not_wait_for_the_probing_interval(stage: Stage, found: Findings) -> None:
    """Under load, and a second time: by then how fast copies are restored has been measured, slow times included."""
    settings = {"partitions": 6, "probing_interval_ms": 600_000, "session_timeout_ms": 30_000}
    with (
        led_application(stage, "evacuated-ha", policy="streams-ha", application_settings=settings) as scene,
        Load(stage.cluster, scene.app.application.topics[0], keys=KEYS) as load,
    ):
        load.produce(RECORDS)
        scene.app.wait_counted(load.expected, exactly_once=False)
        load.start(LOAD_PER_S)
        leaving = scene.app.instances["one"]
        for which in ("first", "second"):
            held = len(leaving.running)
            ended = stage.run("evacuate", scene.group, "rack:az1", "--topic", scene.control)
            assert ended.code == 0, one_line(ended)
            took_s = within(EVACUATED_S, lambda: not leaving.running and scene.app.complete())
            left = len(leaving.running)
            found.check(took_s is not None, f"{which}: {held} tasks, {left} left {after(took_s, EVACUATED_S)}")
            stage.run("unpin", scene.group, "*", "--topic", scene.control)
            within(EVACUATED_S, lambda: bool(leaving.running) and scene.app.complete())
            time.sleep(SETTLING_S)
        load.stop()


def a_new_application_is_led_from_its_second_generation(stage: Stage, found: Findings) -> None:
    """Nothing but its input and output topics is there; the file is what README's command makes of the description."""
    common = application(stage.cluster, "brand-new")
    name = common.application_id
    options = readme_options(common, stage.folder)
    with (
        stage.bellwether(name, options=options) as own,
        StreamsApp(stage.cluster, common) as app,
    ):
        stage.led(own, name)
        app.add("one", "az1")
        app.wait_settled(limit_s=SETTLE_S)
        took_s = within(
            LED_WITHIN_S,
            lambda: (now := stage.shown(name)).led_by_bellwether and now.others > 0 and own.reports_leading(name),
        )
        found.check(took_s is not None, f"leads {after(took_s)} of its first work")
        # The thread that led is removed once, and joins again before its tasks run.
        ran_s = within(LED_WITHIN_S, app.complete)
        found.check(ran_s is not None, f"every task runs {after(ran_s)} of that")
        needed = f"{name}-counts-changelog"
        reported = [line for line in own.process.text().splitlines() if needed in line]
        found.check(
            bool(reported), f"the log {'names' if reported else 'does not name'} {needed}, which the file left out"
        )


def unproven_ghosts_are_message_to_need_client_ids_unique(stage: Stage, found: Findings) -> None:
    with led_application(stage, "named-clients", application_settings={"session_timeout_ms": 20_000}) as scene:
        remedies = " ".join(
            f"{c['message']} {c['remedy']}" for c in stage.json("doctor", scene.group, config=scene.product.config)
        )
        found.check("client_ids_unique" in remedies, f"doctor {_names(remedies)}")
        scene.app.instances["two"].kill()
        scene.app.start("two")
        scene.app.wait_settled(limit_s=SETTLE_S)
        found.check(
            "client_ids_unique" in scene.product.process.text(), f"the log {_names(scene.product.process.text())}"
        )


def _names(text: str) -> str:
    return f"{'names' if 'client_ids_unique' in text else 'does not name'} client_ids_unique"


def threads_that_join_again_are_no_restarted_process(stage: Stage, found: Findings) -> None:
    """A thread loses its membership and its tasks, as after an aborted transaction, and is back under another member id
    in the same round; its process lives on. Again and again."""
    with led_application(stage, "rejoining") as scene:
        for _ in range(REJOINS):
            _expel(scene, "two", waits="one")
            scene.app.wait_settled(limit_s=SETTLE_S)
            stage.rests(scene.group)
        led = stage.shown(scene.group)
        found.check(led.led_by_bellwether, f"led by {led.leader.rsplit('-', 5)[0]} after {REJOINS} times")
        reasons = [str(entry.get("reason")) for entry in scene.product.process.log()]
        restarted = [reason for reason in reasons if "has restarted" in reason]
        found.check(not restarted, f"log: {restarted[-1:] or 'nobody has restarted'}")


def _expel(scene: LedApplication, name: str, waits: str) -> None:
    """Removes an instance's threads from the group; `waits` stands still, which holds the round open for them."""
    bootstrap = scene.stage.cluster.bootstrap

    def threads() -> set[str]:
        members = describe(bootstrap, scene.group).members
        return {m.member_id for m in members if m.client_id.startswith(name)}

    before, other = threads(), scene.app.instances[waits]
    os.kill(other.pid, signal.SIGSTOP)
    try:
        connection = connect_to_coordinator(bootstrap, scene.group)
        for member_id in before:
            connection.ask(LEAVE, text(scene.group) + text(member_id))
        connection.close()
        back_s = within(BACK_S, lambda: bool(threads()) and not threads() & before)
    finally:
        os.kill(other.pid, signal.SIGCONT)
    assert back_s is not None, f"{name} has not come back"
