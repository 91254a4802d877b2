"""A decision as a table: what is there, in a width that fits a terminal."""

import io

import numpy as np
import pytest
from rich.console import Console

from bellwether_kafka.assignors.consumer import PartitionPlan
from bellwether_kafka.assignors.shared import ClusterView, Decision
from bellwether_kafka.coordinator.cli.output import ranges
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.consumers import decided_group
from tests.lab.demo.decision_panel import Caption, decision_panel, partitions


def drawn(previous: Decision[PartitionPlan] | None, decision: Decision[PartitionPlan], width: int = 100) -> str:
    out = io.StringIO()
    caption = Caption("group g", took_ms=2.4, name=lambda member: f"<{member}>")
    Console(file=out, width=width).print(decision_panel(previous, decision, caption))
    return out.getvalue()


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([0], "0"), ([0, 1], "0-1"), ([0, 1, 2, 5, 7, 8], "0-2,5,7-8"), ([3, 5], "3,5")],
)
def test_ranges(numbers: list[int], text: str) -> None:
    assert ranges(numbers) == text


def test_partitions_are_grouped_by_topic() -> None:
    cluster = ClusterView.of({"a": [["x"]] * 3, "b": [["x"]] * 2})
    assert partitions(cluster, np.array([4, 0, 1])) == "a 0-1\nb 1"


def test_the_table_shows_before_after_and_change() -> None:
    owned = {"a": (TopicPartition("orders", 0), TopicPartition("orders", 1))}
    members = {"a": ("orders",), "b": ("orders",)}
    text = drawn(None, decided_group(members, {"orders": 2}, protocol="cooperative-sticky", owned=owned))
    row = next(line for line in text.splitlines() if "<a>" in line)
    assert "orders 0-1" in row
    assert "- orders 1" in row
    assert "<b> gets orders 1 in the next rebalance" in text
    assert "kept 1, moved 1, new 0" in text
    assert "2 ms" in text


def test_a_member_that_is_gone_is_shown_with_what_it_had() -> None:
    before = decided_group({"a": ("orders",), "b": ("orders",)}, {"orders": 2})
    text = drawn(before, decided_group({"a": ("orders",)}, {"orders": 2}))
    row = next(line for line in text.splitlines() if "<b>" in line and "gone" in line)
    assert "- orders 1" in row
    assert "why   <b> left or died" in text


def test_warnings_are_shown() -> None:
    assert "does not exist, so no member gets it: topic nowhere" in drawn(
        None, decided_group({"a": ("nowhere",)}, {"orders": 1})
    )


@pytest.mark.parametrize("width", [60, 100, 200])
def test_it_fits_the_width(width: int) -> None:
    members = {f"a-member-with-a-rather-long-name-{i}": ("orders", "payments") for i in range(12)}
    text = drawn(None, decided_group(members, {"orders": 50, "payments": 40}), width)
    assert max(map(len, text.splitlines())) <= width
