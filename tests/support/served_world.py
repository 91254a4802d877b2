"""A broker's group as its assignor asks about it."""

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import Rule, Weights
from bellwether_kafka.coordinator.serving import Answers, KnownGroups, Served, TopicNames, wire
from tests.unit.coordinator.serving.requests import Asking

RACKS = ("az1", "az2", "az3")
TOPIC = [[rack] for rack in RACKS * 4]


def six(assignor: str = "bellwether-rack-first", kind: int = wire.CONSUMERS) -> Asking:
    return Asking([TOPIC], {f"m{i}": (RACKS[i % 3], {}) for i in range(6)}, assignor=assignor, kind=kind)


class World:
    """Answers, with what they know and what was reported of them."""

    def __init__(self, configured: Policy | None = None, *, racks_configured: bool = False) -> None:
        self.groups, self.topics, self.served = KnownGroups(), TopicNames(), list[Served]()
        self.rules: dict[str, tuple[Rule, ...] | None] = {}
        self.weights = Weights({})
        self.answers = Answers(
            self.groups,
            self.topics,
            lambda _: configured,
            self.served.append,
            weights=lambda _: self.weights,
            rules_of=lambda group: self.rules.get(group, ()),
            racks_configured=racks_configured,
        )

    def answer(self, asking: Asking) -> bytes:
        answer, done = self.answers.answer(asking.encode())
        done(True)
        return answer
