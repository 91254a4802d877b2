"""The report: one page with plots, whatever tables there are, and nothing in it that could run."""

import pytest

pytest.importorskip("matplotlib", reason="the extra `pipeline` is not installed: make setup-pipeline")

import pandas as pd

from bellwether_kafka.pipeline.report import render

START = pd.Timestamp("2026-01-01 10:00")


def test_an_empty_report_says_that_there_is_nothing() -> None:
    page = render({})
    assert page.count("Nothing was recorded.") == 3
    assert "No history was replayed." in page


def test_plots_tables_and_policies_are_in_the_page_and_names_are_escaped() -> None:
    costs = pd.DataFrame(
        {
            "window_start": [START, START + pd.Timedelta(hours=1)],
            "from_rack": ["a", "a"],
            "to_rack": ["b", "a"],
            "crossed": [True, False],
            "bytes": [2_000_000_000, 5],
            "cost": [0.02, 0.0],
        }
    )
    culprits = pd.DataFrame({"group": ["g"], "member": ["<script>"], "change": ["left"], "times": [3]})
    dead = pd.DataFrame({"reason": ["late", "late", "malformed"]})
    policies = [
        {"policy": "load-aware", "snapshots": 2, "failed": 0, "rounds": 2, "moved": 3, "paused": 4}
        | {"cross_share": 0.25, "cost_per_day": 3.5, "imbalance": 1.05}
    ]
    page = render(
        {"rack_costs": costs, "culprits": culprits, "dead_letters": dead}, policies, "Recommended: load-aware."
    )
    assert page.count("data:image/png;base64,") == 2
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "<td>late</td><td class=n>2</td>" in page
    assert "<p>Recommended: load-aware.</p>" in page


def test_lag_and_rebalances_are_drawn() -> None:
    lags = pd.DataFrame(
        {
            "window_start": [START, START],
            "group": ["g", "g"],
            "topic": ["t", "t"],
            "partition": [0, 1],
            "task": [None, None],
            "role": ["active", "active"],
            "member": ["m", "m"],
            "lag_p95": [5.0, 7.0],
            "lag_last": [5, 0],
            "slope_per_s": [-1.0, None],
            "catch_up_s": [5.0, 0.0],
        }
    )
    rounds = pd.DataFrame(
        {
            "window_start": [START],
            "group": ["g"],
            "cause": ["members joined"],
            "rounds": [6],
            "moved": [12],
            "pause_us_max": [6_750],
            "storm": [True],
            "last_sentence": ["m joined"],
        }
    )
    page = render({"lag_trends": lags, "rebalances": rounds})
    assert page.count("data:image/png;base64,") == 2
    assert "m joined" in page
