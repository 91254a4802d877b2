"""What doctor says of starts: the topology of an application, and the restarts that let Bellwether lead."""

from dataclasses import replace

import pytest

from bellwether_kafka.assignors.streams.application import Subtopology, Topology
from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL, MembershipConfig
from bellwether_kafka.coordinator.observation import Level, Observation, ObservedMember, Shadow, next_steps
from bellwether_kafka.coordinator.observation.health import DoctorFacts, examine
from bellwether_kafka.coordinator.settings import GroupSettings
from bellwether_kafka.coordinator.topology import upgrade
from tests.kit.streams import ANOTHER_TOPIC, MORE_STORES, SWAPPED, Thread, group, led
from tests.kit.streams import SHOP as SHOP_TOPOLOGY
from tests.unit.coordinator.membership.takeover.takeover_scenes import ids
from tests.unit.coordinator.observation.doctor_groups import (
    LIMITS,
    SHOP,
    application,
    check,
    consumers,
    process,
    thread,
)


def test_a_topology_is_as_good_as_its_source() -> None:
    attested = check(application(SHOP), "topology")
    assert attested.level is Level.PASS
    assert attested.message.startswith("2 subtopologies, digest ")
    uncertain = check(application(replace(SHOP, topology_attested=False)), "topology")
    assert (uncertain.level, "topology_attested" in uncertain.remedy) == (Level.WARN, True)
    learned = check(application(None), "topology")
    assert (learned.level, "topology learn" in learned.remedy) == (Level.WARN, True)
    assert not [check for check in examine(consumers(3)) if check.kind == "topology"], "consumers have none"


NOBODY_YET = DoctorFacts(
    seen=Observation("shop", "missing", "", "", 0),
    config=MembershipConfig("shop", protocols=(STREAMS_PROTOCOL,)),
    mode="lead",
    heartbeat_error=25,
    broker_racks=("az1", "az2"),
    limits=LIMITS,
    broker_version=(4, 3),
    streams=SHOP,
)


def test_before_a_first_start_the_topology_is_that_of_the_file_and_nothing_is_reported_of_members() -> None:
    facts = replace(NOBODY_YET, topology=SHOP_TOPOLOGY, topic_counts={"users": 4, "orders": 4})
    verdict = check(facts, "topology")
    assert (verdict.level, verdict.message) == (
        Level.PASS,
        f"2 subtopologies, digest {SHOP_TOPOLOGY.digest}, from a file, and attested.",
    )
    racks = check(facts, "racks")
    assert (racks.level, racks.message) == (
        Level.NOT_APPLICABLE,
        "No member is there to name a rack; the brokers are in az1, az2.",
    )
    assert not {"members", "topic ACLs"} & {check.kind for check in examine(facts)}
    assert check(facts, "source topics").level is Level.PASS


def test_before_a_first_start_without_a_file_a_java_member_leads_first() -> None:
    verdict = check(NOBODY_YET, "topology")
    assert (verdict.level, "a Java member leads first" in verdict.message) == (Level.WARN, True)
    stateful = replace(NOBODY_YET, streams=replace(SHOP, stateful=True))
    assert "topology" not in {check.kind for check in examine(stateful)}


@pytest.mark.parametrize(
    ("counts", "verdict", "named"),
    [
        ({"users": 4}, Level.WARN, "does not see: orders."),
        ({"users": 4, "orders": 4}, Level.PASS, "exist"),
        (None, None, ""),
    ],
)
def test_source_topics_of_a_first_start_are_searched(
    counts: dict[str, int] | None, verdict: Level | None, named: str
) -> None:
    checks = examine(replace(NOBODY_YET, topology=SHOP_TOPOLOGY, topic_counts=counts))
    verdicts = [(check.level, named in check.message) for check in checks if check.kind == "source topics"]
    assert verdicts == ([(verdict, True)] if verdict is not None else [])


