"""What `make bench` writes: one page from old and new rows, and a picture of what was measured."""

from xml.etree import ElementTree as ET

from tests.lab.bench.plot import Line, chart
from tests.lab.bench.report import FRANZ, JVM, OWN, shown, written

ROW = {
    "row": "sticky, join, 2 x 10",
    "engines": {
        JVM: {"best": {"decode": 1.0, "assign": 2.0, "encode": 1.0}, "median": 5.0, "first": 95.0},
        FRANZ: {"failed": "not valid: a member has 9 partitions"},
        OWN: {"best": {"decode": 0.5, "assign": 1.0, "encode": 0.5}, "median": 2.5, "first": 3.0},
    },
    "load": "0.5",
    "commit": "0123abcd",
}
TASKS = {
    "row": "racks, 5 x 50",
    "jvm_ms": 240_000.0,
    "stopped": True,
    "own_ms": 2.0,
    "outcome": "cost 7",
    "commit": "0123abcd",
}
LIVE = {"row": "start", "outcome": "1.5 s", "load": "0.5", "commit": "-"}


def test_the_page_says_who_was_faster_and_who_failed() -> None:
    page = written({"machine": {"processor": "2 x fast"}, "consumer": [ROW], "streams": [TASKS], "live": [LIVE]})
    assert "Machine: 2 x fast." in page
    assert (
        "| sticky, join, 2 x 10 | 4.00 | - | not valid: a member has 9 partitions | 2.00 | 2.0x |"
        " 95.0, 3.00 | 0123abcd |"
    ) in page
    assert "| racks, 5 x 50 | > 240,000 | 2.00 | > 120,000.0x | cost 7 | 0123abcd |" in page
    assert "| start | 1.5 s | - |" in page


def test_the_page_shows_the_largest_row_of_each_kind_and_the_largest_of_the_jvm() -> None:
    sizes = {"5 x 50": 1.0, "50 x 500": 2.0, "500 x 5,000": None, "50 x 5,000": None}
    rows = [TASKS | {"row": f"racks, {size}", "jvm_ms": jvm_ms} for size, jvm_ms in sizes.items()]
    rows.append(TASKS | {"row": "threads, 5 x 50"})
    assert [row["row"] for row in shown(rows)] == ["racks, 50 x 500", "racks, 50 x 5,000", "threads, 5 x 50"]


def test_of_events_the_page_shows_the_slowest_and_of_records_the_largest_that_passes() -> None:
    times = {"1 join": 3.0, "cold start": 2.0}
    rows = [TASKS | {"row": f"stock, {event}, 5 x 50", "own_ms": own_ms} for event, own_ms in times.items()]
    assert [row["row"] for row in shown(rows)] == ["stock, 1 join, 5 x 50"]
    sizes = {"1 threads x 10 tasks": "passes", "2 threads x 90 tasks": "passes", "3 threads x 200 tasks": "refused"}
    records = [LIVE | {"row": f"record, Streams, {size}", "outcome": outcome} for size, outcome in sizes.items()]
    assert shown(records) == records[1:]
    members = [LIVE | {"row": f"share, {count} members"} for count in (3, 300, 30)]
    assert shown(members) == members[1:2]


def test_the_page_shows_the_largest_row_of_the_plot() -> None:
    rows = [ROW | {"row": f"sticky, join, 2 x {size} (1 topics)", "growth": size < 30} for size in (10, 20, 30)]
    assert [row["row"] for row in shown(rows)] == [rows[1]["row"], rows[2]["row"]]


def test_a_chart_has_a_line_for_everybody_who_was_measured() -> None:
    lines = [Line("ours", [(10_000, 3.0), (1_000_000, 350.0)]), Line("nobody", [])]
    picture = chart("a <title>", "partitions", "ms", lines)
    root = ET.fromstring(picture)  # noqa: S314 - Bellwether's own text
    drawn = [element.tag.rsplit("}", 1)[1] for element in root]
    assert (drawn.count("polyline"), drawn.count("circle")) == (1, 2)
    texts = [element.text for element in root if element.tag.endswith("text")]
    assert "a <title>" in texts
    assert "1,000,000" in texts
    assert "nobody" not in texts
