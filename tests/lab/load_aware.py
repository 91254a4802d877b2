"""Skewed load: 60 partitions written by Zipf's law and six consumers whose work takes time, on a real broker.

    python -m tests.lab.load_aware                      # every leader, five minutes each
    python -m tests.lab.load_aware --leaders load-aware --noise-minutes 30

A backlog waits when the members start. Three minutes later the fullest member is compared with the mean; afterwards one
member is stopped and started again. A partition moves when another member than its last owner gets it. Spark's jobs
(`make setup-pipeline`) run before members start. Ends with 1 if `load-aware` misses a goal: at most 1.05 of the lower
bound, the indivisible partition named, and no move by noise.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from confluent_kafka import ConsumerGroupTopicPartitions

from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock, Member, partitions_of, wait_until
from tests.interop.support.page import Page
from tests.interop.support.ports import LOOPBACK, PortLease
from tests.lab.demo_pipeline.__main__ import EVENTS, WEIGHTS, end, start_jobs
from tests.lab.demo_pipeline.load import Load

FloatArray = npt.NDArray[np.float64]

PARTITIONS, MEMBERS, TOPIC = 60, 6, "t"
RECORDS_PER_S, BACKLOG, RECORD_MICROSECONDS = 2_400, 120_000, 1_200
JUDGED_S, RESTART_S, AWAY_S = 180.0, 200.0, 10.0
LEADER_S = 300.0  # for each, before noise counts
CLOSE_TO_LOWER_BOUND = 1.05


@dataclass(frozen=True, slots=True)
class Leader:
    """Who assigns: an assignor of the members of this kind, or Bellwether with this policy, also with weights by
    Spark."""

    kind: str
    assignor: str
    policy: str = ""
    pipeline: bool = False


LEADERS = {
    "range": Leader("confluent", "range"),
    "cooperative-sticky": Leader("confluent", "cooperative-sticky"),
    "lag-based": Leader("kafka-python", "lag"),
    "load-aware": Leader("confluent", "cooperative-sticky", policy="load-aware"),
    "load-aware-pipeline": Leader("confluent", "cooperative-sticky", policy="load-aware", pipeline=True),
}


@dataclass(frozen=True, slots=True)
class Result:
    """`fullest`: the fullest member's load relative to the mean, when all partitions had an owner and at JUDGED_S.
    `drained_s`: when the backlog was worked off, None if it was not. `moves`: before the restart, by it, and by noise.
    `named`: whether Bellwether names the heaviest partition as too heavy to be balanced.
    """

    leader: str
    fullest: tuple[float, float]
    drained_s: float | None
    moves: tuple[int, int, int]
    named: bool = False


def zipf(seed: int = 1) -> FloatArray:
    """Returns the share of each partition; the heaviest is a random one."""
    shares: FloatArray = 1 / np.random.default_rng(seed).permutation(np.arange(1, PARTITIONS + 1))
    return shares / float(shares.sum())


def moves(members: Sequence[Member], since_s: float, until_s: float) -> int:
    """Returns how many partitions another member got than their last owner in this time, seconds since the epoch."""
    events = sorted((e for m in members for e in list(m.events) if e.kind == "assigned"), key=lambda e: e.t_ms)
    owners: dict[tuple[str, int], list[tuple[float, str]]] = {}
    for event in events:
        for partition in event.partitions:
            owners.setdefault(partition, []).append((event.t_ms / 1000, event.member))
    handed = (new for row in owners.values() for old, new in pairwise(row) if old[1] != new[1])
    return sum(since_s <= at_s < until_s for at_s, _ in handed)


def fullest(members: Sequence[Member], shares: FloatArray) -> float:
    """Returns the fullest member's share of what is written, relative to an even share."""
    by_member = Counter({m.name: sum(float(shares[p]) for _, p in m.owned()) for m in members})
    return max(by_member.values()) * MEMBERS


def lag(cluster: KafkaCluster, group: str, written: Counter[int]) -> int:
    """Returns the records that are written and not committed."""
    request = [ConsumerGroupTopicPartitions(group)]
    rows = cluster.admin.list_consumer_group_offsets(request)[group].result(timeout=30).topic_partitions or []
    committed = Counter({row.partition: max(0, row.offset) for row in rows})
    return (Counter(written) - committed).total()


