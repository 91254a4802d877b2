"""Shows that no panel is empty: `make prove-dashboards`. Real brokers, a real Streams application, plain consumers, one
Bellwether with everything switched on and a real Prometheus with the shipped rules; then every query is asked.

What is provoked: growth with warm-ups, a dead instance and its ghosts, a plug-in that is too slow, a member whose bytes
nobody can read (refused, then left to it), an operator's order, a group that is only observed.
"""

import argparse
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import yaml
from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from bellwether_kafka.coordinator.events import SchemaSet
from tests.deploy.smoke import smoke
from tests.interop.support.bellwether import COMMAND, Bellwether, ordered
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock, partitions_of, wait_settled, wait_until
from tests.interop.support.ports import LOOPBACK, PortLease
from tests.interop.support.raw import RawError, RawMember
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_application import Application
from tests.interop.support.streams_led import application, settings_of
from tests.interop.support.streams_load import Load
from tests.paths import ROOT

PROMETHEUS = ROOT / "deploy" / "prometheus"
DASHBOARDS = ROOT / "deploy" / "grafana" / "dashboards"
STREAMS, PLAIN, SLOW, UNEXPECTED, OBSERVED = "shop-counts", "shop-orders", "shop-slow", "shop-strange", "shop-observed"
CONTROL, EVENTS, WEIGHTS = "shop-control", "shop-events", "shop-weights"
LIMIT_S = 240.0
RESTORED = 20_000
# A machine that is busy with others must not cost Bellwether the lead: a member that leads shows nothing.
PATIENT = {"session_timeout_ms": 10_000, "decision_deadline_ms": 6_000}
# What Grafana puts in: a span of four scrapes is the least that rate() can work with.
VARIABLES = {"$group": ".*", "$__rate_interval": "1m", "$__interval": "15s", "$__range": "1h"}
SLOW_PLUGIN = '''
"""An assignor that takes longer than any leader may."""
import time
from bellwether_kafka.assignors.consumer import BUILT_IN


class Slow:
    name = "slow"
    cooperative = False

    def assign(self, group, cluster):
        time.sleep(30)
        return BUILT_IN["range"].assign(group, cluster)
'''


@dataclass(frozen=True, slots=True)
class Query:
    """`where` says what shows it."""

    where: str
    text: str


def substituted(text: str) -> str:
    """With the template variables that Grafana fills in, and without the 0 that some panels draw for want of series.
    Raises ValueError for any other variable."""
    text = text.replace(" or on() vector(0)", "")
    for name, value in VARIABLES.items():
        text = text.replace(name, value)
    if "$" in text:
        raise ValueError(f"unknown variable in {text}")
    return text


def queries() -> Iterator[Query]:
    """Of all panels, annotations and template variables of all dashboards, and every recorded series."""
    for path in sorted(DASHBOARDS.glob("*.json")):
        board = json.loads(path.read_text())
        for panel in board["panels"]:
            for target in panel["targets"]:
                yield Query(f"{path.stem}: {panel['title']}", substituted(target["expr"]))
        for note in board["annotations"]["list"]:
            yield Query(f"{path.stem}: annotation {note['name']}", substituted(note["expr"]))
        for variable in board["templating"]["list"]:
            if variable["type"] != "query":
                continue
            hit = re.fullmatch(r"label_values\((.+), *(\w+)\)", variable["query"]["query"])
            assert hit is not None, variable
            yield Query(f"{path.stem}: variable {variable['name']}", f'{hit[1]}{{{hit[2]}!=""}}')
    for rule in _rules():
        if "record" in rule:
            yield Query("recording rule", rule["record"])


def documented() -> dict[str, str]:
    """The metrics of docs/reference/metrics.md, by the name of one sample that each must have."""
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `((?:bellwether|kafka)_\w+)`, (\w+) \|", page, re.MULTILINE)
    return {name: f"{name}_count" if kind == "histogram" else name for name, kind in rows}


