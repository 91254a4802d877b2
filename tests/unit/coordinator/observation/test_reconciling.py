"""Who holds up a group that its broker reconciles, and topics that a pattern no longer finds."""

from types import SimpleNamespace
from typing import Any

import pytest

from bellwether_kafka.coordinator.cli.plan import _explanations
from bellwether_kafka.coordinator.kafka.client.metadata import distinct_placements
from bellwether_kafka.coordinator.kafka.wire import BrokerGroup, BrokerMember, BrokerSubtopology
from bellwether_kafka.coordinator.kafka.wire.describe_groups import described_by_broker
from bellwether_kafka.coordinator.observation import FindingKind
from bellwether_kafka.coordinator.observation.anomalies import hand_overs
from tests.kit.observed import PRICES, Shared, of_fleet, refreshed, reported


def member(name: str, epoch: int, has: tuple[int, ...], target: tuple[int, ...], **more: Any) -> BrokerMember:
    assigned, to_have = ((("t", numbers),) if numbers else () for numbers in (has, target))
    return BrokerMember(name, None, None, name, "/h", ("t",), assigned, epoch=epoch, target=to_have, **more)


def group(*members: BrokerMember, epoch: int = 5, state: str = "Reconciling") -> BrokerGroup:
    return BrokerGroup("g", "consumer", 0, state=state, epoch=epoch, assignor="uniform", members=members)


def sentences(*members: BrokerMember) -> list[str]:
    return [each.sentence for each in hand_overs(group(*members))]


def test_a_member_that_has_not_confirmed_is_named_with_what_it_gives_up_and_for_whom() -> None:
    """What is being given up is in no member's assignment, so it seemed to be nobody's."""
    assert sentences(member("a", 4, (0, 1), (0, 1)), member("b", 5, (), (2, 3))) == [
        "a, at epoch 4 of 5, has to give up t-2, t-3, which b is to have"
    ]


def test_what_a_member_still_has_names_it_alone() -> None:
    late = member("c", 3, (7,), (7,))
    assert sentences(member("a", 4, (0, 1, 2), (0, 1)), member("b", 5, (), (2,)), late) == [
        "a, at epoch 4 of 5, has to give up t-2, which b is to have"
    ]


def test_of_several_members_that_are_behind_each_may_be_the_one() -> None:
    assert sentences(member("a", 4, (0,), (0,)), member("c", 3, (1,), (1,)), member("b", 5, (), (2,))) == [
        "a, at epoch 4 of 5, or c, at epoch 3 of 5, has to give up t-2, which b is to have"
    ]


@pytest.mark.parametrize(
    "members",
    [
        (member("a", 5, (0, 1), (0, 1)), member("b", 5, (2,), (2,))),
        (member("a", 5, (0, 1), (0, 1)), member("b", 4, (), (2,))),  # it has not been told yet
        (member("a", -1, (0, 1), (0, 1)), member("b", -1, (), (2,))),  # an answer without epochs
    ],
)
def test_nobody_is_named_where_nobody_is_waited_for(members: tuple[BrokerMember, ...]) -> None:
    assert sentences(*members) == []


def test_tasks_of_an_application_have_the_names_that_java_prints() -> None:
    parts = (BrokerSubtopology("0", ("t",), (), ()), BrokerSubtopology("1", ("u",), (), ()))
    members = (
        BrokerMember("a", None, None, "a", "/h", (), (("0", (0,)),), epoch=1, target=(("0", (0,)),)),
        BrokerMember("b", None, None, "b", "/h", (), (), epoch=2, target=(("1", (3,)),)),
    )
    (waits,) = hand_overs(BrokerGroup("g", "streams", 0, epoch=2, members=members, subtopologies=parts))
    assert (waits.items, waits.successor) == (("1_3",), "b")


@pytest.mark.parametrize("protocol", ["consumer", "streams"])
def test_epochs_and_targets_of_the_brokers_answer_are_kept(protocol: Any) -> None:
    entry = SimpleNamespace(topic_name="t", subtopology_id="0", partitions=[1, 2])
    assignment = SimpleNamespace(topic_partitions=[entry], active_tasks=[entry], standby_tasks=[], warmup_tasks=[])
    seen = SimpleNamespace(
        **dict.fromkeys(("member_id", "client_id", "client_host", "process_id"), "a"),
        **dict.fromkeys(("instance_id", "rack_id", "subscribed_topic_regex"), None),
        **dict.fromkeys(("client_tags", "task_offsets", "subscribed_topic_names"), ()),
        member_epoch=4,
        assignment=assignment,
        target_assignment=assignment,
        member_type=1,
    )
    answer = SimpleNamespace(
        error_code=0, group_id="g", group_state="Stable", assignment_epoch=5, assignor_name="", members=[seen]
    )
    answer.topology = None
    (described,) = described_by_broker(answer, protocol).members
    name = "t" if protocol == "consumer" else "0"
    assert (described.epoch, described.target) == (4, ((name, (1, 2)),))


def test_the_member_that_is_waited_for_is_named_by_every_view_and_no_lead_is_proposed() -> None:
    """`explain` said "had no owner", and `assess` proposed to lead a group that no client can lead."""
    shared = Shared()
    shared.grow(6)
    observer = of_fleet(shared)
    shared.by_broker = group(member("a", 4, (0, 1, 2), (0, 1, 2)), member("b", 5, (), (3, 4, 5)))
    seen = refreshed(observer)
    sentence = "a, at epoch 4 of 5, has to give up t-3, t-4, t-5, which b is to have"
    (anomaly,) = seen.anomalies
    assert (anomaly.kind, anomaly.count) == (FindingKind.HELD_UP, 3)
    assert sentence in anomaly.message
    assert seen.shadow is not None
    (explained,) = _explanations(seen, seen.shadow.decision, "t-4", {})
    assert explained.sentence.endswith(f"Now {sentence}.")
    assert sentence not in _explanations(seen, seen.shadow.decision, "t-0", {})[0].sentence
    findings = reported(seen, PRICES).findings
    assert [f.setting for f in findings if f.setting] == []
    assert "no_owner" not in {f.kind for f in findings}
    shared.by_broker = group(member("a", 5, (0, 1, 2), (0, 1, 2)), member("b", 5, (3, 4, 5), (3, 4, 5)), state="Stable")
    assert refreshed(observer).anomalies == ()


def test_topics_that_a_pattern_no_longer_finds_keep_their_lags_and_are_named() -> None:
    """The group was Stable with nothing unowned: what a pattern finds was taken from what members have."""
    shared = Shared()
    shared.cache.see_topic("u", 0.0, *distinct_placements([(1, (1, 2))]))
    shared.committed_topics = ("t", "u")
    pattern = member("a", 5, (0, 1), (0, 1), pattern="^t")
    shared.by_broker = group(pattern, state="Stable")
    seen = refreshed(of_fleet(shared))
    (anomaly,) = seen.anomalies
    assert (anomaly.kind, anomaly.count) == (FindingKind.NOT_MATCHED, 1)
    assert "nobody reads: u. Its members subscribe by the pattern ^t." in anomaly.message
    assert "RE2/J" in anomaly.remedy
    assert sorted(seen.lags) == ["t", "u"]
    shared.by_broker = group(pattern, state="Reconciling")
    assert refreshed(of_fleet(shared)).anomalies == (), "a pattern may not have been resolved yet"
    shared.by_broker = group(member("a", 5, (0, 1), (0, 1)), state="Stable")
    assert refreshed(of_fleet(shared)).anomalies == (), "without a pattern a topic is left by intention"
