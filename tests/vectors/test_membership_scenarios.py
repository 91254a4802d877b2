"""A membership asks for what it asked for when the scenarios were last looked at."""

import json
from typing import Any

from tests.seeds import together
from tests.vectors import membership_scenarios

RECORDED = [json.loads(line) for line in membership_scenarios.FILE.read_text("utf-8").splitlines()]
SCENARIOS = {str(scenario["seed"]): scenario for scenario in RECORDED}


@together("scenario", SCENARIOS, parts=12, quick=2)
def test_a_scenario_goes_on_as_recorded(scenario: dict[str, Any]) -> None:
    for number, (now, then) in enumerate(
        zip(membership_scenarios.Scenario(scenario["seed"]).reported(), scenario["steps"], strict=True)
    ):
        assert (number, now) == (number, then)
