"""What is made of Describe answers: members, lags, costs, and groups of brokers in the classic form."""

import json
import math
import time
from dataclasses import replace

import pytest

from bellwether_kafka.assignors.consumer import Policy, decide, recall
from bellwether_kafka.assignors.shared import AssignedMember as Stored
from bellwether_kafka.assignors.shared import ClusterView, Memory, RawGroup, RawMember
from bellwether_kafka.coordinator.kafka.wire import BrokerGroup, BrokerMember, BrokerSubtopology
from bellwether_kafka.coordinator.membership import (
    Decide,
    DescribeAnswer,
    DescribedMember,
    JoinedMember,
    RebuildMemory,
    shown,
)
from bellwether_kafka.coordinator.observation import Observation, Shadow, as_document, observation
from bellwether_kafka.coordinator.planning import classic_view, topology_of
from bellwether_kafka.coordinator.telemetry import Metrics, ObservedMetrics
from bellwether_kafka.protocol.messages import (
    LATEST_OFFSET,
    AssignmentInfo,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionInfo,
)
from bellwether_kafka.protocol.primitives import TaskId
from tests.kit.applications import App
from tests.kit.membership import own_subscription
from tests.kit.observed import classic, group_lag, sample, tp
from tests.kit.plans import rack_rules
from tests.kit.streams import Thread

PROCESS = "6f0bb3f0-0c6c-4c49-9f0b-1f1c3a1d2e3f"


def test_members_without_a_rack_have_the_configured_one() -> None:
    rules = rack_rules(hosts={"127.0.0.0/8": "az9"})
    described = answer(classic("a", "t-0", rack="az1"), classic("b", "t-1"), DescribedMember("c", None))
    seen = observation("g", "classic", described, 7, racks=rules)
    racks = [(m.rack, m.rack_source, m.leader_only) for m in seen.members]
    assert racks == [("az1", "client.rack", False), ("az9", "host", True), (None, "none", False)]
    assert [m["rack_source"] for m in as_document(seen)["members"]] == ["client.rack", "host", "none"]


def answer(*members: DescribedMember, protocol: str = "range") -> DescribeAnswer:
    return DescribeAnswer(0, 0, "Stable", "consumer", protocol, members)


def test_members_show_what_they_were_given() -> None:
    seen = observation("g", "classic", answer(classic("a", "t-0", "t-2", rack="az1"), classic("b", "t-1")), 7)
    assert [m.owned for m in seen.members] == [tp("t-0", "t-2"), tp("t-1")]
    assert (seen.members[0].rack, seen.members[0].topics, seen.can_be_led) == ("az1", ("t",), True)


def test_bytes_that_cannot_be_read_are_one_members_trouble() -> None:
    seen = observation("g", "classic", answer(DescribedMember("bad", None, b"\0"), classic("b", "t-1")), 7)
    assert seen.members[0].trouble
    assert not seen.members[1].trouble


def test_a_group_that_is_not_at_rest_shows_members_without_bytes() -> None:
    (member,) = observation("g", "classic", answer(DescribedMember("a", None)), 7).members
    assert (member.owned, member.trouble) == ((), "")


def test_lags_are_known_where_something_is_committed() -> None:
    seen = observation("g", "classic", answer(classic("a", "t-0", "t-2", "gone-0"), classic("b", "t-1", "t-3")), 7)
    owners = {partition: m.member_id for m in seen.members for partition in m.owned}
    lag = group_lag(sample(7, {"t": [5, -1, 9, 12]}, {"t": [8, 4, 9, 8]}), owners=owners)
    seen = seen.with_lag(replace(lag, notes=("t is compacted",)))
    assert seen.lags == {"t": (3, None, 0, None)}, "what is beyond the end is no lag of 0"
    assert [(m.lag, m.unknown_lags) for m in seen.members] == [(3, 1), (None, 2)]
    assert (seen.lag, seen.unknown_lags) == (3, 2)
    document = json.loads(json.dumps(as_document(seen)))
    assert document["lag_notes"] == ["t is compacted"]
    report = document["lag_report"]
    assert [(p["member"], p["lag"], bool(p["note"])) for p in report["partitions"]] == [
        ("a", 3, False), ("b", None, True), ("a", 0, False), ("b", None, True),
    ]  # fmt: skip
    assert (report["summary"]["lag"], report["summary"]["unknown"], report["truncated"]) == (3, 2, False)
    short = as_document(seen, 1)["lag_report"]
    assert ([(p["topic"], p["partition"]) for p in short["partitions"]], short["truncated"]) == ([("t", 0)], True)


def test_a_shadow_compares_what_is_with_what_bellwether_would_do() -> None:
    members = [classic("a", "t-0", "t-1", "t-2"), classic("b")]
    cluster = ClusterView.of({"t": [(), (), ()]})
    stored = [Stored(m.member_id, None, m.metadata, m.assignment) for m in members]
    memory = recall(9, "sticky", cluster, stored)
    raw = RawGroup("g", 9, "sticky", tuple(RawMember(m.member_id, None, m.metadata) for m in members))
    decision = decide(raw, cluster, memory, Policy(), 0, 0)
    shadow = Shadow.of(decision, decision.plan.before)
    assert (shadow.current.spread, shadow.planned.spread, shadow.moves.moved) == (3, 1, 1)
    assert shadow.current.unowned == 0
    assert memory is not Memory.empty()


def consumer_group(assignor: str = "uniform") -> BrokerGroup:
    member = BrokerMember("m1", "i1", "az2", "c", "/h", (), (("t", (0, 2)),))
    return BrokerGroup("g", "consumer", 0, "", "Stable", 5, assignor, (member,))


@pytest.mark.parametrize(("assignor", "protocol"), [("uniform", "cooperative-sticky"), ("range", "range")])
def test_a_consumer_group_of_the_broker_resembles_a_classic_one(assignor: str, protocol: str) -> None:
    view = classic_view(consumer_group(assignor))
    (member,) = observation("g", "consumer", view, 1, obstacle="no").members
    assert (member.owned, member.rack, member.topics) == (tp("t-0", "t-2"), "az2", ("t",))
    assert view.protocol == protocol
    message = ConsumerProtocolSubscription.decode(view.members[0].metadata)
    assert (message.owned_partitions, message.generation_id) == (tp("t-0", "t-2"), 5)


def test_members_with_one_pattern_subscribe_to_what_all_of_them_have() -> None:
    """Each seemed to subscribe to what it had itself: one without partitions to nothing, and the others, with a topic
    each, looked like as many applications."""
    owned = {"m1": (("a", (0,)),), "m2": (("b", (0,)),), "m3": ()}
    members = tuple(BrokerMember(m, None, None, m, "/h", (), has, pattern="[ab]") for m, has in owned.items())
    other = BrokerMember("m4", None, None, "m4", "/h", ("c",), (("c", (0,)),))
    both = BrokerMember("m5", None, None, "m5", "/h", ("d",), (("d", (0,)),), pattern="[ab]")
    view = classic_view(replace(consumer_group(), members=(*members, other, both)))
    topics = {m.member_id: m.topics for m in observation("g", "consumer", view, 1, obstacle="no").members}
    assert topics == {"m1": ("a", "b"), "m2": ("a", "b"), "m3": ("a", "b"), "m4": ("c",), "m5": ("a", "b", "d")}


def streams_group() -> BrokerGroup:
    subtopologies = (
        BrokerSubtopology("0", ("in",), (), ()),
        BrokerSubtopology("1", (), ("app-rep",), ("app-store-changelog",)),
    )
    member = BrokerMember(
        "m1",
        None,
        "az1",
        "c",
        "/h",
        (),
        (("0", (0,)), ("1", (1,))),
        standby=(("1", (0,)),),
        process_id=PROCESS,
        offsets=(("1", 0, 42),),
    )
    return BrokerGroup("app", "streams", 0, "", "Stable", 3, "", (member,), subtopologies)


def test_a_streams_group_of_the_broker_resembles_a_classic_one() -> None:
    view = classic_view(streams_group())
    (member,) = observation("app", "streams", view, 1, obstacle="no").members
    assert (member.active, member.standby) == (("1_1", "0_0"), ("1_0",))
    assert member.owned == tp("app-rep-1", "in-0")
    message = ConsumerProtocolSubscription.decode(view.members[0].metadata)
    info = SubscriptionInfo.decode(message.user_data or b"")
    assert str(info.process_id) == PROCESS
    assert dict(info.task_offset_sums) == {TaskId(1, 0): 42, TaskId(1, 1): LATEST_OFFSET}, "state only, as Java reports"
    given = ConsumerProtocolAssignment.decode(view.members[0].assignment)
    assert len(AssignmentInfo.decode(given.user_data or b"").active_tasks) == len(given.partitions)


def test_its_topology_is_what_it_reported_its_broker() -> None:
    topology = topology_of(streams_group())
    assert topology.source_topics == ("app-rep", "in")
    assert [s.stateful for s in topology.subtopologies] == [False, True]
    assert topology.changelogs == ("app-store-changelog",)