@contextmanager
def assigned_by(leader: Leader, cluster: KafkaCluster, group: str) -> Iterator[Page | None]:
    """Yields the page of Bellwether if it assigns."""
    if not leader.policy:
        yield None
        return
    lease = PortLease()
    address = f"{LOOPBACK}:{lease.port}"
    sources = {"events": {"topic": EVENTS, "sample_interval_ms": 1_000}, "weights": {"topic": WEIGHTS}}
    with ExitStack() as stack:
        stack.callback(lease.release)
        settings: dict[str, Any] = {"http_address": address, **(sources if leader.pipeline else {})}
        stack.enter_context(Bellwether(cluster, [group], options={"policy": leader.policy}, **settings))
        if leader.pipeline:
            output = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="load-aware-")))
            stack.callback(end, start_jobs(cluster, output))
            # A query has read its first offsets when it has written them.
            wait_until(lambda: any(output.rglob("offsets/0")), 120, lambda: "Spark's jobs do not begin")
        yield Page(address, group)


def measured(name: str, noise_minutes: float) -> Result:
    """Measures one leader on a broker of its own."""
    leader, group, shares = LEADERS[name], f"of-{name}", zipf()
    with KafkaCluster(nodes=1) as cluster, Flock(cluster.bootstrap) as flock:
        cluster.create_topic(TOPIC, PARTITIONS)
        rates = [RECORDS_PER_S * share for share in shares.tolist()]
        load = Load({"bootstrap.servers": cluster.bootstrap, "log_level": "0"}, TOPIC, rates, record_bytes=100, seed=1)
        load.write(BACKLOG / RECORDS_PER_S)
        with assigned_by(leader, cluster, group) as page:
            started = time.monotonic()
            members = [
                flock.member(
                    leader.kind, group, [TOPIC], [leader.assignor], record_microseconds=str(RECORD_MICROSECONDS)
                )
                for _ in range(MEMBERS)
            ]
            everything = partitions_of({TOPIC: PARTITIONS})
            with load:
                wait_until(lambda: _owned(members) == everything, 60, lambda: f"{name}: not all partitions have owners")
                time.sleep(5)
                first, settled_s = fullest(members, shares), time.time()
                drained_s = _drained(cluster, group, load, started, JUDGED_S)
                _until(started + JUDGED_S)
                judged = fullest(members, shares)
                _until(started + RESTART_S)
                restart_s = time.time()
                members[0].stop()
                time.sleep(AWAY_S)
                members[0].start()
                drained_s = drained_s or _drained(cluster, group, load, started, LEADER_S)
                _until(started + LEADER_S)
                noise_s = time.time()
                time.sleep(noise_minutes * 60)
                counted = moves(members, settled_s, restart_s), moves(members, restart_s, noise_s)
                named = page is not None and f"too heavy to be balanced: {TOPIC}-{shares.argmax()} " in page.text(
                    f"/api/groups/{group}"
                )
                return Result(name, (first, judged), drained_s, (*counted, moves(members, noise_s, time.time())), named)


def _owned(members: Sequence[Member]) -> frozenset[tuple[str, int]]:
    return frozenset().union(*(m.owned() for m in members))


def _until(at: float) -> None:
    time.sleep(max(0.0, at - time.monotonic()))


def _drained(cluster: KafkaCluster, group: str, load: Load, started: float, limit_s: float) -> float | None:
    """Returns the seconds since `started` after which no more than three seconds' records wait."""
    while time.monotonic() - started < limit_s:
        if lag(cluster, group, load.written) <= 3 * RECORDS_PER_S:
            return time.monotonic() - started
        time.sleep(1)
    return None


def table(results: Mapping[str, Result]) -> str:
    bound = max(1.0, float(zipf().max()) * MEMBERS)
    lines = [
        f"lower bound of fullest/mean: {bound:.2f}, by the heaviest partition",
        "| leader | fullest/mean at first | after 180 s | drained after, s | moves | by a restart | by noise | named |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, result in results.items():
        drained = "not" if result.drained_s is None else f"{result.drained_s:.0f}"
        shares = f"{result.fullest[0]:.2f} | {result.fullest[1]:.2f}"
        cells = (*map(str, result.moves), "yes" if result.named else "no")
        lines.append(f"| {name} | {shares} | {drained} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leaders", default=",".join(LEADERS))
    parser.add_argument("--noise-minutes", type=float, default=0.0)
    arguments = parser.parse_args()
    results = {}
    for name in arguments.leaders.split(","):
        results[name] = measured(name, arguments.noise_minutes)
        print(table(results), flush=True)
    bound = max(1.0, float(zipf().max()) * MEMBERS)
    own = [result for name, result in results.items() if LEADERS[name].policy]
    reached = (r.fullest[1] <= CLOSE_TO_LOWER_BOUND * bound and not r.moves[2] and r.named for r in own)
    return int(not all(reached))


if __name__ == "__main__":
    sys.exit(main())
