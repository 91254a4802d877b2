"""Assessments as one HTML page to share: a single file without scripts and external resources. Pure."""

from collections.abc import Sequence

from bellwether_kafka.coordinator.assessment.grids import DASH, Grid, grids, headline, lines
from bellwether_kafka.coordinator.assessment.model import Assessment
from bellwether_kafka.coordinator.names import for_html
from bellwether_kafka.coordinator.observation import Finding

_STYLE = """
:root{color-scheme:light dark;--ink:#1c2126;--dim:#5c6670;--line:#d5dade;--back:#fff;--soft:#f3f5f7;--good:#0a6b3d}
@media(prefers-color-scheme:dark){
:root{--ink:#e6e9ec;--dim:#9aa4ae;--line:#3a424a;--back:#15191d;--soft:#1e2429;--good:#5cc98f}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:64rem;padding:1rem;font:16px/1.45 system-ui,sans-serif;
color:var(--ink);background:var(--back)}
h1{font-size:1.4rem}h2{font-size:1.15rem;overflow-wrap:anywhere}h3{font-size:.95rem;margin:1.2rem 0 .3rem}
section{border-top:1px solid var(--line);padding:.5rem 0 1rem}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.25rem .8rem .25rem 0;border-bottom:1px solid var(--line);
vertical-align:top;white-space:nowrap}
th{color:var(--dim);font-weight:600}td:last-child{white-space:normal;min-width:5rem}
dt{font-weight:600;margin-top:.6rem}dd{margin:0 0 0 1rem}
.dim{color:var(--dim);font-size:.9rem}.good{color:var(--good)}
pre{background:var(--soft);padding:.7rem;overflow-x:auto;font-size:.85rem;border-radius:.3rem}
"""


def page(assessments: Sequence[Assessment], title: str = "Bellwether: assessment of consumer groups") -> str:
    """Returns the whole document, with the assessments in the order of `assessments`."""
    index = "".join(
        f"<li>{for_html(headline(assessment))}: {len(assessment.findings)} found</li>" for assessment in assessments
    )
    parts = "".join(_section(assessment) for assessment in assessments)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{for_html(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{for_html(title)}</h1><p class=dim>{DASH} marks unknown values; times are UTC.</p>"
        f"<ul>{index}</ul>{parts}</body></html>\n"
    )


def _section(assessment: Assessment) -> str:
    tables = "".join(map(_grid, grids(assessment)))
    message = "".join(map(_finding, assessment.findings)) or "<dd>Nothing was found that costs.</dd>"
    reasons = "".join(f"<li>{for_html(line)}</li>" for line in lines(assessment))
    unknown = f"<h3>Not known</h3><ul class=dim>{reasons}</ul>" if reasons else ""
    return (
        f"<section><h2>{for_html(headline(assessment))}</h2>{tables}<h3>Found</h3><dl>{message}</dl>{unknown}"
        f"<h3>To begin with</h3><pre>{for_html(assessment.configuration)}</pre></section>"
    )


def _finding(finding: Finding) -> str:
    avoided = f'<dd class="good">Bellwether: {for_html(finding.avoided)}</dd>' if finding.avoided else ""
    cannot = f"<dd>It cannot: {for_html(finding.remedy)}</dd>" if finding.remedy else ""
    return f"<dt>{for_html(finding.words)}</dt><dd>{for_html(finding.message)}</dd>{avoided}{cannot}"


def _grid(grid: Grid) -> str:
    head = "".join(f"<th>{for_html(name)}</th>" for name in grid.columns)
    body = "".join("<tr>" + "".join(f"<td>{for_html(cell)}</td>" for cell in row) + "</tr>" for row in grid.rows)
    return f'<h3>{for_html(grid.title)}</h3><div class="wide"><table><tr>{head}</tr>{body}</table></div>'
