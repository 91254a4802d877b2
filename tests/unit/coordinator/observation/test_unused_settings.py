"""Settings that fit nothing in the group, and a process id that two hosts have."""

from dataclasses import replace

import pytest

from bellwether_kafka.assignors.consumer import LOAD_AWARE, Policy, decide
from bellwether_kafka.assignors.shared import Memory
from bellwether_kafka.assignors.streams import stock
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, Subtopology, Topology
from bellwether_kafka.assignors.streams.stages import StageConfigs
from bellwether_kafka.coordinator.observation import FindingKind, Observation, ObservedMember, Shadow
from tests.kit.consumers import LiveMember, cluster_of, live_group
from tests.kit.streams import Thread, ends_of, group, led

TOPOLOGY = Topology("shop", (Subtopology(0, ("orders",), changelogs=("shop-s-changelog",)),), "file")
COUNTS = {"orders": 8, "shop-s-changelog": 8}
ZONED = [Thread(name, n, ("orders",), tags=(("zone", f"az{n % 2}"),)) for n, name in enumerate("abcd", 1)]


def notes(members: list[Thread], tag: str, policy: str) -> list[str]:
    configs = AssignmentConfigs(num_standby_replicas=1, rack_aware_assignment_tags=(tag,))
    ends = ends_of(TOPOLOGY, COUNTS)
    world = {"topology": TOPOLOGY, "counts": COUNTS, "ends": ends, "assignors": stock(StageConfigs())}
    plan = led(group(*members), configs=configs, policy=policy, **world)
    return [warning for warning in plan.warnings if "rack.aware.assignment.tags" in warning]


@pytest.mark.parametrize("policy", ["kafka", "streams-ha", "sticky", "load-aware"])
def test_a_tag_that_no_member_or_not_every_member_sends_is_named(policy: str) -> None:
    """With "Zone" for "zone" all copies of 8 of 8 tasks were in one zone, silently; in Java no member would start."""
    assert notes(ZONED, "zone", policy) == []
    (typing_error,) = notes(ZONED, "Zone", policy)
    assert "client tag Zone, which no process sends; tags that are sent: zone" in typing_error
    (lost,) = notes([ZONED[0], *(replace(thread, tags=()) for thread in ZONED[1:])], "zone", policy)
    assert "not every process (not 00000000-0000-0000-0000-000000000002" in lost


def test_a_capacity_of_nobody_is_named() -> None:
    raw = live_group([LiveMember("a-1", ("t",)), LiveMember("b-1", ("t",))], 1)

    def warnings(policy: str, **capacity: float) -> list[str]:
        chosen = Policy(policy).with_capacity(capacity)
        decision = decide(raw, cluster_of({"t": 4}), Memory.empty(), chosen, now_ms=5)
        return [warning for warning in decision.warnings if "capacity" in warning]

    client = raw.members[0].member_id.rsplit("-", 5)[0]
    assert warnings(LOAD_AWARE, **{client: 2.0}) == []
    (unused,) = warnings(LOAD_AWARE, **{client: 2.0, "big-consumre": 4.0})
    assert unused == "capacity names no instance id or client id of a member: name big-consumre"
    assert warnings("kafka", nobody=2.0) == [], "no other policy uses it"


@pytest.mark.parametrize(("hosts", "double"), [(("/10.0.0.1", "/10.0.0.2"), True), (("/10.0.0.1", "/10.0.0.1"), False)])
def test_hosts_that_share_a_process_id_are_named(hosts: tuple[str, str], *, double: bool) -> None:
    """A cloned volume: both were planned as one process, silently where client.id is set."""
    decision = led(group(Thread("a", 1), Thread("b", 1), Thread("c", 2)))
    places = zip("abc", (*hosts, "/10.0.0.3"), strict=True)
    members = tuple(ObservedMember(name, None, "client", host) for name, host in places)
    shadow = Shadow.of(decision, decision.plan.before)
    seen = Observation("shop", "classic", "Stable", "stream", 0, members, shadow=shadow)
    said = [a for a in seen.with_anomalies(at_rest=True).anomalies if a.kind is FindingKind.TWO_HOSTS]
    assert [a.count for a in said] == [1] * double
    assert all("00000000-0000-0000-0000-000000000001 (/10.0.0.1 and /10.0.0.2)" in a.message for a in said)
