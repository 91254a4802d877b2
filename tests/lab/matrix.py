"""`make matrix`: every client against every broker release, led by one `bellwether run`; makes
docs/evidence/interoperability.md of what was measured.

A cell is the time from a member's call to subscribe, leave, die or come back until every partition has one owner again,
by the members' own reports; the start of its process is left out. A cell fails where that does not come, or where a
rebalance in between had another leader.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.interop.support.bellwether import INSTANCE, Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.jvm import (
    BROKER_39,
    BROKER_40,
    BROKER_40_VERSION,
    CACHE,
    CURRENT,
    KAFKA_VERSION,
    STREAMS_39_VERSION,
    Release,
)
from tests.interop.support.members import Flock, Member, partitions_of, wait_settled
from tests.interop.support.ownership import double_ownership
from tests.interop.support.rebalances import rebalances
from tests.paths import ROOT, commit
from tests.patience import PATIENCE

RELEASES: dict[str, tuple[Release, str]] = {
    "3.9": (BROKER_39, STREAMS_39_VERSION),
    "4.0": (BROKER_40, BROKER_40_VERSION),
    "4.3": (CURRENT, KAFKA_VERSION),
}
STEPS = ("plan", "join", "leave", "crash", "static return")
NO_STATIC = "the client has no static membership"
NO_COOPERATIVE = "the client has no cooperative assignor"
NO_EAGER = "Streams 4 lists the cooperative protocol alone"
SESSION_MS = 6_000
RETURN_SESSION_MS = 120_000  # what comes back has so long, the start of its process included
PARTITIONS = 12
STREAMS_TASKS = 12
WAITING = {"linger_ms": 3_600_000}  # for members that come last, when the group was empty for long
LIMIT_S = 30.0
QUIET_S = 1.0
DOC = ROOT / "docs" / "evidence" / "interoperability.md"
CELLS = CACHE / "matrix"


@dataclass(frozen=True, slots=True)
class Line:
    """One client with one way to rebalance."""

    client: str
    way: str
    kind: str
    assignor: str = ""
    static: bool = True
    why_not: str = ""

    @property
    def name(self) -> str:
        return f"{self.client} {self.way}".replace(" ", "-").lower()


BOTH = (
    *(("Java 4.3", "java"), ("Java 3.9", "java-3.9"), ("confluent-kafka", "confluent"), ("franz-go", "franz-go")),
    *(("sarama", "sarama"), ("kafka-python", "kafka-python")),
)
WAYS = (("eager", "range"), ("cooperative", "cooperative-sticky"))
LINES = (
    *(Line(client, way, kind, assignor) for client, kind in BOTH for way, assignor in WAYS),
    Line("aiokafka", "eager", "aiokafka", "range"),
    Line("aiokafka", "cooperative", "aiokafka", why_not=NO_COOPERATIVE),
    Line("kafka-go", "eager", "kafka-go", "range", static=False),
    Line("kafka-go", "cooperative", "kafka-go", why_not=NO_COOPERATIVE),
)


@dataclass
class Outcome:
    """What one line came to on one broker: a text for each step."""

    line: str
    cells: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


class Life:
    """The life of one group: each step ends with every partition owned once."""

    def __init__(self, cluster: KafkaCluster, flock: Flock, lead: Bellwether, line: Line) -> None:
        self.cluster, self.flock, self.lead, self.line = cluster, flock, lead, line
        self.topic = f"{line.name}-t"
        self.members: list[Member] = []
        self.outcome = Outcome(line.name)

    def run(self) -> Outcome:
        self.cluster.create_topic(self.topic, PARTITIONS)
        steps = {"plan": self._plan, "join": self._join, "leave": self._leave, "crash": self._crash}
        for name, step in steps.items():
            if not self._step(name, self.line.name, step):
                break
        for member in self.members:
            member.stop()
        if self.line.static:
            group = static_group(self.line)
            self.members = [self._add(group, f"instance-{i}", own_process=i == 0) for i in range(2)]
            if self._step("both instances", group, lambda: None):
                self._step("static return", group, self._return)
        else:
            self.outcome.cells["static return"] = "n/a"
        return self.outcome

    def _step(self, name: str, group: str, work: Callable[[], str | None]) -> bool:
        """Does it, and measures until the group is whole."""
        began, before = time.monotonic(), self._generation(group)
        try:
            extra = work() or ""
            wait_settled(
                self.members, partitions_of({self.topic: PARTITIONS}), spread=1, limit_s=LIMIT_S, quiet_s=QUIET_S
            )
            ended = time.monotonic() - min(member.quiet_s for member in self.members)
            took_s = max(0.0, ended - began - self._starting_s(began))
            self._led_by_bellwether(group)
            twice = double_ownership(m for m in self.flock.members if m.group == group)
            assert not twice, twice
        except AssertionError as error:
            self.outcome.cells[name] = "FAILED"
            self.outcome.failed.append(f"{group}, {name}: {error}\nbellwether:\n{self.lead.log_of(group)}")
            return False
        same = name == "static return" and self._generation(group) == before
        self.outcome.cells[name] = f"{took_s:.1f} s{extra}" + (", no rebalance" if same else "")
        return True

    def _starting_s(self, began: float) -> float:
        """How long the youngest member's process took until it called subscribe(), since this step began."""
        began_ms = (time.time() - time.monotonic() + began) * 1000
        called = [event.t_ms for member in self.members for event in list(member.events) if event.kind == "joined"]
        return max(0.0, (max(called, default=0) - began_ms) / 1000)

    def _plan(self) -> None:
        self.members = [self._add(self.line.name, own_process=number == 2) for number in range(3)]

    def _join(self) -> None:
        self.members.append(self._add(self.line.name))

    def _leave(self) -> None:
        self.members.pop(0).stop()

    def _crash(self) -> None:
        """Its process was made for this."""
        self.members.pop(1).kill()

    def _return(self) -> None:
        """A process under the same instance id takes the place of one that was killed."""
        self.members.pop(0).kill()
        self.members.insert(0, self._add(static_group(self.line), "instance-0", own_process=True))

    def _add(self, group: str, instance: str | None = None, *, own_process: bool = False) -> Member:
        return self.flock.member(
            self.line.kind,
            group,
            [self.topic],
            [self.line.assignor],
            instance=instance,
            session_ms=RETURN_SESSION_MS if instance else SESSION_MS,
            own_process=own_process,
            more={"property.max.poll.interval.ms": str(RETURN_SESSION_MS)} if instance else {},  # librdkafka insists
        )

    def _generation(self, group: str) -> int:
        return max((r.generation for r in rebalances(self.cluster, group)), default=0)

    def _led_by_bellwether(self, group: str) -> None:
        led = rebalances(self.cluster, group)
        assert led, "the broker logged no rebalance"
        strangers = [r for r in led if not r.leader.startswith(f"{INSTANCE}-")]
        assert not strangers, f"a member led: {strangers}"


