"""Dashboards and rules are code: the JSON is what the generator writes, and they ask only for metrics that exist."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from bellwether_kafka.coordinator.runtime.events_out import events_counter, events_waiting
from bellwether_kafka.coordinator.telemetry import (
    ControlMetrics,
    CostMetrics,
    LagMetrics,
    Metrics,
    ObservedMetrics,
    PauseMetrics,
    StreamsMetrics,
)
from tests.hostile_names import NAMES
from tests.module_files import module_at
from tests.paths import DOCS, ROOT

pytestmark = pytest.mark.timeout(900)  # other programs, on a machine that may be busy

DEPLOY = ROOT / "deploy"
NAME = re.compile(r"\bbellwether_\w+")
BUILT_IN = {"__rate_interval", "__interval", "__range"}
PANELS = {"timeseries", "stat", "bargauge", "state-timeline"}
UNITS = {"short", "s", "percentunit", "dateTimeFromNow", "bytes", "Bps", "currencyUSD", "currencyEUR", "none"}
RUNBOOKS = "https://runbooks.example.com/bellwether/runbooks.md"
RECORDED = re.compile(r"\bgroup:bellwether_\w+:\w+")


def generator() -> ModuleType:
    return module_at(DEPLOY / "grafana" / "generate.py", "generate")


def metrics_shipped() -> set[str]:
    """The names of every sample that a process can expose."""
    metrics = Metrics()
    StreamsMetrics(metrics)
    ObservedMetrics(metrics)
    PauseMetrics(metrics)
    LagMetrics(metrics)
    ControlMetrics(metrics.registry)
    CostMetrics(metrics, None, None)
    events_counter(metrics.registry)
    events_waiting(metrics.registry)
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "info": ("_info",), "gauge": ("",)}
    return {
        family.name + suffix for family in metrics.registry.collect() for suffix in suffixes.get(family.type, ("",))
    }


def rules() -> list[dict[str, str]]:
    document = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def queries() -> list[tuple[str, str]]:
    of_panels = [
        (f"{d.uid}: {p.title}", q) for d in generator().dashboards() for p in d.panels for q in p.queries.values()
    ]
    return [*of_panels, *((rule.get("alert") or rule["record"], rule["expr"]) for rule in rules())]


def test_the_dashboards_are_what_the_generator_writes() -> None:
    made = {d.uid: generator().rendered(d) for d in generator().dashboards()}
    kept = {path.stem: json.loads(path.read_text()) for path in (DEPLOY / "grafana" / "dashboards").glob("*.json")}
    assert made == kept, "run python deploy/grafana/generate.py"


def test_every_query_asks_for_metrics_that_exist() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    for where, query in queries():
        assert set(RECORDED.findall(query)) <= recorded, where
        assert set(NAME.findall(RECORDED.sub("", query))) <= metrics_shipped(), where


def test_no_query_asks_for_a_label_that_an_installation_chooses() -> None:
    """The operator of Prometheus names the job after the Service, which the chart names after its release."""
    chosen = re.compile(r"\b(job|namespace|pod|service|cluster)\s*(=|!)(?!~\"\$cluster\")")  # a variable's "All" is all
    variables = [v["query"]["query"] for d in generator().dashboards() for v in variables_of(d) if v["type"] == "query"]
    assert [query for _, query in queries() if chosen.search(query)] == []
    assert [query for query in variables if chosen.search(query)] == []


def test_no_query_adds_up_or_compares_groups_of_several_clusters() -> None:
    """One Prometheus scraped two clusters with equal group ids: 27 of 32 rules dropped the label of the cluster."""
    panels = [p for d in generator().dashboards() for p in generator().rendered(d)["panels"]]
    of_panels = [(p["title"], target["expr"]) for p in panels for target in p["targets"]]
    for where, query in [*((rule.get("alert") or rule["record"], rule["expr"]) for rule in rules()), *of_panels]:
        kept = re.findall(r"\b(?:by|on) ?\(([^)]+)\)", query)
        assert [labels for labels in kept if not labels.startswith("cluster, namespace")] == [], where
        assert not re.search(r"\b(?:sum|max|min|count|group|avg|without|ignoring) ?\(", query), where
    for where, query in of_panels:
        assert len(NAME.findall(query)) == query.count('cluster=~"$cluster"'), where
    assert all("cluster" in target["legendFormat"] for p in panels for target in p["targets"])


def variables_of(dashboard: Any) -> list[dict[str, Any]]:
    variables: list[dict[str, Any]] = generator().rendered(dashboard)["templating"]["list"]
    return variables


def test_panels_do_not_overlap_and_have_a_source() -> None:
    for dashboard in generator().dashboards():
        taken: set[tuple[int, int]] = set()
        for panel in generator().rendered(dashboard)["panels"]:
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            assert not cells & taken, panel["title"]
            assert max(x for x, _ in cells) < 24
            assert panel["targets"]
            assert {t["datasource"]["uid"] for t in panel["targets"]} == {"${datasource}"}
            taken |= cells


def test_the_dashboards_are_sound() -> None:
    """What Grafana would swallow and show wrongly."""
    provisioned = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yml").read_text())
    (source,) = provisioned["datasources"]
    boards = [json.loads(path.read_text()) for path in (DEPLOY / "grafana" / "dashboards").glob("*.json")]
    assert len({board["uid"] for board in boards}) == len({board["title"] for board in boards}) == len(boards)
    for board in boards:
        panels = board["panels"]
        assert len({p["id"] for p in panels}) == len({p["title"] for p in panels}) == len(panels), board["title"]
        used = json.dumps([t["expr"] for p in panels for t in p["targets"]])
        declared = {variable["name"] for variable in board["templating"]["list"]}
        (chosen,) = [v for v in board["templating"]["list"] if v["type"] == "datasource"]
        assert chosen["current"]["value"] == source["uid"], "elsewhere Grafana offers what it has"
        assert set(re.findall(r"\$(\w+)", used)) <= declared | BUILT_IN, board["title"]
        for panel in panels:
            where = f"{board['title']}: {panel['title']}"
            assert panel["type"] in PANELS, where
            assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, where
            assert len({t["refId"] for t in panel["targets"]}) == len(panel["targets"]), where
            for target in panel["targets"]:
                assert target["legendFormat"], where
                assert target["datasource"]["uid"] == "${datasource}", where


# Fields of the Prometheus data source's own annotations, which Grafana's kind leaves to data sources.
OF_DATA_SOURCES = {"titleFormat"}


def _unknown(own: Any, theirs: Any, where: str = "") -> Iterator[str]:
    """What is not in a document any more after Grafana's own classes have read and written it."""
    if isinstance(own, dict) and isinstance(theirs, dict):
        for key in own:
            if key in theirs:
                yield from _unknown(own[key], theirs[key], f"{where}.{key}")
            elif key not in OF_DATA_SOURCES:
                yield f"{where}.{key}"
    elif isinstance(own, list) and isinstance(theirs, list) and len(own) == len(theirs):
        for number, (own_box, other) in enumerate(zip(own, theirs, strict=True)):
            yield from _unknown(own_box, other, f"{where}[{number}]")
    elif own != theirs:
        yield where


