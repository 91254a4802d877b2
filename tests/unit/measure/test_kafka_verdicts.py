"""How the run of Kafka's own unit tests judges what came out."""

from collections import Counter
from xml.etree import ElementTree as ET

import pytest

from tests.kafka.__main__ import Compared, Ran, outcomes, troubles

REPORT = """<testsuite>
<testcase name="moves(boolean)[1]" classname="org.a.StickyAssignorTest"><failure/></testcase>
<testcase name="moves(boolean)[2]" classname="org.a.StickyAssignorTest"/>
<testcase name="stays()" classname="org.a.RangeAssignorTest"/>
</testsuite>"""
RAN = Ran("StickyAssignorTest", 2, Counter({"moves": 1}))
LISTED = {"moves": {"fails": 1, "kind": "choice", "why": "Java walks a hash table"}}


def plan(*, same: bool = False, worse: str = "", assignor: str = "StickyAssignor") -> Compared:
    return Compared("moves", assignor, same, worse)


def test_a_report_is_read_by_class_and_method() -> None:
    report = ET.fromstring(REPORT)  # noqa: S314 - the text above
    assert outcomes(report) == [Ran("RangeAssignorTest", 1, Counter()), RAN]


def test_a_difference_that_is_listed_and_as_good_is_no_trouble() -> None:
    assert troubles(RAN, LISTED, [plan()]) == []


@pytest.mark.parametrize(
    ("told", "compared", "said"),
    [
        ({}, [plan()], "fails and is not listed"),
        ({"moves": {**LISTED["moves"], "fails": 2}}, [plan()], "fails 1 times, 2 are listed"),
        (LISTED, [plan(worse="loads 9 > 5")], "a plan is worse than Kafka's: loads 9 > 5"),
        (LISTED, [plan(assignor="RangeAssignor")], "no plan of it was compared"),
        ({"moves": {**LISTED["moves"], "kind": "order"}}, [plan()], "a matter of order, but a plan is another one"),
    ],
    ids=["not listed", "another number", "worse", "not compared", "not only the order"],
)
def test_any_other_difference_is_told(told: dict[str, dict[str, object]], compared: list[Compared], said: str) -> None:
    (trouble,) = troubles(RAN, told, compared)
    assert trouble.startswith("StickyAssignorTest.moves")
    assert said in trouble
