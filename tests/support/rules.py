"""Rules of placement, as an operator's orders have put them into force."""

from typing import Any

from bellwether_kafka.assignors.shared import Rule
from bellwether_kafka.coordinator.planning import Planner


def under(planner: Planner[Any], rules: tuple[Rule, ...]) -> None:
    """All later plans follow these."""

    async def rules_in_force() -> tuple[Rule, ...]:
        return rules

    planner.rules_in_force = rules_in_force