def test_grafanas_own_classes_know_every_field_of_the_dashboards() -> None:
    """grafana-foundation-sdk is generated from Grafana's kind definitions."""
    reason = "make check-deploy installs it"
    kind = pytest.importorskip("grafana_foundation_sdk.models.dashboard", reason=reason)
    encoder = pytest.importorskip("grafana_foundation_sdk.cog.encoder", reason=reason).JSONEncoder()
    plugins = pytest.importorskip("grafana_foundation_sdk.cog.plugins", reason=reason)
    plugins.register_default_plugins()

    def unknown(dashboard: dict[str, Any]) -> list[str]:
        return list(_unknown(dashboard, json.loads(encoder.encode(kind.Dashboard.from_json(dashboard)))))

    for dashboard in generator().dashboards():
        made = json.loads((DEPLOY / "grafana" / "dashboards" / f"{dashboard.uid}.json").read_text(encoding="utf-8"))
        assert unknown(made) == [], dashboard.uid
        made["panels"][0]["fieldConfig"]["defaults"]["unti"] = "s"
        assert unknown(made) == [".panels[0].fieldConfig.defaults.unti"], "a field that Grafana does not know is found"


def test_every_alert_has_a_runbook_that_exists() -> None:
    runbooks = (DOCS / "reference" / "runbooks.md").read_text(encoding="utf-8")
    headings = set(re.findall(r"^## (Bellwether\w+)", runbooks, re.MULTILINE))
    alerts = {rule["alert"]: rule for rule in rules() if "alert" in rule}
    assert set(alerts) == headings
    for name, rule in alerts.items():
        assert rule["annotations"]["runbook_url"] == f"{RUNBOOKS}#{name.lower()}", "absolute: a pager opens it"
        assert rule["labels"]["severity"] in ("page", "ticket")


def promtool() -> str:
    path = shutil.which("promtool")
    if path is None:
        assert not os.environ.get("CI"), "CI needs promtool (Debian package prometheus)"
        pytest.skip("promtool is not installed (Debian package prometheus)")
    return path


def series(metric: str, **labels: str) -> str:
    written = ",".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in labels.items())
    return f"{metric}{{{written}}}"


def test_every_name_of_a_group_can_be_read_in_an_alert(tmp_path: Path) -> None:
    """Kafka takes any text for a group id: a quote in one ended the template, a backslash changed what it asked."""
    names = [name for name in NAMES if name.isprintable()]
    storm = [
        {"series": series("bellwether_rebalances_total", group=name, reason="r", outcome="o"), "values": "0+2x40"}
        for name in names
    ]
    members = [
        {"series": series("bellwether_member_changes_total", group=name, client="app"), "values": "0+2x40"}
        for name in names
    ]
    expected = {"eval_time": "30m", "alertname": "BellwetherRebalanceStorm", "exp_alerts": []}
    document = {
        "rule_files": [str(DEPLOY / "prometheus" / "rules.yml")],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": [*storm, *members], "alert_rule_test": [expected]}],
    }
    (tmp_path / "names.yml").write_text(yaml.safe_dump(document, allow_unicode=True), encoding="utf-8")
    done = subprocess.run(
        [promtool(), "test", "rules", "names.yml"],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
    )
    shown = done.stdout + done.stderr
    assert not re.search(r"error (?:expanding|executing)|parse error", shown), shown[:2000]
    assert shown.count("Comes and goes most: app (") == len(names), "each alert names the member that comes and goes"


def test_the_rules_do_what_their_tests_say() -> None:
    for command in ("check rules rules.yml", "check config prometheus.yml", "test rules rules_test.yml"):
        reported = [promtool(), *command.split()]
        where = DEPLOY / "prometheus"
        done = subprocess.run(reported, check=False, cwd=where, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stdout + done.stderr
    tested = yaml.safe_load((DEPLOY / "prometheus" / "rules_test.yml").read_text())["tests"]
    fired = {t["alertname"] for test in tested for t in test["alert_rule_test"] if t["exp_alerts"]}
    assert fired == {rule["alert"] for rule in rules() if "alert" in rule}, "every alert is seen to fire"
