"""What a fault cost beside what was promised, kept between runs and written into docs/evidence/faults.md by kinds."""

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from tests.interop.support.jvm import CACHE
from tests.paths import ROOT

KEPT = CACHE / "faults-by-kind.json"
DOC = ROOT / "docs" / "evidence" / "faults.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault, what it must result in, and what else shows that it does."""

    name: str
    must: str
    also: str


KINDS = {
    "death": Kind(
        "The sidecar is killed at each step of a rebalance",
        "Bellwether's session timeout at most, three beats where a standby waits; no assignment without bytes ever",
        "`make sim`, [leading](leading.md#kills-at-each-step-of-a-rebalance)",
    ),
    "term": Kind(
        "SIGTERM, or an internal error, at each step",
        "the group is given away before the process ends, with exit code 0 after SIGTERM",
        "`make sim`",
    ),
    "solver": Kind(
        "A plan hangs, raises, dies or eats all memory",
        "its process is killed at the decision deadline and a cheaper plan goes out",
        "`tests/unit/coordinator/planning/test_solver.py`;"
        " a Streams application: `tests/interop/streams/test_streams_plugin.py`",
    ),
    "node": Kind(
        "The coordinator node dies, ends or moves at each step",
        "errors of the protocol are ordinary: the group is found again and joined again, nothing is sent twice",
        "`make sim`",
    ),
    "connection": Kind(
        "Partitions, half-open and cut connections",
        "Bellwether's session and decision deadline at most where it cannot reach the broker",
        "`make sim`",
    ),
    "slow": Kind(
        "A slow broker, a slow link, bytes one by one", "no busy loop, frames are put together, the deadline holds", ""
    ),
    "pause": Kind(
        "The process is paused, or its event loop is blocked",
        "what it sends afterwards is refused or not sent; Bellwether's session at most",
        "`make sim`",
    ),
    "clock": Kind("The wall clock jumps", "no timer moves and no rebalance starts", ""),
    "storm": Kind(
        "Members flap",
        "work per rebalance is bounded; when the storm is over the group rests as soon as it would without Bellwether",
        "`make sim`, `make soak`, `test_cold_start_of_many_makes_no_more_generations_than_without_us`",
    ),
    "poison": Kind(
        "Poison in subscriptions and userData",
        "one degraded member that gets nothing it cannot read; the others go on",
        "`make fuzz`; Streams: `tests/interop/streams/test_streams_bad_input.py`",
    ),
    "wedge": Kind(
        "A broker up to 4.3 is wedged by a member's subscription (KAFKA-20570)",
        "named with the evidence, ended only where the operator allows it",
        "`test_a_wedged_round_is_named_and_ended_only_on_request`",
    ),
    "metadata": Kind(
        "Topics vanish, appear and grow between Bellwether's JoinGroup and its SyncGroup",
        "one read per plan, then a follow-up: everything that exists gets its owner",
        "`tests/interop/lead/test_lead_life.py`, `make sim`",
    ),
    "size": Kind(
        "A group record too large for the broker",
        "refused before it is sent, and a member leads; no member gets an error",
        "`tests/unit/coordinator/planning/test_guard.py`",
    ),
    "twins": Kind(
        "Two sidecars",
        "under one id the newer fences the older, with exit code 3; under two one leads and the other watches",
        "`make failover`, `make sim`",
    ),
    "follower": Kind(
        "Bellwether is not the leader, or loses the lead",
        "Bellwether gets no partitions and does not stay",
        "`tests/interop/lead/test_adoption.py`; Streams: `tests/interop/streams/test_streams_adoption.py`",
    ),
    "topology": Kind(
        "A wrong topology file",
        "not used, and reported; Java leads the application",
        "`test_a_wrong_topology_that_is_attested_kills_nothing_for_long` and the proofs beside it",
    ),
    "version": Kind(
        "Versions that Bellwether does not know",
        "read as far as they are known, answered in the highest that both know",
        "`make matrix`, `tests/interop/streams/test_streams_versions.py`",
    ),
    "rights": Kind(
        "Rights are missing",
        "named at the start with exit code 2, or the one feature is left out; members go on",
        "`tests/interop/security/test_acls.py`",
    ),
    "login": Kind(
        "TLS or SASL fails, certificates and logins expire",
        "refused at the start in one sentence, exit code 2;"
        " while Bellwether leads, an ordinary reconnect, or a member leads",
        "`tests/interop/security/test_lead_secured.py`, `tests/interop/security/test_lead_refusals.py`",
    ),
    "observers": Kind(
        "The events topic is missing, full or stuck, and scrapes never end",
        "no plan waits for it",
        "`tests/unit/coordinator/telemetry/test_publish.py`, `tests/pipeline/test_events_live.py`",
    ),
    "weights": Kind(
        "Absurd weights",
        "clamped or left out, within the hard rules",
        "`test_weights_age_out_and_absurd_ones_are_not_used`, `make fuzz`",
    ),
    "disk": Kind("No free byte, a file system that is read-only, no home directory", "it runs", ""),
}


@dataclass(frozen=True, slots=True)
class Row:
    """What a fault cost. `took_s`: from the fault, or from the next consumer's call to join where the group is at rest,
    until every partition has one owner, unless `outcome` says until what."""

    kind: str
    fault: str
    took_s: float
    promised_s: float
    outcome: str
    broken: tuple[str, ...]
    load: float

    @property
    def passed(self) -> bool:
        return not self.broken and self.took_s <= self.promised_s


def keep(row: Row) -> None:
    """Beside what earlier pieces have found, and into the document."""
    rows = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    rows[f"{row.kind}: {row.fault}"] = {**asdict(row), "day": _today()}
    KEPT.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    write_table()


def write_table() -> None:
    """All that is kept, into the document."""
    every = list(json.loads(KEPT.read_text(encoding="utf-8")).values())
    loads, days = [row["load"] for row in every], sorted({row["day"] for row in every})
    figures = f"{len(every)} rows of {len({row['kind'] for row in every})} kinds"
    stamp = f"{' to '.join(dict.fromkeys((days[0], days[-1])))}, load average {min(loads):.0f} to {max(loads):.0f}"
    lines = [f"{figures}, on {os.cpu_count()} cores, {stamp}."]
    for name, kind in KINDS.items():
        lines += _section(kind, [row for row in every if row["kind"] == name])
    text = DOC.read_text(encoding="utf-8")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    DOC.write_text(before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + after, encoding="utf-8")


def _today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())


def _section(kind: Kind, rows: Sequence[dict[str, object]]) -> list[str]:
    lines = ["", f"### {kind.name}", "", f"Must result in: {kind.must}.{f' Also: {kind.also}.' if kind.also else ''}"]
    if rows:
        lines += ["", "| fault | took | promised | outcome | broken |", "|---|---|---|---|---|"]
    for row in rows:
        broken = "; ".join(map(str, row["broken"] or ["none"])).replace("\n", " ").replace("|", "/")[:200]  # type: ignore[call-overload]  # from JSON
        took = f"{row['took_s']:.2f} s | {row['promised_s']:.1f} s"
        lines.append(f"| {row['fault']} | {took} | {row['outcome']} | {broken} |")
    return lines