def static_group(line: Line) -> str:
    return f"{line.name}-static"


def groups(line: Line) -> list[str]:
    """The groups that one line lives in, to be led by Bellwether."""
    return [line.name, static_group(line)] if line.static else [line.name]


def run(release: str, chosen: Sequence[Line]) -> list[Outcome]:
    """All these lines on one broker of this release, one after another."""
    jars, version = RELEASES[release]
    able = [line for line in chosen if not line.why_not]
    with (
        KafkaCluster(nodes=1, racks=("az1",), heap_mb=512, release=jars) as cluster,
        Flock(cluster.bootstrap) as flock,
        Bellwether(cluster, [group for line in able for group in groups(line)], options=WAITING) as lead,
    ):
        print(f"broker {version}, {len(able)} lines", flush=True)
        return [keep(release, Life(cluster, flock, lead, line).run()) for line in able]


def keep(release: str, outcome: Outcome) -> Outcome:
    """Prints the outcome, and writes it beside those of earlier pieces."""
    print(release, outcome.line, outcome.cells, *outcome.failed, flush=True)
    now = time.strftime("%Y-%m-%d", time.gmtime())
    stamp = {"when": now, "load": f"{os.getloadavg()[0]:.0f}", "commit": commit()}
    cells = kept(release) | {outcome.line: {**outcome.cells, **stamp}}
    CELLS.mkdir(parents=True, exist_ok=True)
    (CELLS / f"{release}.json").write_text(json.dumps(cells, indent=1), encoding="utf-8")
    return outcome


