"""Groups that doctor checks."""

from dataclasses import replace
from pathlib import Path

from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL, MembershipConfig, SizeLimit
from bellwether_kafka.coordinator.observation import Finding, Observation, ObservedMember, Shadow
from bellwether_kafka.coordinator.observation.health import DoctorFacts, examine
from bellwether_kafka.coordinator.planning import StreamsConfig
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from tests.kit.plans import decided, member
from tests.kit.streams import Thread, group, led
from tests.unit.coordinator.membership.takeover.takeover_scenes import ALWAYS_FRONT, client

ROOM = SizeLimit(1_000)
LIMITS = {"group.min.session.timeout.ms": 6_000, "group.max.session.timeout.ms": 1_800_000}


SHOP = StreamsConfig("shop", topology=Path("shop.yaml"), topology_attested=True)


def consumers(*versions: int) -> DoctorFacts:
    """Of members that speak these versions of the subscription."""
    members = [
        replace(member(f"m{n}", None), metadata=ConsumerProtocolSubscription(version=v, topics=("orders",)).encode())
        for n, v in enumerate(versions)
    ]
    decision = decided(*members)
    seen = Observation("g", "classic", "Stable", "range", 0, (), shadow=Shadow.of(decision, decision.plan.before))
    return DoctorFacts(seen, MembershipConfig("g"), "lead", 25, ("az1",), LIMITS, (4, 3), size_limit=ROOM)


def application(streams: StreamsConfig | None) -> DoctorFacts:
    decision = led(group(Thread("a", 1), Thread("b", 2)))
    seen = Observation(
        "shop", "classic", "Stable", STREAMS_PROTOCOL, 0, (), shadow=Shadow.of(decision, decision.plan.before)
    )
    config = MembershipConfig("shop", protocols=(STREAMS_PROTOCOL,))
    return DoctorFacts(seen, config, "lead", 25, ("az1",), LIMITS, (4, 3), streams, size_limit=ROOM)


def check(facts: DoctorFacts, name: str) -> Finding:
    (only,) = [check for check in examine(facts) if check.kind == name]
    return only


def thread(member_id: str, process: int, number: int = 1, active: int = 1) -> ObservedMember:
    client_id = f"shop-00112233-4455-6677-8899-{process:012x}-StreamThread-{number}-consumer"
    tasks = tuple(f"0_{n}" for n in range(active))
    return ObservedMember(member_id, None, client_id, f"/10.0.0.{process}", topics=("orders",), active=tasks)


def process(number: int) -> str:
    return f"00112233-4455-6677-8899-{number:012x} (10.0.0.{number})"


ALWAYS = client(ALWAYS_FRONT, "always")
