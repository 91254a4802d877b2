"""What `make bench` leaves in docs/evidence: figures in benchmarks.json, tables between two marks of benchmarks.md, and
a plot. Rows that were not measured this time stay as they are, so a long run may be taken in parts.
"""

import json
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.lab.bench.outcome import CLOCK
from tests.lab.bench.plot import Line, chart
from tests.paths import DOCS, commit

EVIDENCE = DOCS / "evidence"
FIGURES, PAGE, PLOT = (EVIDENCE / f"benchmarks.{ending}" for ending in ("json", "md", "svg"))
BEGIN, END = "<!-- begin of what `make bench` writes -->", "<!-- end of what `make bench` writes -->"
JVM, UNIFORM, FRANZ, OWN = "JVM", "broker's uniform", "franz-go", "Bellwether"
ENGINES = (JVM, UNIFORM, FRANZ, OWN)
DERIVED = (f"JVM / {OWN}", f"first run: JVM, {OWN}", "commit")
# The parts of a row's name that say how large it is, and what has happened; the others say what is measured.
SIZE = re.compile(
    r"(?P<size>[\d,]+(?: threads)? x [\d,]+(?: tasks)?|(?<=, )[\d,]+ members|^[\d,]+ groups)(?: \(\d+ topics\))?"
)
EVENT = re.compile(r", (?:\d+ join|cold start|join|leave|fresh|churn)(?=,)")