def document(reported: Mapping[str, Mapping[str, Mapping[str, str]]]) -> str:
    """The page of these cells: by line, by step, by release, and the line's "when", "load" and "commit"."""
    parts = [f"| client | rebalance | {', s | '.join(STEPS)}, s |", "| --- " * 7 + "|"]
    measured = failed = 0
    for line in (*LINES, *STREAMS_LINES):
        figures = []
        for step in STEPS:
            cells = [_cell(line, reported.get(release, {}).get(line.name, {}), step) for release in RELEASES]
            measured += sum(cell.endswith((" s", "no rebalance")) for cell in cells)
            failed += cells.count("FAILED")
            figures.append("n/a" if set(cells) == {"n/a"} else "; ".join(_figure(step, cell) for cell in cells))
        parts.append(f"| {line.client} | {line.way} | {' | '.join(figures)} |")
    parts.append("")
    lines = [cells for by_line in reported.values() for cells in by_line.values()]
    days = " and ".join(sorted({cells["when"][:10] for cells in lines}))
    loads = sorted(int(cells.get("load", "0")) for cells in lines) or [0]
    machine = f"{os.cpu_count()} cores at a load average of {loads[0]} to {loads[-1]}"
    commits = ", ".join(sorted({cells.get("commit", "-") for cells in lines}))
    summary = f"{measured} cells measured, {failed} failed; {days}, {machine}; commit {commits}."
    return "\n".join([HEAD.replace("SUMMARY", summary), *parts])


def kept(release: str) -> dict[str, dict[str, str]]:
    """The cells that all pieces have written so far."""
    path = CELLS / f"{release}.json"
    cells: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return cells


def _cell(line: Line, cells: Mapping[str, str], step: str) -> str:
    if line.why_not or (step == "static return" and not line.static):
        return "n/a"
    return cells.get(step, "not run")


def _figure(step: str, cell: str) -> str:
    """The seconds of a cell, with a note where a static return was a rebalance."""
    figure = cell.removesuffix(", no rebalance").removesuffix(" s")
    return f"{figure}, a rebalance" if step == "static return" and cell.endswith(" s") else figure


HEAD = f"""# Clients and brokers

Seconds from a member's call to join, leave, die (kill -9) or come back under its `group.instance.id` until every one of
{PARTITIONS} partitions has one owner again, by the members' own reports, while Bellwether leads. For Streams: until
each of {STREAMS_TASKS} tasks is restored and runs. `make matrix` writes this page; do not edit it.

SUMMARY

A cell has a figure for each broker: {"; ".join(version for _, version in RELEASES.values())}. `plan` is the first plan
for three members (two instances of Streams), the start of a process not included. `crash` includes the session timeout,
{SESSION_MS // 1000} s. The generation stayed in every static return without a note.
A cell fails after {LIMIT_S * PATIENCE:.0f} s, where two members held a partition, or where Bellwether did not lead.
"n/a": {NO_COOPERATIVE} (aiokafka and kafka-go); {NO_STATIC} (kafka-go);
{NO_EAGER}.
"""
STREAMS_LINES = (
    Line("Streams 4.3", "eager", "streams", why_not=NO_EAGER),
    Line("Streams 4.3", "cooperative", "streams"),
    Line("Streams 3.9", "eager", "streams-3.9"),
    Line("Streams 3.9", "cooperative", "streams-3.9"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Clients and brokers, each with each.")
    parser.add_argument("--release", nargs="*", choices=list(RELEASES), default=list(RELEASES))
    parser.add_argument("--client", nargs="*", help="only lines whose name begins so")
    options = parser.parse_args()
    from tests.lab.matrix_streams import run_streams

    outcomes = []
    for release in options.release:
        chosen = [line for line in LINES if _chosen(line, options.client)]
        streams = [line for line in STREAMS_LINES if _chosen(line, options.client) and not line.why_not]
        outcomes += run(release, chosen) if any(not line.why_not for line in chosen) else []
        outcomes += [keep(release, run_streams(release, line)) for line in streams]
    DOC.write_text(document({release: kept(release) for release in RELEASES}), encoding="utf-8")
    return 1 if any(outcome.failed for outcome in outcomes) else 0


def _chosen(line: Line, beginnings: Sequence[str] | None) -> bool:
    return not beginnings or any(line.name.startswith(beginning.lower()) for beginning in beginnings)


if __name__ == "__main__":
    sys.exit(main())
