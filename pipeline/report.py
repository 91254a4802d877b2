"""The tables as one HTML page with plots that people can look at and send on: no scripts, no other files.

`render` is pure: data frames in, HTML out. A table that is empty or missing is a sentence, not an error.
"""

import base64
import html
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import pandas as pd

mpl.use("agg")
from matplotlib.figure import Figure

LINES_MAX = 8
ROWS_MAX = 20
_STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
h1,h2{font-weight:600}img{max-width:100%}table{border-collapse:collapse}
td,th{padding:.2rem .8rem .2rem 0;text-align:left;border-bottom:1px solid #ddd}td.n{text-align:right}"""

Tables = Mapping[str, pd.DataFrame]


def render(tables: Tables, policies: Sequence[Mapping[str, Any]] = (), advice: str = "") -> str:
    """The page. `policies` are rows of `backtest.summary`, `advice` its recommendation."""
    sections = [
        ("Cost across racks", _plot(tables, "rack_costs", _costs)),
        ("Lag", _plot(tables, "lag_trends", _lags)),
        ("Standbys and partitions that catch up slowest", _rows(tables, "lag_trends", _slowest)),
        ("Rebalances: moved partitions and pauses", _plot(tables, "rebalances", _moves)),
        ("Storms", _rows(tables, "rebalances", _storms)),
        ("Who causes rebalances", _rows(tables, "culprits", _culprits)),
        ("Heaviest partitions", _rows(tables, "rates", _heaviest)),
        ("Policies compared", _policies(policies, advice)),
        ("Records that are in no table", _rows(tables, "dead_letters", _dead)),
    ]
    body = "".join(f"<h2>{html.escape(title)}</h2>{content}" for title, content in sections)
    title = "Bellwether: what assignments cost"
    return f"<!doctype html><meta charset=utf-8><title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>{body}\n"


def _plot(tables: Tables, name: str, draw: Callable[[Any, pd.DataFrame], None]) -> str:
    table = tables.get(name)
    if table is None or table.empty:
        return "<p>Nothing was recorded.</p>"
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    draw(figure.subplots(), table)
    return _image(figure, name)


def _image(figure: Figure, name: str) -> str:
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110)
    return f'<img alt="{html.escape(name)}" src="data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}">'


def _rows(tables: Tables, name: str, choose: Callable[[pd.DataFrame], pd.DataFrame]) -> str:
    table = tables.get(name)
    chosen = choose(table).head(ROWS_MAX) if table is not None and not table.empty else None
    if chosen is None or chosen.empty:
        return "<p>None.</p>"
    return _table(list(chosen.columns), chosen.itertuples(index=False, name=None))


def _table(columns: Sequence[str], rows: Any) -> str:
    head = "".join(f"<th>{html.escape(str(column))}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(value: Any) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    text = f"{value:,.2f}".rstrip("0").rstrip(".") if number else str(value)
    return f"<td{' class=n' if number else ''}>{html.escape(text)}</td>"


def _lines(axes: Any, table: pd.DataFrame, by: str, value: str, how: str) -> None:
    """One line per value of `by`, the largest ones only."""
    wide = table.pivot_table(index="window_start", columns=by, values=value, aggfunc=how).fillna(0)
    for column in wide.sum().sort_values(ascending=False).index[:LINES_MAX]:
        axes.plot(wide.index, wide[column], label=str(column), marker=".")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    axes.set_ylim(bottom=0)


def _costs(axes: Any, table: pd.DataFrame) -> None:
    crossed = table[table["crossed"]].assign(pair=lambda t: t["from_rack"] + " to " + t["to_rack"])
    if crossed.empty:
        axes.text(0.5, 0.5, "nothing crosses racks", ha="center")
        return
    _lines(axes, crossed, "pair", "bytes", "sum")
    axes.set_ylabel("bytes per hour")
    axes.set_title(f"{crossed['bytes'].sum() / 1e9:,.3f} GB crossed racks, {crossed['cost'].sum():,.2f} in money")


def _lags(axes: Any, table: pd.DataFrame) -> None:
    _lines(axes, table, "group", "lag_p95", "max")
    axes.set_ylabel("records behind (p95, worst partition)")


def _moves(axes: Any, table: pd.DataFrame) -> None:
    _lines(axes, table, "group", "moved", "sum")
    axes.set_ylabel("partitions moved")
    longest = table["pause_us_max"].max()  # of the leader's part, which is not known of groups that are only observed
    pause = f", longest pause {longest / 1e3:,.0f} ms" if pd.notna(longest) else ""
    axes.set_title(f"{int(table['rounds'].sum())} rebalances{pause}")


def _slowest(table: pd.DataFrame) -> pd.DataFrame:
    newest = table.sort_values("window_start").groupby(["group", "topic", "partition", "role"], as_index=False).last()
    behind = newest[newest["lag_last"] > 0]
    columns = ["group", "topic", "partition", "task", "role", "member", "lag_last", "slope_per_s", "catch_up_s"]
    return behind.sort_values("lag_last", ascending=False)[columns]


def _storms(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["storm"]][["window_start", "group", "cause", "rounds", "moved", "last_sentence"]]


def _culprits(table: pd.DataFrame) -> pd.DataFrame:
    total = table.groupby(["group", "member", "change"], as_index=False)["times"].sum()
    return total.sort_values("times", ascending=False)


def _heaviest(table: pd.DataFrame) -> pd.DataFrame:
    median = table.groupby(["topic", "partition"], as_index=False)[["bytes_per_s", "records_per_s"]].median()
    return median.sort_values("bytes_per_s", ascending=False)


def _dead(table: pd.DataFrame) -> pd.DataFrame:
    return table.groupby("reason", as_index=False).size().rename(columns={"size": "records"})


def _policies(policies: Sequence[Mapping[str, Any]], advice: str) -> str:
    if not policies:
        return "<p>No history was replayed.</p>"
    figure = Figure(figsize=(9, 2.8), layout="constrained")
    names = [row["policy"] for row in policies]
    titles = {"imbalance": "fullest member / mean", "cross_share": "load across racks", "moved": "partitions moved"}
    for axes, (field, title) in zip(figure.subplots(1, 3), titles.items(), strict=True):
        axes.barh(names[::-1], [row[field] for row in policies][::-1])
        axes.set_title(title, fontsize=10)
    sentences = "".join(f"<p>{html.escape(line)}</p>" for line in advice.splitlines())
    columns = ["policy", "snapshots", "failed", "rounds", "moved", "paused", "cross_share", "cost_per_day", "imbalance"]
    return sentences + _image(figure, "policies") + _table(columns, [[row[c] for c in columns] for row in policies])