def _rules() -> list[dict[str, str]]:
    groups = yaml.safe_load((PROMETHEUS / "rules.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


class Prometheus:
    """Debian's prometheus with the shipped rules, scraping one process each second; a context manager."""

    def __init__(self, folder: Path, target: str) -> None:
        self._lease = PortLease()
        self._folder = folder
        self._target = target
        self._process: subprocess.Popen[bytes] | None = None
        self._began = time.time()

    def __enter__(self) -> Self:
        config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["rule_files"] = [str(PROMETHEUS / name) for name in config["rule_files"]]
        for job in config["scrape_configs"]:
            job["static_configs"] = [{"targets": [self._target]}]
        (self._folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        files = f"--config.file={self._folder / 'prometheus.yml'}", f"--storage.tsdb.path={self._folder / 'data'}"
        address = f"--web.listen-address={LOOPBACK}:{self._lease.port}"
        self._process = subprocess.Popen(["prometheus", *files, address, "--log.level=warn"])
        try:
            wait_until(self._up, 60, lambda: "prometheus does not scrape")
        except AssertionError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(30)
        self._lease.release()

    def series(self, query: str) -> int:
        """How many series with a number at any time of the run a query has: what a panel would draw."""
        start, end = f"{self._began:.0f}", f"{time.time():.0f}"
        series = self._ask("query_range", query=query, start=start, end=end, step="5")["result"]
        return sum(any(not math.isnan(float(value)) for _, value in row["values"]) for row in series)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._lease.port}"

    def sick_rules(self) -> list[str]:
        groups = self._ask("rules")["groups"]
        return [f"{r['name']}: {r.get('lastError')}" for g in groups for r in g["rules"] if r["health"] != "ok"]

    def _up(self) -> bool:
        try:
            return bool(self._ask("query", query='up{job="bellwether"} == 1')["result"])
        except OSError:
            return False

    def _ask(self, what: str, **parameters: str) -> Any:
        url = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310 - an address on loopback
            return json.load(answer)["data"]


def missing_to_smoke(bellwether_url: str, prometheus_url: str) -> list[str]:
    """What the smoke script misses here: all but the consumers, which are called otherwise, and Grafana."""
    script: Any = smoke()
    script.BELLWETHER, script.PROMETHEUS = bellwether_url, prometheus_url
    checks = (script.ready, script.targets_up, script.rules_loaded)
    return [check.__name__ for check in checks if not script.holds(check)]


def bellwether(cluster: KafkaCluster, folder: Path, app: Application, address: str) -> Bellwether:
    """The process with everything on; its slow plug-in is in the folder."""
    info = folder / "slow-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: slow\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[bellwether.assignors]\nslow = slow_plugin:Slow\n")
    (folder / "slow_plugin.py").write_text(SLOW_PLUGIN)
    stages: dict[str, Any] = {"policy": "streams-ha", "host_affinity_ms": 60_000, "max_concurrent_moves": 4, **PATIENT}
    streams = settings_of(app, folder, ghosts=True, client_ids_unique=True, **stages)
    (folder / "strange.yaml").write_text(Path(streams["topology"]).read_text().replace(STREAMS, UNEXPECTED))
    own = {
        STREAMS: streams,
        PLAIN: {"policy": "rack-first"},
        SLOW: {"policy": "slow", "decision_deadline_ms": 2_000},
        UNEXPECTED: {"kind": "streams", "topology": str(folder / "strange.yaml")},
    }
    return Bellwether(
        cluster,
        list(own),
        options={"subscribes": False},
        own=own,
        beside=[{"name": OBSERVED}],
        command=("env", f"PYTHONPATH={folder}{os.pathsep}{ROOT}", *COMMAND),
        http_address=address,
        control_topic=CONTROL,
        metrics_by_task=True,
        lag_exporter_cluster_name="prove",
        events={"topic": EVENTS, "sample_interval_ms": 1_000},
        weights={"topic": WEIGHTS},
        cost={"price_per_gb": 0.02},
    )


def weigh(cluster: KafkaCluster) -> None:
    """As the pipeline does: so many bytes per second for each partition of the plain group."""
    cluster.create_topic(WEIGHTS)
    producer, schemas = Producer(cluster.client_config("admin", "admin")), SchemaSet.load()
    for partition in range(6):
        weight = {"topic": PLAIN, "partition": partition, "bytes_per_s": 1e6, "records_per_s": 1e3, "windows": 9}
        value = schemas.encode("weight", weight | {"estimated_at_ms": int(time.time() * 1000)})
        producer.produce(WEIGHTS, key=f"{PLAIN}-{partition}".encode(), value=value)
    if producer.flush(60):
        raise RuntimeError("the weights could not be written")


def read_something(cluster: KafkaCluster, topic: str) -> None:
    """Lags are known once members have read and committed."""
    producer = Producer(cluster.client_config("admin", "admin"))
    for number in range(600):
        producer.produce(topic, value=b"x", partition=number % 6)
    if producer.flush(60):
        raise RuntimeError(f"nothing could be written to {topic}")


def plain_groups(cluster: KafkaCluster, flock: Flock) -> None:
    """Members in racks that come and go, a group whose plan is late, one that is observed, one that cannot be read."""
    for group in (PLAIN, SLOW, OBSERVED):
        cluster.create_topic(group, 6)
    members = [flock.member("confluent", PLAIN, [PLAIN], ["cooperative-sticky"], rack=f"az{n}") for n in (1, 2)]
    slow = flock.member("confluent", SLOW, [SLOW])
    watched = flock.member("confluent", OBSERVED, [OBSERVED])
    for group, of in ((PLAIN, members), (SLOW, [slow]), (OBSERVED, [watched])):
        wait_settled(of, partitions_of({group: 6}), limit_s=120)
    read_something(cluster, OBSERVED)
    third = flock.member("confluent", PLAIN, [PLAIN], ["cooperative-sticky"], rack="az3")
    wait_settled([*members, third], partitions_of({PLAIN: 6}), spread=1, limit_s=120)
    third.stop()
    wait_settled(members, partitions_of({PLAIN: 6}), limit_s=120)
    ordered(cluster, CONTROL, "pin", PLAIN, f"{PLAIN}-0", "rack:az2")
    with RawMember(cluster.bootstrap, UNEXPECTED, [("stream", b"\x00")]) as unexpected:
        try:
            unexpected.rebalance()
        except (RawError, TimeoutError) as error:
            print(f"the unexpected member received {error}", file=sys.stderr)


def streams_life(app: StreamsApp, load: Load) -> None:
    """State, growth with warm-ups, and an instance that dies and comes back as another member."""
    load.produce(RESTORED)
    app.add("one", "az1")
    app.add("two", "az2")
    app.wait_settled(spread=1, limit_s=LIMIT_S)
    app.wait_counted(load.expected, limit_s=LIMIT_S)
    load.start(200)
    app.add("three", "az3")
    app.wait_settled(spread=1, limit_s=LIMIT_S)
    app.instances["two"].kill()
    app.start("two")
    app.wait_settled(limit_s=LIMIT_S)
    load.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.dashboards", description=__doc__)
    parser.parse_args()
    began = time.monotonic()
    with ExitStack() as stack:
        cluster = stack.enter_context(KafkaCluster())
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="bellwether-dashboards-")))
        weigh(cluster)
        common = application(cluster, STREAMS, standbys=1, session_timeout_ms=45_000, rack_strategy="min_traffic")
        lease = PortLease()
        stack.callback(lease.release)
        address = f"{LOOPBACK}:{lease.port}"
        lead = bellwether(cluster, folder, common, address)
        stack.push(lead)
        lead.start(wait=False)
        prometheus = stack.enter_context(Prometheus(folder, address))
        app = stack.enter_context(StreamsApp(cluster, common))
        load = stack.enter_context(Load(cluster, common.topics[0], keys=500))
        flock = stack.enter_context(Flock(cluster.bootstrap))
        try:
            plain_groups(cluster, flock)
            streams_life(app, load)
        except AssertionError as error:
            raise AssertionError(f"{error}\nbellwether: {lead.tail()}") from error
        time.sleep(5)  # the last scrapes and rules; nothing is judged by it
        answers = [(query, prometheus.series(query.text)) for query in queries()]
        scraped = {name: prometheus.series(sample) for name, sample in documented().items()}
        sick = [*prometheus.sick_rules(), *missing_to_smoke(f"http://{address}", prometheus.url)]
    return print_result(answers, scraped, sick, time.monotonic() - began)


def print_result(
    answers: Sequence[tuple[Query, int]], scraped: Mapping[str, int], sick: Sequence[str], took_s: float
) -> int:
    """Prints everything; the exit code."""
    table = Table("where", "query", "series")
    for query, series in answers:
        table.add_row(query.where, query.text, str(series), style="bold red" if not series else None)
    for name, series in scraped.items():
        table.add_row("docs/reference/metrics.md", name, str(series), style="bold red" if not series else None)
    Console(width=200).print(table)
    empty = [query.where for query, series in answers if not series]
    missing = [name for name, series in scraped.items() if not series]
    print(f"{len(answers)} queries, {len(empty)} empty: {empty}")
    print(f"{len(scraped)} metrics, {len(missing)} never scraped: {missing}")
    print(f"rules and smoke checks that failed: {list(sick)}; {took_s:.0f} s")
    return 1 if empty or missing or sick else 0


if __name__ == "__main__":
    sys.exit(main())
