"""Part of `make prove-pipeline`: the jobs and the backtest by spark-submit on a standalone cluster, nothing changed.

A master and two workers of one core each, on loopback. Their Python has the packages of the lock and none of ours: what
is ours comes from the zip that spark-submit brings. The output is compared with a batch over the same records.
"""

import os
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark

from bellwether_kafka.pipeline.jobs import DEAD_LETTERS
from bellwether_kafka.pipeline.records.backtest import BACKTEST_POLICIES, recommendation
from bellwether_kafka.pipeline.records.codec import SchemaSet
from bellwether_kafka.pipeline.records.history import History, replay_here
from bellwether_kafka.pipeline.session import JARS
from bellwether_kafka.pipeline.source import kafka_options, read_batch
from bellwether_kafka.pipeline.tables import TABLES
from tests.interop.support.brokers import LOOPBACK, KafkaCluster, PortLease
from tests.measure.pipeline import prove_backtest
from tests.measure.pipeline.prove import TOPIC, WEIGHTS_TOPIC, same, same_weights, say
from tests.paths import ROOT
from tests.patience import PATIENCE
from tests.pipeline.spark import local_spark
from tests.pipeline.streams import HOUR_MS, closing, publish, values

SPARK_HOME = Path(pyspark.__file__).parent
EVENTS, WORKERS = 20_000, 2
LIMIT_S = 600


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="prove-submit-") as name, KafkaCluster() as kafka:
        directory = Path(name)
        kafka.create_topic(TOPIC, 3)
        kafka.create_topic(WEIGHTS_TOPIC, 1)
        kafka.create_topic(prove_backtest.TOPIC, 3)
        now_ms = int(time.time() * 1000)
        publish(kafka, TOPIC, values(EVENTS, now_ms - 4 * HOUR_MS), now_ms - 4 * HOUR_MS)
        publish(kafka, TOPIC, closing(now_ms), now_ms)
        snapshots = prove_backtest.publish(kafka)
        subprocess.run(
            [
                sys.executable,
                "-m",
                "zipfile",
                "-c",
                str(directory / "bellwether_kafka.zip"),
                "bellwether_kafka",
            ],
            cwd=ROOT,
            check=True,
        )
        output = directory / "output"
        with cluster(directory) as master:
            words = ["run", "--bootstrap", kafka.bootstrap, "--topic", TOPIC, "--weights-topic", WEIGHTS_TOPIC]
            ran = submit(directory, master, [*words, "--output", str(output), "--once", "--per-trigger", "8000"])
            say(f"{EVENTS + 4:,} events through all jobs: {ran.returncode}. {ran.stderr[-2000:]}")
            words = ["backtest", "--bootstrap", kafka.bootstrap, "--topic", prove_backtest.TOPIC]
            replayed = submit(directory, master, words)
            say(f"{snapshots:,} snapshots under every policy: {replayed.returncode}. {replayed.stderr[-2000:]}")
            executors = len(list(directory.glob("work-*/app-*/[0-9]*")))
            say(f"{executors} executors have worked for the two applications.")
        spark = local_spark()
        raw = read_batch(spark, kafka_options(kafka.bootstrap, TOPIC))
        equal = [same(spark, raw, output, table, now_ms, "parquet") for table in (*TABLES, DEAD_LETTERS)]
        equal.append(same_weights(spark, raw, kafka, now_ms))
        equal.append(advised() in replayed.stdout)
        say(f"backtest: {'the advice is that of this machine' if equal[-1] else replayed.stdout}")
    return 0 if all(equal) and executors and not ran.returncode and not replayed.returncode else 1


@contextmanager
def cluster(directory: Path) -> Iterator[str]:
    """Spark's own master and workers; the master's address."""
    port = PortLease()
    master = f"spark://{LOOPBACK}:{port.port}"
    started: list[subprocess.Popen[bytes]] = []
    try:
        started.append(daemon(directory, "master.Master", "--port", str(port.port)))
        wait_for(port.port, started[0])
        for number in range(WORKERS):
            words = ["--cores", "1", "--memory", "1g", "--work-dir", str(directory / f"work-{number}"), master]
            started.append(daemon(directory, "worker.Worker", *words))
        yield master
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(60)
        port.release()


def daemon(directory: Path, name: str, *words: str) -> "subprocess.Popen[bytes]":
    command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
    with (directory / f"{name}.log").open("ab") as log:
        return subprocess.Popen(
            [*command, "--host", LOOPBACK, "--webui-port", "0", *words],
            env=environment(directory) | {"SPARK_DAEMON_MEMORY": "256m"},
            stdout=log,
            stderr=log,
        )


def wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60 * PATIENCE
    while True:
        try:
            socket.create_connection((LOOPBACK, port), 1).close()
        except OSError:
            assert process.poll() is None, "the master ended"
            assert time.monotonic() < deadline, "the master does not listen"
            time.sleep(0.2)
        else:
            return


def submit(directory: Path, master: str, words: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    conf = {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK, "spark.ui.enabled": "false"}
    conf |= {"spark.sql.shuffle.partitions": "4"}
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master, "--executor-memory", "1g"]
    command += [
        "--jars",
        ",".join(map(str, sorted(JARS.glob("*.jar")))),
        "--py-files",
        str(directory / "bellwether_kafka.zip"),
    ]
    for name, value in conf.items():
        command += ["--conf", f"{name}={value}"]
    return subprocess.run(
        [*command, str(ROOT / "bellwether_kafka" / "pipeline" / "__main__.py"), *words],
        cwd=directory,
        env=environment(directory),
        capture_output=True,
        text=True,
        timeout=LIMIT_S * PATIENCE,
        check=False,
    )


def environment(directory: Path) -> dict[str, str]:
    """A Python that finds installed packages and not the checkout: without `site`, .pth files count for nothing."""
    python = directory / "python"
    packages = sysconfig.get_paths()["purelib"]
    python.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    return os.environ | {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": LOOPBACK, "PYSPARK_PYTHON": str(python)}


def advised() -> str:
    """What the backtest on this machine says of the same snapshots."""
    history, schemas = History(), SchemaSet.load()
    for record in prove_backtest.recorded():
        for number in range(prove_backtest.GROUPS):
            history.take(schemas, schemas.encode("snapshot", {**record, "group": f"group-{number}"}))
    return recommendation(replay_here(history, BACKTEST_POLICIES))


if __name__ == "__main__":
    raise SystemExit(main())
