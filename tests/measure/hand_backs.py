"""How long applications stand still whose topology is not the one that Bellwether has, beside Java alone.

`python -m tests.measure.hand_backs`; `--only "changelog;source"` for some of the situations.
An application works when every instance is RUNNING and the group commits again. Exit code 1 if it never did.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions

from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.plugins import install
from tests.interop.support.streams_app import RUNNING, Application, StreamsApp
from tests.interop.support.streams_led import application, led
from tests.interop.support.streams_load import Load

LIMIT_S = 150.0
LEARN_S = 25.0  # of ordinary work before the upgrade


@dataclass(frozen=True, slots=True)
class Situation:
    """`before` runs first, with the topology that Bellwether has (`given`, `before` if empty); then instances are
    restarted one by one as `after`. An empty `before`: the application starts as `after`. `forgets`: an instance that
    ended starts without its state, so under another process id. `settings` are the application's; `policy` is one of
    PLUGINS."""

    name: str
    after: str
    before: str = "v1"
    given: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    forgets: bool = False
    policy: str = ""


SITUATIONS = (
    Situation("changelog", "v4"),
    Situation("second changelog", "v2"),
    Situation("repartition", "v5"),
    Situation("source", "v6"),
    Situation("removed store", "v1", before="v2"),
    Situation("wrong attestation", "v4", before="", given="v1"),
    Situation("wrong file", "v1", before="", given="v3"),
    Situation("wrong file, no state kept", "v1", before="", given="v3", forgets=True),
    Situation("wrong file, threads replaced", "v1", before="", given="v3", settings={"app.replaces": "true"}),
    Situation("plug-in without owners", "v1", before="", policy="drops"),
    Situation("plug-in for one member", "v1", before="", policy="greedy"),
)

PLUGINS = {"drops": "Drops", "greedy": "Greedy"}
PLUGIN_SOURCE = Path(__file__).with_name("starving_assignors.py")


@dataclass(frozen=True, slots=True)
class Outcome:
    """`seconds` from the last restart until the application worked, None if it never did in LIMIT_S."""

    seconds: float | None
    message: tuple[str, ...] = ()
    log: str = ""


def play(kafka: KafkaCluster, situation: Situation, name: str, folder: Path, *, leads: bool) -> Outcome:
    """One situation, with Bellwether or without."""
    second = f"{name}-second"
    kafka.create_topic(second, 4)
    first = situation.before or situation.after
    options = {"app.second": second, **situation.settings}
    common = application(kafka, name, session_timeout_ms=6_000, settings=options)
    given = replace(common, topology=situation.given or first)
    with (
        _leader(kafka, given, folder, situation.policy, leads=leads) as lead,
        StreamsApp(kafka, replace(common, topology=first)) as app,
        Load(kafka, common.topics[0], keys=50) as load,
    ):
        load.start(50)
        began = time.monotonic()
        for instance in ("one", "two"):
            app.add(instance)
        if situation.before:
            _until_working(kafka, app, situation, common)
            time.sleep(LEARN_S)
            for instance in ("one", "two"):
                app.instances[instance].stop()
                app.start(instance, replace(common, topology=situation.after))
                began = time.monotonic()
            app.application = replace(common, topology=situation.after)
        works = _until_working(kafka, app, situation, common)
        seconds = time.monotonic() - began if works else None
        load.stop()
        message = lead.log("membership") if lead is not None else []
        kept = tuple(f"{line['what']}: {line['reason']}" for line in message if line["what"] in ("ALERT", "REFUSED"))
        return Outcome(seconds, kept, lead.text() if lead is not None else "")


@contextmanager
def _leader(
    kafka: KafkaCluster, given: Application, folder: Path, policy: str, *, leads: bool
) -> Iterator[Bellwether | None]:
    if not leads:
        yield None
        return
    settings: dict[str, Any] = {"policy": policy} if policy else {}
    with led(kafka, given, folder, **settings) as lead:
        yield lead


def _until_working(kafka: KafkaCluster, app: StreamsApp, situation: Situation, common: Application) -> bool:
    """Until the instances run and three looks in a row have shown commits. What ends is started again, as an
    orchestrator would."""
    limit, rows, before = time.monotonic() + LIMIT_S, 0, -1
    while time.monotonic() < limit:
        for name in [name for name, instance in app.instances.items() if not instance.alive]:
            app.instances[name].stop()
            if situation.forgets:
                shutil.rmtree(app.instances[name].home / "state", ignore_errors=True)
            app.start(name)
        running = len(app.live) == len(app.instances) and all(i.state == RUNNING for i in app.live)
        now = _committed(kafka, common.application_id)
        rows = rows + 1 if running and now > before >= 0 else 0
        before = now
        if rows >= 3:
            return True
        time.sleep(2.0)
    return False


def _committed(kafka: KafkaCluster, group: str) -> int:
    """The sum of what the group has committed."""
    answer = kafka.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(20)
    return sum(max(0, partition.offset) for partition in answer.topic_partitions or ())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names of situations, with semicolons")
    parser.add_argument("--logs", type=Path, help="a folder for what Bellwether logs")
    parser.add_argument("--led-only", action="store_true", help="without Java alone")
    chosen = parser.parse_args()
    names = [name for name in chosen.only.split(";") if name]
    missed = 0
    with KafkaCluster(nodes=1, racks=("az1",), heap_mb=512) as kafka, tempfile.TemporaryDirectory() as folder:
        os.environ["PYTHONPATH"] = install(Path(folder) / "plugins", PLUGINS, PLUGIN_SOURCE.read_text())
        for situation in SITUATIONS:
            if names and situation.name not in names:
                continue
            for leads in (True,) if chosen.led_only else (True, False):
                who = "bellwether" if leads else "java"
                group = f"{situation.name.replace(',', '').replace(' ', '-')}-{who}"
                found = play(kafka, situation, group, Path(folder), leads=leads)
                if chosen.logs is not None:
                    (chosen.logs / f"{group}.jsonl").write_text(found.log)
                shown = "never" if found.seconds is None else f"{found.seconds:.0f} s"
                print(f"{situation.name:20} {who:10} {shown}", *found.message, sep="\n    ", flush=True)
                missed += found.seconds is None
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
