"""What the demo shows: the rebalances of a group, and at the end what its members say they own."""

from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Table

from tests.lab.demo.decision_panel import Caption, decision_panel
from tests.lab.demo.group import DemoGroup

COLUMNS = ("group", "members", "partitions", "owned once", "rebalances led", "moved", "out of rack", "slowest plan")


def show_rebalances(console: Console, group: DemoGroup) -> None:
    """The rebalances since the last call."""
    decisions = group.decisions
    for at in range(group.shown, len(decisions)):
        decision = decisions[at]
        title = (
            f"group [bold]{group.group_id}[/] | protocol {decision.raw.protocol} | policy {decision.policy}"
            f" | generation {decision.raw.generation}"
        )
        caption = Caption(title, group.plans[at].timings.plan_s * 1000, group.name_of)
        console.print(decision_panel(decisions[at - 1] if at else None, decision, caption))
    group.shown = len(decisions)


def show_summary(console: Console, groups: Iterable[DemoGroup], partitions: int, took_s: float) -> None:
    table = Table(box=box.SIMPLE_HEAD, title="What the members say they own", title_justify="left")
    for heading in COLUMNS:
        table.add_column(heading, justify="left" if heading == "group" else "right")
    for group in groups:
        decisions = group.decisions
        table.add_row(
            group.group_id,
            str(len(group.members)),
            str(partitions),
            str(sum(count == 1 for count in group.owners.values())),
            str(len(decisions)),
            str(sum(decision.moves.moved for decision in decisions)),
            str(decisions[-1].cost.cross_rack),
            f"{max(planned.timings.plan_s for planned in group.plans) * 1000:.1f} ms",
        )
    console.print(table)
    console.print(f"[bold green]Every partition is owned by exactly one member in both groups.[/] {took_s:.1f} s")
