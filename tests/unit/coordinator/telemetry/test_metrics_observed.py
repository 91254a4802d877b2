"""Series of groups that are only observed."""

import math
import re
from dataclasses import replace
from pathlib import Path

from prometheus_client import CollectorRegistry

from bellwether_kafka.coordinator.observation import Observation
from bellwether_kafka.coordinator.telemetry import Metrics, ObservedMetrics
from tests.kit.observed import RACKLESS, Shared, of_fleet, refreshed
from tests.module_files import module_at
from tests.paths import ROOT


def observation(group: str) -> Observation:
    """Of a group that no setting names."""
    return replace(refreshed(of_fleet(Shared())), group_id=group)


def groups_with(metrics: Metrics, name: str) -> set[str]:
    samples = (sample for family in metrics.registry.collect() for sample in family.samples)
    return {sample.labels["group"] for sample in samples if sample.name == name}


def test_dashboards_can_choose_every_observed_group_from_its_first_observation_on() -> None:
    metrics = Metrics(CollectorRegistry())
    observed = ObservedMetrics(metrics)
    observed.on_observation(observation("a"))
    observed.on_unknown(observation("b"))
    assert groups_with(metrics, chosen_by()) == {"a", "b"}
    assert groups_with(metrics, "bellwether_observed_unknown") == {"a", "b"}


def test_where_no_rack_is_known_the_series_are_not_zero() -> None:
    metrics = Metrics(CollectorRegistry())
    ObservedMetrics(metrics).on_observation(RACKLESS)
    labels = {"group": RACKLESS.group_id, "plan": "current"}
    assert math.isnan(metrics.registry.get_sample_value("bellwether_observed_cross_rack_partitions", labels) or 0)
    assert metrics.registry.get_sample_value("bellwether_observed_unowned", labels) == 0


def test_a_group_that_is_gone_can_be_chosen_no_more() -> None:
    metrics = Metrics(CollectorRegistry())
    observed = ObservedMetrics(metrics)
    for group in ("a", "b"):
        observed.on_observation(observation(group))
    metrics.on_gone("a")
    assert groups_with(metrics, chosen_by()) == {"b"}


def chosen_by() -> str:
    """The metric from whose series the dashboards list groups."""
    generator = module_at(Path(ROOT) / "deploy" / "grafana" / "generate.py", "generate")
    (query,) = {
        variable["query"]["query"]
        for dashboard in generator.dashboards()
        for variable in generator.rendered(dashboard)["templating"]["list"]
        if variable["name"] == "group"
    }
    chosen = re.fullmatch(r"label_values\((\w+)\{cluster=.*\}, group\)", query)
    assert chosen is not None, query
    return chosen[1]
