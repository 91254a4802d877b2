"""What doctor says of versions, topologies and the arithmetic of sessions; the faults of live groups are found in
tests/interop/test_plan_and_doctor.py."""

from dataclasses import replace

import pytest
from confluent_kafka import KafkaError

from bellwether_kafka.assignors.consumer import LOAD_AWARE, Policy
from bellwether_kafka.coordinator.ghosts import GhostOptions
from bellwether_kafka.coordinator.kafka.client import SettingOfBroker
from bellwether_kafka.coordinator.membership import (
    STREAMS_PROTOCOL,
    Code,
    DescribeAnswer,
    DescribedMember,
    MembershipConfig,
    SizeLimit,
    is_bellwether,
)
from bellwether_kafka.coordinator.observation import (
    Finding,
    Level,
    Observation,
    ObservedMember,
    Unknown,
    next_steps,
    observation,
    worst,
)
from bellwether_kafka.coordinator.observation.health import examine
from bellwether_kafka.coordinator.planning import RackSource
from tests.kit.membership import own_subscription
from tests.kit.observed import group_lag, sample
from tests.kit.plans import member
from tests.kit.streams import Thread, group
from tests.unit.coordinator.membership.takeover.takeover_scenes import GROUP
from tests.unit.coordinator.observation.doctor_groups import (
    ALWAYS,
    SHOP,
    application,
    check,
    consumers,
)

NO_REQUEST = "not every broker has the request DescribeLogDirs"


@pytest.mark.parametrize(
    ("topic", "log_sizes", "verdict", "message"),
    [
        ("w", None, Level.PASS, "load-aware uses the weights in the topic w."),
        ("", True, Level.PASS, "load-aware weighs records and bytes: brokers report the sizes of logs."),
        ("", None, Level.PASS, "if brokers report the sizes of logs; that was not asked."),
        ("", False, Level.WARN, "load-aware weighs records only: no broker reports"),
    ],
)
def test_doctor_names_the_source_of_weights(topic: str, log_sizes: bool | None, verdict: Level, message: str) -> None:
    by_load = replace(consumers(3), policy=Policy(LOAD_AWARE), weights_topic=topic, log_sizes=log_sizes)
    answer = check(by_load, "weights")
    assert answer.level is verdict
    assert message in answer.message
    assert ("DESCRIBE on Cluster" in answer.remedy) is (log_sizes is False)


def test_doctor_names_why_it_is_not_known_whether_brokers_report_log_sizes() -> None:
    by_load = replace(consumers(3), policy=Policy(LOAD_AWARE), log_sizes_unread=NO_REQUEST)
    answer = check(by_load, "weights")
    assert (answer.level, answer.remedy) == (Level.PASS, "")
    assert answer.message.endswith("of logs; not every broker has the request DescribeLogDirs.")


def test_doctor_names_the_source_of_weights_of_an_application_and_of_no_other_policy() -> None:
    assert not [check for check in examine(consumers(3)) if check.kind == "weights"]
    by_load = replace(application(replace(SHOP, policy=LOAD_AWARE)), log_sizes=True)
    assert "records and bytes" in check(by_load, "weights").message


def test_versions_of_members_are_reported_and_mixed_ones_explained() -> None:
    assert check(consumers(3, 3), "versions").message == "Members send subscriptions v3."
    mixed = check(consumers(1, 3), "versions")
    assert (mixed.level, mixed.message) == (
        Level.PASS,
        "Members send subscriptions v1, v3; each gets an assignment that all versions can read.",
    )
    assert check(application(SHOP), "versions").message == "Members send subscription data of Streams v11."


def test_members_that_are_newer_than_bellwether_get_a_remedy() -> None:
    facts = consumers(3, 3)
    assert facts.seen.shadow is not None
    decision = facts.seen.shadow.decision
    newer = replace(member("m9", None), metadata=b"\x00\x09" + decision.raw.members[0].metadata[2:])
    raw = replace(decision.raw, members=(*decision.raw.members, newer))
    shadow = replace(facts.seen.shadow, decision=replace(decision, raw=raw))
    verdict = check(replace(facts, seen=replace(facts.seen, shadow=shadow)), "versions")
    assert (verdict.level, "m9" in verdict.message, "upgrade Bellwether" in verdict.remedy) == (
        Level.WARN,
        True,
        True,
    )


