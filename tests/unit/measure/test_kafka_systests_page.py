"""The page of Kafka's system tests shows what is kept of them."""

import json

from tests.kafka.systests.results import KEPT, PAGE, Outcome, page
from tests.kafka.systests.scenarios import SCENARIOS


def test_the_page_shows_what_is_kept() -> None:
    kept = [Outcome(**row) for row in json.loads(KEPT.read_text(encoding="utf-8"))]
    fresh = "run python -m tests.kafka.systests.results"
    assert page(kept, SCENARIOS) == PAGE.read_text(encoding="utf-8"), fresh
