"""Writes the Grafana dashboards from dashboards.yml: `python deploy/grafana/generate.py`. The JSON is checked in."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
PROVISIONED = "bellwether-prometheus"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT, COLUMNS = 12, 8, 24
G = 'group=~"$group"'
C = 'cluster=~"$cluster"'
TARGETS = "cluster, namespace"  # labels of the targets, as in the rules; absent ones change nothing
METRIC = re.compile(r"\b(bellwether_\w+)(\{)?")
LABELS = re.compile(r"\b(by|on) \((?=\w)")
WHOLE = re.compile(r"\b(sum|count|max|min) ?\(")


@dataclass(frozen=True, slots=True)
class Panel:
    """`queries` maps a legend to PromQL. `kind` is Grafana's panel type; `unit` one of its units."""

    title: str
    queries: dict[str, str]
    kind: str = "timeseries"
    unit: str = "short"
    text: str = ""
    width: int = WIDTH


@dataclass(frozen=True, slots=True)
class Dashboard:
    uid: str
    title: str
    panels: tuple[Panel, ...]


def dashboards() -> list[Dashboard]:
    """What dashboards.yml says."""
    listed = yaml.safe_load((HERE / "dashboards.yml").read_text(encoding="utf-8"))
    return [Dashboard(d["uid"], d["title"], tuple(Panel(**panel) for panel in d["panels"])) for d in listed]


def rendered(dashboard: Dashboard) -> dict[str, Any]:
    """The dashboard as Grafana's JSON model."""
    panels, x, y = [], 0, 0
    for number, panel in enumerate(dashboard.panels, 1):
        if x + panel.width > COLUMNS:
            x, y = 0, y + HEIGHT
        panels.append(_panel(number, panel, x, y))
        x += panel.width
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["bellwether", "kafka"],
        "schemaVersion": 39,
        "version": 1,
        "editable": False,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "graphTooltip": 1,
        "annotations": {"list": [_rebalances()]},
        "templating": {"list": [_datasource_variable(), *_variables()]},
        "panels": panels,
    }


def of_each_cluster(query: str) -> str:
    """The query for the chosen clusters, whose groups may have equal ids: it never adds up or compares two of them."""
    query = WHOLE.sub(rf"\1 by ({TARGETS}) (", LABELS.sub(rf"\1 ({TARGETS}, ", query))
    return METRIC.sub(lambda metric: f"{metric[1]}{{{C}" + (", " if metric[2] else "}"), query)


def _panel(number: int, panel: Panel, x: int, y: int) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + i), "datasource": DATASOURCE, "expr": of_each_cluster(expression)}
        | {"legendFormat": f"{{{{cluster}}}} {legend}"}
        for i, (legend, expression) in enumerate(panel.queries.items())
    ]
    return {
        "id": number,
        "title": panel.title,
        "description": panel.text or panel.title,
        "type": panel.kind,
        "datasource": DATASOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {},
        "targets": targets,
    }


def _rebalances() -> dict[str, Any]:
    return {
        "name": "Generations",
        "datasource": DATASOURCE,
        "enable": True,
        "expr": of_each_cluster(f"changes(bellwether_generation{{{G}}}[$__interval]) > 0"),
        "titleFormat": "{{cluster}} {{group}}",
        "iconColor": "orange",
    }


def _datasource_variable() -> dict[str, Any]:
    """Whatever Prometheus a Grafana has; the one that is provisioned here is only the first choice."""
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {"text": "Prometheus", "value": PROVISIONED},
    }


def _variables() -> list[dict[str, Any]]:
    """Those of clusters and of groups. If no target has the label cluster, "All" chooses those without it."""
    chosen = {
        "cluster": ("Cluster", "label_values(bellwether_info, cluster)"),
        "group": ("Group", f"label_values(bellwether_alerts_total{{{C}}}, group)"),
    }
    return [
        {
            "name": name,
            "label": label,
            "type": "query",
            "datasource": DATASOURCE,
            "query": {"query": query, "refId": f"{name}s"},
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        }
        for name, (label, query) in chosen.items()
    ]


def main() -> None:
    folder = HERE / "dashboards"
    folder.mkdir(exist_ok=True)
    for dashboard in dashboards():
        text = json.dumps(rendered(dashboard), indent=2) + "\n"
        (folder / f"{dashboard.uid}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