def test_brokers_that_nobody_has_tried_are_a_warning() -> None:
    facts = consumers(3)
    assert check(facts, "broker version").level is Level.PASS
    for version, message in (((2, 8), "Kafka 2.8"), ((), "is not known")):
        verdict = check(replace(facts, broker_version=version), "broker version")
        assert (verdict.level, message in verdict.message) == (Level.WARN, True)


RACK_FIRST, DENIED = "uniform, bellwether.broker.RackFirstAssignor", KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)


@pytest.mark.parametrize(
    ("lists", "verdict", "words"),
    [
        ({1: RACK_FIRST, 2: RACK_FIRST}, Level.PASS, "each broker lists bellwether.broker.RackFirstAssignor"),
        ({1: RACK_FIRST, 2: "uniform,range", 3: "uniform"}, Level.FAIL, "broker 2, 3 does not list"),
        ({1: RACK_FIRST, 2: DENIED}, Level.WARN, "is not known"),
        ({1: RACK_FIRST, 2: None}, Level.WARN, "is not known"),
        ({}, Level.WARN, "is not known"),
    ],
)
def test_every_broker_must_have_the_assignor_that_members_name(
    lists: dict[int, SettingOfBroker], verdict: Level, words: str
) -> None:
    seen = replace(consumers(3).seen, kind="consumer", protocol="bellwether-rack-first")
    examined = check(replace(consumers(3), seen=seen, assignors=lists), "assignor")
    assert (examined.level, words in examined.message) == (verdict, True), examined
    assert ("ends all members" in examined.message) == (verdict is not Level.PASS)


STICKY = "uniform,bellwether.broker.StickyMinChurnAssignor"


@pytest.mark.parametrize(
    ("lists", "verdict", "words"),
    [
        ({1: STICKY, 2: STICKY}, Level.PASS, "each broker lists bellwether.broker.StickyMinChurnAssignor"),
        ({1: STICKY, 2: "uniform"}, Level.FAIL, "broker 2 does not list bellwether.broker.StickyMinChurn"),
        ({1: STICKY, 2: RACK_FIRST}, Level.FAIL, "broker 1 does not list bellwether.broker.RackFirstAssignor"),
        ({1: STICKY, 2: DENIED}, Level.WARN, "is not known"),
    ],
)
def test_brokers_that_differ_fail_before_a_member_names_the_assignor(
    lists: dict[int, SettingOfBroker], verdict: Level, words: str
) -> None:
    """With a member that names it, the next change after a move of the coordinator ended every member of the group."""
    seen = replace(consumers(3).seen, kind="consumer", protocol="uniform")
    examined = check(replace(consumers(3), seen=seen, assignors=lists), "assignor")
    assert (examined.level, words in examined.message) == (verdict, True), examined


def test_brokers_that_differ_in_several_assignors_are_all_named() -> None:
    seen = replace(consumers(3).seen, kind="consumer", protocol="bellwether-rack-first")
    examined = check(replace(consumers(3), seen=seen, assignors={1: RACK_FIRST, 2: STICKY, 3: "uniform"}), "assignor")
    assert "broker 2, 3 does not list bellwether.broker.RackFirstAssignor" in examined.message
    assert "broker 1, 3 does not list bellwether.broker.StickyMinChurnAssignor" in examined.message


@pytest.mark.parametrize(
    ("lists", "brokers"),
    [
        ({1: "bellwether.broker.BellwetherAssignor, uniform", 2: "uniform,bellwether.broker.BellwetherAssignor"}, "1"),
        ({1: "uniform", 2: "bellwether.broker.RackFirstAssignor"}, "2"),
        ({1: "uniform,bellwether.broker.BellwetherAssignor"}, ""),
    ],
)
def test_an_assignor_that_would_get_every_group_is_warned_against(
    lists: dict[int, SettingOfBroker], brokers: str
) -> None:
    seen = replace(consumers(3).seen, kind="consumer", protocol="uniform")
    warned = [c for c in examine(replace(consumers(3), seen=seen, assignors=lists)) if c.kind == "default assignor"]
    assert [c.level for c in warned] == [Level.WARN] * bool(brokers)
    assert all(f"Broker {brokers} lists an assignor of Bellwether first" in c.message for c in warned)


