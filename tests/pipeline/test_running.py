"""`pipeline run` ends when it is stopped, whatever Spark is doing, and says so when Spark ends first."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra `pipeline` is not installed: make setup-pipeline")

from bellwether_kafka.pipeline import running
from bellwether_kafka.pipeline.session import JARS
from tests.conftest import missing_tool
from tests.interop.support.brokers import KafkaCluster
from tests.paths import ROOT
from tests.pipeline.spark import QUICK_JVM
from tests.pipeline.streams import children, ended

LIMIT_S = 240
pytestmark = pytest.mark.timeout(2 * LIMIT_S)

Driver = subprocess.Popen[str]


@pytest.fixture
def driver(kafka: KafkaCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Driver]:
    """One job, once its query has been started."""
    if not JARS.is_dir():
        missing_tool(request.config, "Spark's jars are not there (make setup-pipeline): no streaming jobs")
    topic = f"running-{uuid.uuid4().hex}"
    kafka.create_topic(topic, 1)
    words = ["run", "--bootstrap", kafka.bootstrap, "--topic", topic, "--output", str(tmp_path), "--master", "local[1]"]
    command = [
        "env",
        f"JAVA_TOOL_OPTIONS={QUICK_JVM}",
        sys.executable,
        "-m",
        "bellwether_kafka.pipeline",
        *words,
        "--jobs",
        "dead_letters",
        "--stop-limit",
        "2",
    ]
    pipe = subprocess.PIPE
    started = subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    try:
        assert started.stdout is not None
        assert "dead_letters" in started.stdout.readline()
        yield started
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
        started.communicate()


def test_a_spark_that_hangs_does_not_keep_the_jobs_from_ending(driver: Driver) -> None:
    (jvm,) = children(driver.pid)
    os.kill(jvm, signal.SIGSTOP)
    driver.terminate()
    _, message = driver.communicate(timeout=LIMIT_S)
    assert driver.returncode == 0, message[-2000:]
    assert "Spark did not stop within 2 s" in message
    ended([jvm], LIMIT_S)


def test_the_end_of_sparks_jvm_is_a_sentence(driver: Driver) -> None:
    (jvm,) = children(driver.pid)
    os.kill(jvm, signal.SIGKILL)
    _, message = driver.communicate(timeout=LIMIT_S)
    assert driver.returncode == 1
    assert "Spark's JVM ended" in message
    assert "Traceback" not in message.split("Spark's JVM ended")[0], message[-2000:]


def test_what_cannot_be_removed_ends_no_job(capsys: pytest.CaptureFixture[str]) -> None:
    """A file system that refused it once ended all jobs, at each start."""

    def refused() -> None:
        raise PermissionError(1, "Operation not permitted", "day=2026-01-01")

    assert running._until([], [], refused) is None
    assert "it is tried again in 6 hours" in capsys.readouterr().err