def test_source_topics_that_cannot_be_joined_fail_before_a_first_start() -> None:
    joins = Topology(
        "shop",
        (
            Subtopology(
                0,
                ("left", "right", "shop-x-repartition"),
                ("shop-x-repartition",),
                ("shop-x-repartition",),
                (),
                (("left", "right"),),
            ),
        ),
        "file",
    )
    verdict = check(replace(NOBODY_YET, topology=joins, topic_counts={"left": 2, "right": 3}), "source topics")
    assert (verdict.level, "left has 2, right has 3" in verdict.message) == (Level.FAIL, True)


@pytest.mark.parametrize(
    ("new", "attested", "verdict"),
    [
        (SHOP_TOPOLOGY, False, Level.PASS),
        (MORE_STORES, True, Level.PASS),
        (MORE_STORES, False, Level.WARN),
        (ANOTHER_TOPIC, True, Level.WARN),
        (SWAPPED, True, Level.FAIL),
    ],
    ids=["alike", "stores", "stores that nobody attests", "other topics", "other numbers"],
)
def test_an_upgrade_to_another_topology_is_foreseen(new: Topology, attested: bool, verdict: Level) -> None:
    streams = replace(SHOP, topology_attested=attested)
    examined = check(replace(application(streams), new_topology=new), "upgrade")
    assert examined.level is verdict
    assert upgrade(SHOP_TOPOLOGY, new).rolling in f"{examined.message} {examined.remedy}"


def test_without_a_present_topology_the_files_are_to_be_compared() -> None:
    verdict = check(replace(consumers(3), new_topology=SHOP_TOPOLOGY), "upgrade")
    assert (verdict.level, "topology diff OLD NEW" in verdict.remedy) == (Level.WARN, True)
    assert not [check for check in examine(application(SHOP)) if check.kind == "upgrade"], "nobody asked"


def test_a_missing_declaration_is_a_failure_that_names_what_to_write() -> None:
    facts = application(SHOP)
    assert check(facts, "take-over").level is Level.PASS
    guard = GroupSettings(name="shop", mode="lead", kind="streams").takeover_obstacle()
    verdict = check(replace(facts, config=replace(facts.config, takeover_obstacle=guard)), "take-over")
    assert verdict.level is Level.FAIL
    assert '"processing.guarantee" = "at_least_once" and stores = "persistent"' in verdict.message
    assert not [check for check in examine(consumers(3)) if check.kind == "take-over"], "consumers declare nothing"


def exactly_once(*members: ObservedMember, **config: object) -> DoctorFacts:
    """An application whose leader may not be removed."""
    settings = GroupSettings(
        name="shop", mode="lead", kind="streams", **{"processing.guarantee": "exactly_once_v2", "stores": "persistent"}
    )
    facts = application(SHOP)
    guarded = replace(facts.config, takeover_obstacle=settings.takeover_obstacle(), **config)
    return replace(facts, config=guarded, seen=replace(facts.seen, members=members))


AHEAD, LATER, LAST = ids(0, 1)[0], ids(3, 1)[0], ids(7, 1)[0]


def test_what_is_exactly_once_is_adopted_by_restarts_in_an_order_that_works() -> None:
    """The report asked its reader to fix what cannot be fixed, and to stop all members for the role."""
    facts = exactly_once(thread(AHEAD, 3, active=2), thread(LATER, 2), thread(LAST, 1))
    verdict = check(facts, "adoption")
    assert verdict.level is Level.WARN
    assert "Which member leads is not visible from outside" in verdict.message
    assert "at most 3 instances, whose up to 2 active tasks pause" in verdict.message
    assert "one more rebalance after the restart of an instance that did not lead" in verdict.message
    assert "perhaps where brokers restart" in verdict.message
    assert f"(2) Restart {process(3)} first" in verdict.remedy
    assert f"(3) Restart {process(1)}, {process(2)}, one after another, until Bellwether leads." in verdict.remedy
    assert "(4) Ask bellwether doctor shop after each" in verdict.remedy
    assert check(facts, "take-over").level is Level.PASS
    assert verdict.remedy in next_steps(facts, examine(facts))


def test_threads_of_a_process_are_restarted_together() -> None:
    facts = exactly_once(thread(LATER, 1), thread(LAST, 1, 2))
    assert "(2) Restart 00112233-4455-6677-8899-000000000001 (10.0.0.1, 2 threads)" in check(facts, "adoption").remedy


def test_threads_of_a_process_are_one_instance_where_the_application_sets_the_client_id() -> None:
    """Two instances of two threads each were counted as four: their client ids differ."""
    decision = led(group(Thread("a", 1), Thread("b", 1), Thread("c", 2), Thread("d", 2)))
    threads = [
        ObservedMember(m.member_id, None, f"shop-StreamThread-{number}-consumer", f"/10.0.0.{1 + number // 2}")
        for number, m in enumerate(decision.raw.others)
    ]
    facts = exactly_once(*threads)
    shadow = Shadow.of(decision, decision.plan.before)
    verdict = check(replace(facts, seen=replace(facts.seen, shadow=shadow)), "adoption")
    assert "at most 2 instances" in verdict.message
    assert "(shop, 10.0.0.1, 2 threads)" in verdict.remedy
    assert "(shop, 10.0.0.2, 2 threads)" in verdict.remedy


def test_an_application_that_writes_transactions_is_exactly_once_whatever_the_settings_say() -> None:
    """One that was declared at_least_once passed, and a take-over would have cost a thread's tasks their state."""
    facts = application(SHOP)
    seen = replace(facts.seen, members=(thread(LATER, 1),))
    own = f"shop-{process(1).partition(' ')[0]}-1"
    others = frozenset({"shop-elsewhere-1", f"bills-{own}"})
    assert not [c for c in examine(replace(facts, seen=seen, transactional_ids=others)) if c.kind == "guarantee"]
    facts = replace(facts, seen=seen, transactional_ids=others | {own})
    verdict = check(facts, "guarantee")
    assert verdict.level is Level.FAIL
    assert own in verdict.message
    assert '"processing.guarantee" = "exactly_once_v2"' in verdict.remedy
    assert check(replace(facts, mode="observe"), "guarantee").level is Level.WARN
    declared = GroupSettings(name="shop", kind="streams", **{"processing.guarantee": "exactly_once_v2"}).streams
    assert check(replace(facts, streams=declared), "guarantee").level is Level.PASS


def test_the_stop_of_a_static_member_is_to_be_stated() -> None:
    """A broker gives the lead back to it when it returns, so a restart alone changes nothing."""
    static = replace(thread(LATER, 1), instance_id="app-1-1")
    remedy = check(exactly_once(static, thread(LAST, 2)), "adoption").remedy
    assert f"state the stop of {process(1)} while it is down: bellwether debug stopped shop member:app-1-1." in remedy
    assert "bellwether debug stopped" not in check(exactly_once(thread(LATER, 1)), "adoption").remedy


def test_the_only_member_leads() -> None:
    assert check(exactly_once(thread(LATER, 1)), "adoption").message.startswith(f"{LATER} leads, because")


def test_who_waits_for_a_leader_to_go_is_shown_the_same_steps() -> None:
    facts = exactly_once(thread(LATER, 1), adopt="succeed")
    assert check(facts, "adoption").level is Level.WARN
    for other in (
        replace(facts, mode="observe"),
        exactly_once(thread(LATER, 1), adopt="when-empty"),
        application(SHOP),
    ):
        assert not [check for check in examine(other) if check.kind == "adoption"]


def test_a_group_that_is_led_needs_no_steps() -> None:
    facts = exactly_once(thread(LATER, 1))
    led_by_bellwether = replace(
        facts, seen=replace(facts.seen, bellwether_members=(ObservedMember("bw", "bellwether", "bellwether", ""),))
    )
    assert check(led_by_bellwether, "adoption").level is Level.PASS


def test_a_bellwether_with_another_instance_id_is_named() -> None:
    facts = exactly_once(thread(LATER, 1), instance_id="mine")
    leads = ObservedMember("bw", "theirs", "bellwether", "")
    verdict = check(replace(facts, seen=replace(facts.seen, bellwether_members=(leads,))), "instance id")
    assert verdict.level is Level.WARN
    assert "has the group.instance.id 'theirs', and these settings have 'mine'" in verdict.message