@pytest.mark.parametrize(
    ("assignor", "mode", "verdict"),
    [
        ("bellwether-rack-first", "observe", Level.PASS),
        ("bellwether", "observe", Level.PASS),
        ("bellwether-rack-first", "lead", Level.FAIL),
        ("uniform", "observe", Level.FAIL),
    ],
)
def test_a_group_whose_broker_asks_bellwether_is_as_it_should_be_unless_it_is_to_be_led(
    assignor: str, mode: str, verdict: Level
) -> None:
    obstacle = "its broker assigns (KIP-848), so no client can lead it"
    seen = replace(consumers(3).seen, kind="consumer", protocol=assignor, assignor=assignor, obstacle=obstacle)
    examined = check(replace(consumers(3), seen=seen, mode=mode), "group")
    assert examined.level == verdict
    assert ("its log shows: plan_served" in examined.message) == (verdict is Level.PASS), "it may not answer"


TASKS = "bellwether.broker.BellwetherTaskAssignor,sticky"


@pytest.mark.parametrize(
    ("lists", "verdict", "words"),
    [
        ({1: TASKS, 2: TASKS}, Level.PASS, "each broker lists bellwether.broker.BellwetherTaskAssignor"),
        ({1: TASKS, 2: "sticky", 3: None}, Level.FAIL, "broker 2, 3 does not list"),
        ({1: TASKS, 2: DENIED}, Level.WARN, "is not known"),
    ],
)
def test_if_one_broker_lists_the_assignor_of_tasks_every_broker_should(
    lists: dict[int, SettingOfBroker], verdict: Level, words: str
) -> None:
    seen = replace(consumers(3).seen, kind="streams", protocol=STREAMS_PROTOCOL)
    examined = check(replace(consumers(3), seen=seen, assignors=lists), "assignor")
    assert (examined.level, words in examined.message) == (verdict, True), examined


@pytest.mark.parametrize("lists", [{}, {1: "sticky", 2: None}, {1: DENIED}])
def test_brokers_without_the_assignor_of_tasks_need_no_check(lists: dict[int, SettingOfBroker]) -> None:
    seen = replace(consumers(3).seen, kind="streams", protocol=STREAMS_PROTOCOL)
    checks = examine(replace(consumers(3), seen=seen, assignors=lists))
    assert not [check for check in checks if check.kind == "assignor"]


def test_the_assignors_of_the_broker_itself_need_no_check() -> None:
    for name in ("uniform", "bellwether"):
        seen = replace(consumers(3).seen, kind="consumer", protocol=name)
        checks_of_assignor = [
            c for c in examine(replace(consumers(3), seen=seen, assignors={1: "uniform"})) if c.kind == "assignor"
        ]
        assert [c.level for c in checks_of_assignor] == [Level.FAIL] * (name == "bellwether")
        assert all("bellwether.broker.BellwetherAssignor" in c.message for c in checks_of_assignor)


def test_racks_of_members_are_those_of_brokers() -> None:
    facts = replace(consumers(2), broker_racks=("az1", "az2"))
    first, second = (ObservedMember(name, None, name, "/h", rack="az1", topics=("orders",)) for name in "ab")

    def racks(*members: ObservedMember) -> tuple[Level, str]:
        verdict = check(replace(facts, seen=replace(facts.seen, members=members)), "racks")
        return verdict.level, verdict.message

    assert racks(first, second) == (Level.PASS, "Brokers and members agree on az1, az2.")
    foreign = racks(first, replace(second, rack="AZ2"))
    assert foreign == (Level.FAIL, "Members name racks without a broker: AZ2.")
    assert racks(first, replace(second, rack=None))[0] is Level.WARN


def test_each_member_is_listed_with_its_rack_and_where_it_comes_from() -> None:
    facts = replace(consumers(2), broker_racks=("az1", "az2"))
    sends = ObservedMember("m0", None, "client-0", "/h", "az1", ("orders",), rack_source=RackSource.MEMBER)
    configured = ObservedMember(
        "m1", None, "client-1", "/h", "az2", ("orders",), rack_source=RackSource.HOST, leader_only=True
    )
    none = ObservedMember("m2", None, "", "/h", None, ("orders",))

    def racks(*members: ObservedMember) -> Finding:
        return check(replace(facts, seen=replace(facts.seen, members=members)), "racks")

    assert racks(sends, configured, none).details == (
        "client-0: az1 (client.rack)",
        "client-1: az2 (host)",
        "m2: no rack",
    )
    assert racks(sends, configured).message == (
        "Brokers and members agree on az1, az2. 1 of 2 members send none and read from leaders only."
    )
    foreign = racks(sends, replace(configured, rack="AZ2"))
    assert foreign.remedy == "client.rack, and each rack in [racks], must be spelled as broker.rack is: az1, az2."