# Streams decisions that the plot shows: 2,000 processes, 20 of them new.
WHOLE = re.compile(r"whole decision, racks, 0 standby, .* x (?P<tasks>[\d,]+)")
FLEET = "python -m tests.lab.bench.fleet"
Figures = dict[str, Any]


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    model = next((line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "")
    memory = next((line.split()[1] for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), "0")
    return {
        "processor": f"{os.cpu_count()} x {model or platform.processor()}",
        "memory": f"{int(memory) / 2**20:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
    }


def stamp() -> dict[str, str]:
    """When, and how busy the machine was: runnable processes over the last minute."""
    clock = ", CPU" * (os.environ.get(CLOCK) == "cpu")
    at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    return {"at": at, "load": f"{os.getloadavg()[0]:.1f}{clock}", "commit": commit()}


def save(consumer: Iterable[Figures], streams: Iterable[Figures], order: Iterable[str]) -> None:
    """Merges new rows into the figures and writes page and plot. `order`: the names of all consumer rows."""
    kept: dict[str, Any] = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    rows = {row["row"]: row for row in kept.get("consumer", [])} | {row["row"]: row for row in consumer}
    tasks = {row["row"]: row for row in kept.get("streams", [])} | {row["row"]: row for row in streams}
    present = [rows[name] for name in order if name in rows]
    PLOT.write_text(_growth(present, tasks.values()))
    _write({"machine": machine(), "consumer": present, "streams": list(tasks.values()), "live": kept.get("live", [])})


def figure(row: str, outcome: str) -> Figures:
    return {"row": row, "outcome": outcome, **stamp()}


def print_and_save(row: Figures) -> None:
    """Prints a figure of real brokers or simulated ones, and merges it into the figures."""
    print(f"{row['row']}: {row['outcome']} (load {row['load']})", flush=True)
    kept: dict[str, Any] = json.loads(FIGURES.read_text()) if FIGURES.exists() else {"consumer": [], "streams": []}
    live = {earlier["row"]: earlier for earlier in kept.get("live", [])} | {row["row"]: row}
    _write({**kept, "machine": machine(), "live": list(live.values())})


def _write(figures: Figures) -> None:
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    page = PAGE.read_text()
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{written(figures)}\n{END}{after}")


def written(figures: Figures) -> str:
    """The part of the page between the marks."""
    described = ", ".join(figures["machine"].values())
    parts = [
        f"Machine: {described}. Milliseconds; best of all runs.",
        "",
        *_table(
            ["consumer groups: protocol, event, members x partitions", *ENGINES, *DERIVED],
            [_consumer_row(row) for row in shown(figures["consumer"])],
        ),
        "",
        "![Milliseconds over partitions](benchmarks.svg)",
        "",
        *_table(
            ["Streams: processes x tasks", JVM, OWN, f"JVM / {OWN}", "answers", "commit"],
            [_streams_row(row) for row in shown(figures["streams"])],
        ),
        "",
        *_table(
            [f"on a real broker (`make bench-live`); simulated (`{FLEET}`)", "outcome", "commit"],
            [[row["row"], row["outcome"], row["commit"]] for row in shown(figures["live"])],
        ),
    ]
    return "\n".join(parts)


def shown(rows: list[Figures]) -> list[Figures]:
    """Of rows that differ in size and event only: the slowest of the largest; the same of those that the JVM has done,
    or brokers take by default; and the largest of the plot."""
    by_size = sorted(rows, key=lambda row: (_size(row), _own_ms(row)))
    largest = {(_subject(row), False): row for row in by_size}
    largest |= {(_subject(row), True): row for row in by_size if _done(row)}
    names = {row["row"] for row in (*largest.values(), *[row for row in by_size if row.get("growth")][-1:])}
    return [row for row in rows if row["row"] in names]


def _subject(row: Figures) -> str:
    return EVENT.sub("", SIZE.sub("", row["row"]))


def _size(row: Figures) -> int:
    """How many partitions, tasks, members or groups; 0 where the name has no size."""
    hit = SIZE.search(row["row"])
    return int(re.findall(r"[\d,]+", hit["size"])[-1].replace(",", "")) if hit else 0


def _own_ms(row: Figures) -> float:
    return total(row["engines"][OWN]) if "engines" in row else row.get("own_ms", 0.0)


def _done(row: Figures) -> bool:
    if "engines" in row:
        return "best" in row["engines"].get(JVM, {})
    return row["jvm_ms"] is not None if "jvm_ms" in row else "refused" not in row["outcome"]


def _consumer_row(row: Figures) -> list[str]:
    cells = [row["row"]]
    for name in ENGINES:
        figures = row["engines"].get(name)
        cells.append("-" if figures is None else figures.get("failed") or ms(total(figures)))
    jvm, own = row["engines"].get(JVM, {}), row["engines"][OWN]
    cells.append(f"{total(jvm) / total(own):.1f}x" if "best" in jvm else "-")
    cells.append(", ".join([ms(figures["first"]) if "best" in figures else "-" for figures in (jvm, own)]))
    return [*cells, row["commit"]]


def _streams_row(row: Figures) -> list[str]:
    more = "> " if row["stopped"] else ""
    jvm = row["jvm_ms"]
    ratio = "-" if jvm is None else f"{more}{jvm / row['own_ms']:,.1f}x"
    return [row["row"], "-" if jvm is None else more + ms(jvm), ms(row["own_ms"]), ratio, row["outcome"], row["commit"]]


def _table(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    align = ["---", *["---:"] * (len(head) - 1)]
    return ["| " + " | ".join(cells) + " |" for cells in (head, align, *rows)]


def _growth(rows: Iterable[Figures], tasks: Iterable[Figures]) -> str:
    """Milliseconds over partitions or tasks, from the rows whose members stay the same while these grow."""
    growing = [row for row in rows if row.get("growth")]
    lines = []
    for name in ENGINES:
        sized = [(row["partitions"], row["engines"].get(name, {})) for row in growing]
        lines.append(Line(name, [(partitions, total(figures)) for partitions, figures in sized if "best" in figures]))
    whole = [(WHOLE.fullmatch(row["row"]), row["own_ms"]) for row in tasks]
    points = sorted((float(hit["tasks"].replace(",", "")), least) for hit, least in whole if hit)
    lines.append(Line(f"{OWN}, Streams", points))
    return chart("A leader's whole work: 1,000 members, one joins", "partitions or tasks", "milliseconds", lines)


def total(figures: Mapping[str, Any]) -> float:
    """The whole work of the best run."""
    return float(sum(figures["best"].values()))


def percentiles(ordered: Sequence[float]) -> str:
    if not ordered:
        return "none"
    chosen = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)], ordered[-1]
    return ", ".join(f"{name} {ms(value)}" for name, value in zip(("p50", "p99", "most"), chosen, strict=True))


def ms(value: float) -> str:
    if value < 0.1:
        return f"{value:.4f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []
