"""Shows a Streams application as tables: who runs which task, what warms up and how far behind it is, and the racks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from tests.interop.support.bellwether import INSTANCE
from tests.interop.support.rebalances import Rebalance
from tests.interop.support.streams_app import Instance, StreamsApp
from tests.interop.support.streams_load import Totals
from tests.interop.support.streams_stage import foreign_partitions

SHOWN_LAGS = 3


@dataclass(frozen=True, slots=True)
class Scene:
    """What one disturbance came to, from the reports of the instances and the brokers' logs."""

    what: str
    settled_s: float
    rebalances: Sequence[Rebalance]
    unowned_ms_max: int
    moves: int
    restored: int
    loaded: int
    foreign: int


def lags(app: StreamsApp, instance: Instance) -> dict[str, int]:
    """Per standby or warm-up task of an instance the records it is behind, as of the last batch it read."""
    stores = {name: task for task, names in app.application.changelogs.items() for name in names}
    behind: dict[str, int] = dict.fromkeys(instance.standbys, 0)
    for (topic, partition), lag in list(instance.lags.items()):
        task = f"{stores[topic]}_{partition}"
        if task in behind:
            behind[task] += lag
    return behind


def warm_ups(app: StreamsApp) -> list[tuple[str, str, int]]:
    """(task, instance, lag) of copies beyond the configured standbys: the most behind of each task, sorted."""
    copies: dict[str, list[tuple[int, str]]] = {}
    for instance in app.live:
        for task, lag in lags(app, instance).items():
            copies.setdefault(task, []).append((lag, instance.name))
    standbys = app.application.standbys
    extra = [
        (task, name, lag)
        for task, of_task in copies.items()
        for lag, name in sorted(of_task, reverse=True)[: max(0, len(of_task) - standbys)]
    ]
    return sorted(extra)


def show_tasks(console: Console, app: StreamsApp) -> None:
    """One row per instance: its rack, its tasks, its copies, and how many partitions it reads from another rack."""
    shown = Table(box=box.SIMPLE_HEAD)
    for heading in ("instance", "rack", "state", "stateful", "stateless", "standby", "out of rack"):
        shown.add_column(heading, justify="right" if heading == "out of rack" else "left")
    stateful = {str(subtopology) for subtopology in app.application.changelogs}
    for instance in app.instances.values():
        tasks = sorted(instance.running)
        foreign, total = foreign_partitions(app, dict.fromkeys(tasks, instance.name))
        state = instance.state if instance.alive else "[red]DEAD[/]"
        kinds = (" ".join(task for task in tasks if (task.split("_")[0] in stateful) is kind) for kind in (True, False))
        standbys = " ".join(sorted(instance.standbys))
        shown.add_row(instance.name, instance.rack or "", state, *kinds, standbys, f"{foreign}/{total}")
    console.print(shown)


def progress(app: StreamsApp) -> str:
    """One line: tasks per instance and what warms up."""
    loads = "  ".join(f"{i.name} {len(i.running):2}" for i in app.live)
    warming = warm_ups(app)
    listed = ", ".join(f"{task} on {name} {lag:,} behind" for task, name, lag in warming[:SHOWN_LAGS])
    more = f" and {len(warming) - SHOWN_LAGS} more" if len(warming) > SHOWN_LAGS else ""
    return f"{loads}  {f'warming up: {listed}{more}' if warming else ''}"


def show_rebalances(console: Console, decisions: Sequence[Mapping[str, Any]]) -> None:
    """Bellwether's own log of its rebalances: why, what moved, what it held back and for what."""
    shown = Table(
        box=box.SIMPLE_HEAD, title="rebalances, in Bellwether's words", title_justify="left", title_style="dim"
    )
    for heading in ("generation", "why", "warm-ups", "moved", "held back", "out of rack", "next probe", "plan"):
        shown.add_column(heading, justify="left" if heading in ("why", "warm-ups") else "right")
    for message in decisions:
        probing = message["probing_in_ms"]
        shown.add_row(
            str(message["generation"]),
            message["cause"],
            "\n".join(message["warmups"]),
            f"{message['moved']}/{message['tasks']}",
            str(message["pending"]),
            str(message["cross_rack"]),
            f"{probing / 1000:.0f} s" if probing else "",
            f"{message['plan_ms']:.0f} ms",
        )
    if decisions:
        console.print(shown)


def show_summary(console: Console, scenes: Sequence[Scene]) -> None:
    shown = Table(box=box.SIMPLE_HEAD, title="What it came to", title_justify="left")
    for heading in ("scene", "settled", "rebalances", "led by", "longest gap", "moves", "restored", "standbys read"):
        shown.add_column(heading, justify="left" if heading in ("scene", "led by") else "right")
    shown.add_column("out of rack", justify="right")
    for scene in scenes:
        leaders = sorted({_name(led.leader) for led in scene.rebalances})
        shown.add_row(
            scene.what,
            f"{scene.settled_s:.1f} s",
            str(len(scene.rebalances)),
            ", ".join(leaders),
            f"{scene.unowned_ms_max:,} ms",
            str(scene.moves),
            f"{scene.restored:,}",
            f"{scene.loaded:,}",
            str(scene.foreign),
        )
    console.print(shown)


def _name(member_id: str) -> str:
    return INSTANCE if member_id.startswith(INSTANCE) else member_id.split("-StreamThread", maxsplit=1)[0]


def show_counts(console: Console, totals: Totals, expected: Totals) -> None:
    shown = Table(box=box.SIMPLE_HEAD, title="What the stores hold", title_justify="left")
    for heading in ("", "keys", "records", "distinct", "never came", "in windows"):
        shown.add_column(heading, justify="left" if not heading else "right")
    for name, sums in (("produced", expected), ("counted", totals)):
        numbers = (sums.keys, sums.seen, sums.distinct, sums.missing, sums.windowed)
        shown.add_row(name, *(f"{number:,}" for number in numbers))
    console.print(shown)