def test_client_rack_is_asked_only_of_members_that_can_send_it() -> None:
    def remedy(*versions: int) -> str:
        facts = consumers(*versions)
        members = tuple(
            ObservedMember(raw.member_id, None, f"client-{n}", "/h", topics=("orders",))
            for n, raw in enumerate(facts.seen.shadow.decision.raw.others if facts.seen.shadow else ())
        )
        assert len(members) == len(versions)
        facts = replace(facts, broker_racks=("az1", "az2"), seen=replace(facts.seen, members=members))
        return check(facts, "racks").remedy

    assert remedy(3, 3) == "Set client.rack on them: they are placed without regard to racks."
    assert remedy(0, 2).startswith("The subscriptions of client-0, client-1 have no field for client.rack: upgrade")
    assert remedy(3, 1).startswith("Set client.rack on the others. The subscriptions of client-1 have no field")


def test_an_application_that_sets_client_id_is_reported_what_lets_its_ghosts_be_proven() -> None:
    facts = application(SHOP)
    process = "00112233-4455-6677-8899-aabbccddeeff"
    for client_id, attested, verdict in (
        (f"shop-{process}-StreamThread-1-consumer", False, Level.PASS),
        ("mine-StreamThread-1-consumer", False, Level.WARN),
        ("mine-StreamThread-1-consumer", True, Level.PASS),
    ):
        members = (ObservedMember("a", None, client_id, "/10.0.0.1", topics=("orders",)),)
        options = GhostOptions(client_ids_unique=attested)
        examined = check(replace(facts, seen=replace(facts.seen, members=members), ghosts=options), "ghosts")
        assert (examined.level, "client_ids_unique" in examined.remedy) == (verdict, verdict is Level.WARN)


def test_under_exactly_once_rebalances_that_wait_for_ghosts_are_warned_of() -> None:
    facts = application(replace(SHOP, exactly_once=True))
    assert check(replace(facts, ghosts=GhostOptions()), "exactly once").level is Level.PASS
    for ghosts in (None, GhostOptions(remove=False)):
        verdict = check(replace(facts, ghosts=ghosts), "exactly once")
        assert (verdict.level, "transaction.timeout.ms" in verdict.message, "guard" in verdict.remedy) == (
            Level.WARN,
            True,
            True,
        )
    assert not [check for check in examine(application(SHOP)) if check.kind == "exactly once"]


def test_no_ghosts_are_removed_from_an_application_that_its_broker_assigns() -> None:
    """It was advised to set mode = "assist", which removes none there."""
    facts = application(replace(SHOP, exactly_once=True))
    named = (ObservedMember("a", None, "mine-StreamThread-1-consumer", "/10.0.0.1", topics=("orders",)),)
    classic = replace(facts, seen=replace(facts.seen, members=named))
    by_broker = replace(classic, seen=replace(classic.seen, kind="streams"))
    names = [{check.kind for check in examine(each)} & {"ghosts", "exactly once"} for each in (classic, by_broker)]
    assert names == [{"ghosts", "exactly once"}, set()]


def test_the_arithmetic_of_bellwethers_own_session_is_checked() -> None:
    facts = consumers(3)
    assert check(facts, "session timeout").level is Level.PASS
    late = replace(facts, config=replace(facts.config, decision_deadline_ms=facts.config.session_timeout_ms))
    verdict = check(late, "session timeout")
    assert (verdict.level, "decision_deadline_ms" in verdict.message) == (Level.FAIL, True)
    assert worst(examine(late)) is Level.FAIL


def test_where_no_client_can_lead_what_only_a_leader_needs_is_not_applicable() -> None:
    facts = consumers(3)
    seen = replace(facts.seen, kind="consumer", obstacle="its broker assigns (KIP-848), so no client can lead it")
    checks = examine(replace(facts, seen=seen))
    assert {c.kind for c in checks if c.level is Level.FAIL} == {"group"}
    meaningless = {c.kind for c in checks if c.level is Level.NOT_APPLICABLE}
    assert meaningless >= {"group ACL", "protocols", "instance id", "group size", "versions", "plan"}
    assert {c.kind for c in checks} - meaningless == {"group", "members", "topic ACLs", "racks"}