def test_bellwethers_own_member_is_none_of_theirs() -> None:
    instance = DescribedMember("bellwether-1", "bellwether", own_subscription("t"), b"")
    seen = observation("g", "classic", answer(classic("a", "t-0"), instance), 7, bellwether_members={"bellwether-1"})
    assert ([m.member_id for m in seen.members], [m.member_id for m in seen.bellwether_members]) == (
        ["a"],
        ["bellwether-1"],
    )
    document = as_document(seen)
    assert (len(document["members"]), document["bellwether_members"]) == (1, ["bellwether-1"])


def test_a_group_that_does_not_exist_cannot_be_led() -> None:
    assert not Observation("nosuch", "missing", "Dead", "", 0).can_be_led


def test_while_a_group_rebalances_newer_brokers_show_former_assignments_and_no_subscriptions() -> None:
    given = ConsumerProtocolAssignment(0, tp("t-0")).encode()
    described = replace(answer(DescribedMember("a", None, b"", given)), state="PreparingRebalance")
    (member,) = observation("g", "classic", described, 7).members
    assert (member.owned, member.trouble) == ((), "")


def test_metrics_are_a_projection() -> None:
    metrics = Metrics()
    watch = ObservedMetrics(metrics)
    seen = observation("g", "consumer", answer(classic("a", "t-0")), 9_000, obstacle="its broker assigns")
    watch.on_observation(seen)
    value = metrics.registry.get_sample_value
    assert value("bellwether_members", {"group": "g"}) == 1
    assert value("bellwether_observed_can_be_led", {"group": "g"}) == 0
    assert math.isnan(value("bellwether_partition_spread", {"group": "g"}) or 0.0)


def test_a_group_whose_broker_asks_bellwether_is_not_reported_to_be_out_of_reach() -> None:
    seen = observation("g", "streams", answer(classic("a", "t-0")), 9_000, obstacle="its broker assigns")
    assert (seen.verdict, seen.assigned_with) == ("cannot be led: its broker assigns", ""), "before Kafka 4.4"
    asking = replace(seen, assignor="bellwether")
    # Whether Bellwether answers is not shown: without a plan the broker keeps what members have.
    verdict = "its broker assigns, and asks Bellwether for plans"
    assert (asking.verdict, asking.assigned_with) == (verdict, "bellwether")
    assert not asking.can_be_led


def test_an_empty_group_has_no_plan_because_it_has_no_members_whatever_assigns() -> None:
    empty = observation("g", "consumer", answer(), 9_000, obstacle="its broker assigns")
    assert empty.no_plan == "it has no members"
    assert replace(empty, kind="other", obstacle="it is no group of consumers").no_plan == "it is no group of consumers"


def test_a_document_holds_everything_but_bytes() -> None:
    seen = observation("g", "classic", answer(classic("a", "t-0", rack="az1")), 9_000)
    document = json.loads(json.dumps(as_document(seen)))
    assert document["members"][0]["owned"] == [["t", 0]]
    assert (document["can_be_led"], document["shadow"]) == (True, None)


async def test_an_application_runs_what_the_broker_shows_and_not_what_threads_reported_when_they_joined() -> None:
    first, second = Thread("a", 1), Thread("b", 2)
    app = App(attested=True)
    planned = await app.planner.plan(app.order(1, first, second, deadline=time.monotonic() + 5))
    given = dict(planned.decision.assignments)
    raw = [first.raw, second.raw]  # as they were before they had anything
    described = DescribeAnswer(
        0,
        0,
        "Stable",
        "consumer",
        "stream",
        tuple(DescribedMember(m.member_id, None, m.metadata, given[m.member_id]) for m in raw),
    )
    members = tuple(JoinedMember(m.member_id, None, m.metadata) for m in raw)
    planner = App(attested=True).planner
    await planner.rebuild(RebuildMemory(9, "stream", members), shown(described), "")
    compared = await planner.compare(Decide(9, "stream", members, "", time.monotonic() + 5, dry=True))
    seen = Shadow.of(compared.decision, compared.present)
    assert seen.current.unowned == seen.planned.unowned == 0
    assert (seen.moves.new, seen.moves.lost) == (0, 0)
    assert seen.decision.moves == seen.moves, "plan and explain say what describe says"
    plan = seen.decision.plan
    assert plan.cost(plan.before) == seen.current
    assert seen.decision.warnings == ()
