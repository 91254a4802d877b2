"""The topology file of a program, as a user gets it from Bellwether: nothing in it is written by hand."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.interop.support.bellwether import run_to_end
from tests.interop.support.jvm import SOURCES, Release, java
from tests.lab.kafka.systests.programs import FailedError

if TYPE_CHECKING:
    from tests.lab.kafka.systests.scene import Application, Scene

DESCRIBER = SOURCES / "systests" / "describe" / "KafkaStreams.java"
UNKNOWN = "TopicConfigs: {cleanup.policy:"  # is in a comment where a store is not shown
LIMIT_S = 120.0


def _describer(release: Release, folder: Path) -> str:
    """The class path with the class that prints a topology instead of running it."""
    classpath = java(release).classpath
    compiler = shutil.which("javac") or "javac"
    subprocess.run([compiler, "-cp", classpath, "-d", str(folder), str(DESCRIBER)], check=True, timeout=LIMIT_S)
    return f"{folder}:{classpath}"


def description(scene: "Scene", app: "Application") -> str:
    """What `Topology.describe()` says of the application, from its own program. Raises FailedError."""
    program = scene.instance(app, "describe")
    reported = list(program.command)
    reported[reported.index("-cp") + 1] = _describer(app.release, scene.folder / "describe")
    done = subprocess.run(reported, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    _, separator, text = done.stdout.partition("DESCRIPTION\n")
    if not separator:
        raise FailedError(f"{app.main_class} told no topology:\n{(done.stdout + done.stderr)[-2000:]}")
    return text


def topology_file(scene: "Scene", app: "Application", number: int) -> tuple[Path, str]:
    """The file with this number, and how it came to be. First from the text alone; where that does not show all that is
    needed to create its topics, from the text and the topics of a run under Java's lead, which is reset afterwards."""
    text, file = (scene.folder / f"topology-{number}.{kind}" for kind in ("txt", "yaml"))
    text.write_text(description(scene, app), encoding="utf-8")
    words = ["topology", "parse", str(text), "--application-id", app.application_id]
    parsed = _parse(words)
    if complete(parsed):
        file.write_text(parsed, encoding="utf-8")
        return file, "text"
    with scene.rehearsing():
        file.write_text(_dry_run(scene, app, words), encoding="utf-8")
    return file, "text and topics"


def complete(text: str) -> bool:
    """Whether the head of a file has no line that is to be written by hand."""
    comments = [line for line in text.splitlines() if line.startswith("#")]
    return not any(re.search(re.escape(UNKNOWN), line) for line in comments)


def _parse(words: list[str]) -> str:
    done = run_to_end(words)
    if done.code:
        raise FailedError(f"bellwether {' '.join(words)} ended with {done.code}: {done.text}")
    return done.stdout


def _dry_run(scene: "Scene", app: "Application", words: list[str]) -> str:
    """Runs an instance until it has made its topics, parses again with brokers, and undoes all of it."""
    instance = scene.instance(app, "rehearsal")
    instance.start()
    instance.wait_for("State transition from REBALANCING to RUNNING", 90, kind="log")
    parsed = _parse([*words, "--bootstrap", scene.cluster.bootstrap])
    instance.kill()
    reset(scene, app.application_id)
    scene.cluster.admin.delete_consumer_groups([app.application_id])[app.application_id].result(timeout=30)
    scene.renew_topics()
    return parsed


def reset(scene: "Scene", application_id: str, *inputs: str) -> None:
    """Kafka's StreamsResetter: members are removed, internal topics deleted. Raises FailedError."""
    words = ["--bootstrap-server", scene.cluster.bootstrap, "--force", "--application-id", application_id]
    words += ["--input-topics", ",".join(inputs)] if inputs else []
    resetter = scene.program(f"reset-{application_id}", "org.apache.kafka.tools.StreamsResetter", *words)
    resetter.start()
    code = resetter.wait_for_end(60)
    if code:
        raise FailedError(f"StreamsResetter ended with {code}:\n{resetter.tail()}")