def test_of_a_group_that_cannot_be_described_nothing_is_reported_as_if_it_had_no_members() -> None:
    """Its protocol, size and plan passed, since no member was there."""
    unknown = Unknown.of(Code.COORDINATOR_LOAD_IN_PROGRESS, "g", 0)
    seen = Observation("g", "unknown", "", "", 0, (), trouble=unknown.reason, unknown=unknown)
    config = MembershipConfig("g", instance_id="bellwether")
    facts = replace(consumers(3), seen=seen, config=config, heartbeat_error=None, size_limit=SizeLimit(5), streams=SHOP)
    checks = {each.kind: each for each in examine(facts)}
    for name in ("protocols", "instance id", "group size", "racks", "plan"):
        assert (checks[name].level, checks[name].message[:11]) == (Level.WARN, "Not checked")
    assert "topology" not in checks, "whether an instance runs to learn it from is not known"
    assert "its coordinator node does not answer" in checks["group ACL"].message


def test_a_rebalance_hides_the_protocol_of_members() -> None:
    members = (DescribedMember("a", None, b""),)
    answer = DescribeAnswer(0, 0, state="PreparingRebalance", protocol="", members=members)
    facts = replace(consumers(3), seen=observation("g", "classic", answer, 0))
    assert check(facts, "protocols").level is Level.WARN


def test_bellwethers_own_member_of_an_application_is_known_by_its_bytes_whatever_topics_it_lists() -> None:
    """With a topology file it lists the application's; doctor then said that a member had Bellwether's
    group.instance.id."""
    config = MembershipConfig("shop", protocols=(STREAMS_PROTOCOL,), instance_id="bellwether")
    lists = own_subscription("orders", "shop-by-user-repartition", streams=True)
    thread = group(Thread("a", 1)).members[0]
    for state, own, theirs in (
        ("Stable", lists, thread.metadata),
        ("PreparingRebalance", b"", b""),  # brokers show no subscriptions then
    ):
        members = (DescribedMember("bellwether-1", "bellwether", own), DescribedMember("a", None, theirs))
        answer = DescribeAnswer(0, 0, state=state, protocol=STREAMS_PROTOCOL, members=members)
        bellwether_members = {m.member_id for m in answer.members if is_bellwether(m, config)}
        seen = observation("shop", "classic", answer, 0, bellwether_members=bellwether_members)
        verdict = check(replace(application(SHOP), seen=seen, config=config), "instance id")
        assert (verdict.level, verdict.message) == (Level.PASS, "'bellwether' is used by Bellwether.")


def test_bellwethers_own_process_is_not_another_member_under_bellwethers_instance_id() -> None:
    facts = consumers(3)
    own = ObservedMember("bellwether-1", "bellwether", "c", "/h", topics=("orders",))
    config = replace(facts.config, instance_id="bellwether")
    led = replace(facts, config=config, seen=replace(facts.seen, bellwether_members=(own,)))
    assert check(led, "instance id").message == "'bellwether' is used by Bellwether."
    assert check(led, "group").message == "A classic group, Stable, with 0 members, led by Bellwether."
    of_another = replace(facts, config=config, seen=replace(facts.seen, members=(own,)))
    assert check(of_another, "instance id").level is Level.FAIL


def test_an_empty_group_may_have_consumers_that_assign_themselves() -> None:
    empty = replace(consumers(3), seen=Observation("g", "classic", "Empty", "", 0))
    verdict = check(empty, "subscribes")
    assert (verdict.level, "assign()" in verdict.message, "subscribes = true" in verdict.remedy) == (
        Level.WARN,
        True,
        True,
    )
    stated = replace(empty, config=MembershipConfig("g", subscribes=True))
    assert "subscribes" not in [check.kind for check in examine(stated)]
    assert "subscribes" not in [check.kind for check in examine(consumers(3))]


def test_where_bellwether_is_the_only_member_the_writers_that_it_keeps_out_are_named() -> None:
    own = (ObservedMember("bellwether-1", None, "bellwether", "/127.0.0.1"),)
    seen = Observation("g", "classic", "Stable", "range", 0, bellwether_members=own)
    facts = replace(consumers(3), seen=seen, mode="lead", config=MembershipConfig("g", subscribes=True))
    alone = check(facts, "subscribes")
    assert alone.level is Level.WARN
    assert "a mirror" in alone.message
    assert "bellwether release" in alone.remedy
    assert "only member" in seen.verdict
    beside = replace(seen, members=own)
    assert "only member" not in beside.verdict
    assert "subscribes" not in [each.kind for each in examine(replace(facts, seen=beside))]


