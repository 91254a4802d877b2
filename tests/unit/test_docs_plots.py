"""The plots of docs/evidence: drawn from the tables that are there, shown where a reader begins, readable in print."""

import re
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest

from tests.module_files import module_at
from tests.paths import DOCS

EVIDENCE = DOCS / "evidence"
IMAGE = re.compile(r"!\[([^]]*)\]\(([^)]+)\)")


@pytest.fixture(scope="module")
def plots() -> ModuleType:
    return module_at(DOCS / "plots.py", "plots_of_the_evidence")


def test_plots_are_those_of_the_tables(plots: ModuleType) -> None:
    for name, chart in plots.PLOTS.items():
        assert plots.drawn(chart()) == (EVIDENCE / name).read_text(encoding="utf-8"), "run python docs/plots.py"


def test_every_plot_is_in_the_summary_of_a_page_with_a_text_for_those_who_do_not_see_it(plots: ModuleType) -> None:
    summaries = "".join(page.read_text(encoding="utf-8").split("## Method")[0] for page in EVIDENCE.glob("*.md"))
    texts = {file: text for text, file in IMAGE.findall(summaries)}
    assert {name: len(texts.get(name, "")) >= 40 for name in plots.PLOTS} == dict.fromkeys(plots.PLOTS, True)


def test_every_axis_has_a_unit_and_every_row_a_value_on_it(plots: ModuleType) -> None:
    for name, plot in plots.PLOTS.items():
        chart = plot()
        assert re.match("seconds|percent", chart.axis), name
        assert all(row.points for row in chart.rows), name


def test_nothing_is_drawn_outside_of_the_picture(plots: ModuleType) -> None:
    for name, plot in plots.PLOTS.items():
        picture = ET.fromstring(plots.drawn(plot()))  # noqa: S314 - written here
        _, _, width, height = map(float, picture.attrib["viewBox"].split())
        places = [(float(at["x"]), float(at["y"])) for at in (child.attrib for child in picture) if "y" in at]
        assert all(0 <= x <= width and 0 <= y <= height for x, y in places), name


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (7.7, [0, 2, 4, 6, 8]),
        (100, [0, 20, 40, 60, 80, 100]),
        (45.6, [0, 10, 20, 30, 40, 50]),
        (1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
    ],
)
def test_an_axis_begins_at_zero_and_has_round_numbers(plots: ModuleType, most: float, ticks: list[float]) -> None:
    assert plots.ticks_for(most) == pytest.approx(ticks)


def test_a_table_is_found_by_its_heading(plots: ModuleType) -> None:
    steps = [row[0] for row in plots.table("leading.md", "Kills at each step of a rebalance")]
    assert steps[0] == "before JoinGroup is sent"
    assert steps[-1] == "leaving"


@pytest.mark.parametrize(
    ("cell", "value"), [("10.52 s", 10.52), ("0.7 s, no rebalance", 0.7), ("hands over instead", None)]
)
def test_the_first_time_in_a_cell_counts(plots: ModuleType, cell: str, value: float | None) -> None:
    assert plots.seconds(cell) == value