@pytest.mark.parametrize(("mode", "verdict"), [("lead", Level.FAIL), ("observe", Level.WARN)])
def test_consumers_that_are_seen_to_assign_themselves_outweigh_the_setting(mode: str, verdict: Level) -> None:
    lag = replace(group_lag(sample(0, {"t": [1]}, {"t": [4]})), self_assigned=True)
    seen = Observation("g", "classic", "Empty", "", 0, group_lag=lag)
    facts = replace(consumers(3), seen=seen, mode=mode, config=MembershipConfig("g", subscribes=True))
    examined = check(facts, "subscribes")
    assert (examined.level, "offsets are committed without members" in examined.message) == (verdict, True)
    assert 'mode = "observe"' in examined.remedy
    assert not any("Lead it" in step for step in next_steps(facts, examine(facts)))


def test_no_fault_of_a_check_hides_another_and_the_worst_comes_first() -> None:
    """Of zone names against zone ids and one broker without a rack only the smaller fault was shown."""
    facts = replace(consumers(2), broker_racks=("use1-az1", "use1-az2", None))
    members = (
        ObservedMember("a", None, "a", "/h", rack="us-east-1a", topics=("orders",)),
        ObservedMember("b", None, "b", "/h", topics=("orders",)),
    )
    racks = check(replace(facts, seen=replace(facts.seen, members=members)), "racks")
    assert racks.level is Level.FAIL
    assert racks.message == (
        "Members name racks without a broker: us-east-1a. Some brokers have no rack. b name no rack while others do."
    )
    assert "Set broker.rack on all of them." in racks.remedy
    timing = replace(facts.config, session_timeout_ms=5_000, heartbeat_interval_ms=6_000)
    session = check(replace(facts, config=timing), "session timeout")
    assert session.message.endswith("session_timeout_ms is 5000, and the brokers allow 6000 to 1800000.")
    assert "bellwether run refuses them" in session.remedy


def test_a_subscription_that_only_bellwether_can_read_is_named() -> None:
    """A Java leader fails on kafka-go's version 1 without owned partitions; every member's bytes could be read."""
    facts = consumers(3, 3)
    assert facts.seen.shadow is not None
    decision = facts.seen.shadow.decision
    short = replace(decision.raw.others[0], metadata=b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff")
    raw = replace(decision.raw, members=(short, *decision.raw.others[1:]))
    seen = replace(facts.seen, shadow=replace(facts.seen.shadow, decision=replace(decision, raw=raw)))
    members = check(replace(facts, seen=seen), "members")
    assert (members.level, short.member_id in members.message) == (Level.WARN, True)
    assert "a Java leader fails on it" in members.message
    assert check(facts, "members").level is Level.PASS


@pytest.mark.parametrize(
    ("members", "mode", "verdict"),
    [
        (GROUP, "lead", Level.PASS),
        ((ALWAYS, *GROUP), "lead", Level.FAIL),
        ((ALWAYS, *GROUP), "observe", Level.WARN),
    ],
)
def test_doctor_passes_a_take_over_only_if_it_would_begin(
    members: tuple[DescribedMember, ...], mode: str, verdict: Level
) -> None:
    answer = DescribeAnswer(0, 0, "Stable", "consumer", "range", members)
    facts = replace(consumers(3), seen=observation("orders", "classic", answer, 0), mode=mode)
    removals = check(replace(facts, config=MembershipConfig("orders"), size_limit=SizeLimit(1_000)), "removals")
    assert removals.level is verdict
    assert bool(removals.remedy) is (verdict is not Level.PASS)


def test_room_beside_the_members_is_not_promised_where_the_limit_is_not_known() -> None:
    """Without the right to read it the check passed, and brokers refused Bellwether (GROUP_MAX_SIZE_REACHED)."""
    unread = SizeLimit(unknown="Bellwether may not read the brokers' group.max.size", remedy="grant it")
    size = check(replace(consumers(3), size_limit=unread), "group size")
    assert (size.level, size.remedy) == (Level.WARN, "Grant it.")
    assert "is not known: Bellwether may not read" in size.message
    assert check(replace(consumers(3), size_limit=SizeLimit(1_000)), "group size").level is Level.PASS


def test_a_capacity_that_the_policy_does_not_use_is_named() -> None:
    by_count = replace(consumers(3), policy=Policy("rack-first").with_capacity({"a": 2.0}))
    weights = check(by_count, "weights")
    assert weights.level is Level.WARN
    assert "policy rack-first does not use it" in weights.message
    by_load = replace(by_count, policy=Policy(LOAD_AWARE).with_capacity({"a": 2.0}))
    assert "does not use it" not in check(by_load, "weights").message
