"""What is wrong with who has what, and with who is in a group: said once, of what a broker shows."""

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import Policy, decide
from bellwether_kafka.assignors.shared import Memory
from bellwether_kafka.coordinator.observation import BY_TOPIC, Finding, FindingKind
from bellwether_kafka.coordinator.observation.anomalies import of_applications, of_assignment, of_shares
from bellwether_kafka.coordinator.telemetry import Metrics
from tests.kit.consumers import LiveMember, cluster_of, live_group
from tests.kit.observed import Shared, observed_member, of_fleet, refresh, refreshed

COUNTS = {"t": 4, "u": 1}
HEALTHY = (observed_member("a-1", "t-0", "t-1"), observed_member("b-1", "t-2", "t-3"))


def kinds(anomalies: tuple[Finding, ...]) -> list[str]:
    return [anomaly.kind for anomaly in anomalies]


def test_of_a_healthy_assignment_nothing_is_reported() -> None:
    assert of_assignment(HEALTHY, COUNTS) == ()


def test_a_partition_with_two_owners_is_named_with_both() -> None:
    (anomaly,) = of_assignment((*HEALTHY, observed_member("c-1", "t-1")), COUNTS)
    assert (anomaly.kind, anomaly.count) == (FindingKind.TWO_OWNERS, 1)
    assert "t-1 (a-1, c-1)" in anomaly.message
    assert anomaly.remedy


def test_a_partition_that_does_not_exist_is_named_with_the_size_of_its_topic() -> None:
    (anomaly,) = of_assignment((observed_member("a-1", "t-0", "t-4"),), COUNTS)
    assert (anomaly.kind, anomaly.count) == (FindingKind.NO_SUCH_PARTITION, 1)
    assert "t-4 (a-1; t has 4)" in anomaly.message


def test_nothing_is_reported_of_partitions_of_a_topic_that_bellwether_does_not_know() -> None:
    assert of_assignment((observed_member("a-1", "hidden-7", topics=("hidden",)),), COUNTS) == ()


def test_an_owner_that_does_not_subscribe_is_named() -> None:
    (anomaly,) = of_assignment((observed_member("a-1", "t-0", "u-0"),), COUNTS)
    assert (anomaly.kind, anomaly.count) == (FindingKind.NOT_SUBSCRIBED, 1)
    assert "u-0 (a-1)" in anomaly.message


def test_a_member_without_a_readable_subscription_may_have_anything() -> None:
    assert of_assignment((observed_member("a-1", "t-0", "u-0", topics=()),), COUNTS) == ()


def test_members_without_a_common_topic_resemble_two_applications() -> None:
    (anomaly,) = of_applications([("billing", ["orders"]), ("mail", ["pay"]), ("billing", ["orders"])], "range")
    assert (anomaly.kind, anomaly.count) == (FindingKind.TWO_APPLICATIONS, 2)
    assert "billing (orders) and mail (pay)" in anomaly.message


@pytest.mark.parametrize(
    ("subscriptions", "protocol"),
    [
        pytest.param([("a", ["t", "u"]), ("b", ["u", "v"]), ("c", ["v"])], "range", id="connected over a third"),
        pytest.param([("a", ["t"]), ("b", [])], "range", id="one whose subscription is not known"),
        pytest.param([("a", ["t"]), ("b", ["u"])], "stream", id="a Streams application"),
        pytest.param([], "", id="nobody"),
    ],
)
def test_what_may_be_one_application_is_none_of_two(subscriptions: list[tuple[str, list[str]]], protocol: str) -> None:
    assert of_applications(subscriptions, protocol) == ()


def shares(owner: list[int], *topics: tuple[str, ...], counts: dict[str, int] | None = None) -> tuple[Finding, ...]:
    """Of members with these subscriptions that have the partitions of `busy` and `quiet` so."""
    members = [LiveMember(f"m-{place}", each) for place, each in enumerate(topics)]
    made = decide(live_group(members, 1), cluster_of(counts or {"busy": 4, "quiet": 4}), Memory.empty(), Policy(), 0)
    return of_shares(made.plan, np.array(owner, dtype=np.int32))


BOTH = ("busy", "quiet")


def test_topics_that_drift_apart_although_the_sum_is_even_are_named() -> None:
    (anomaly,) = shares([0, 0, 0, 0, 1, 1, 1, 1], BOTH, BOTH)
    assert (anomaly.kind, anomaly.count, anomaly.setting) == (FindingKind.UNEVEN_TOPIC, 2, BY_TOPIC)
    assert "of the 4 partitions of busy members have 0 to 4" in anomaly.message


@pytest.mark.parametrize(
    ("owner", "topics"),
    [
        pytest.param([0, 0, 1, 1, 0, 0, 1, 1], (BOTH, BOTH), id="even"),
        pytest.param([0, 0, 0, 1, 0, 1, 1, 1], (BOTH, BOTH), id="nearly even"),
        pytest.param([0, 0, 0, 0, 1, 1, 1, 1], (("busy",), ("quiet",)), id="members that subscribe to one each"),
        pytest.param([0, 0, 0, 0, 0, 1, 1, 1], (BOTH, BOTH), id="an uneven sum, which is said of skew"),
        pytest.param([0, 0, 0, -1, 1, 1, 1, -1], (BOTH, BOTH), id="partitions without an owner"),
    ],
)
def test_what_is_no_drift(owner: list[int], topics: tuple[tuple[str, ...], ...]) -> None:
    assert shares(owner, *topics) == ()


def test_the_worst_is_reported_first_and_only_of_a_group_at_rest() -> None:
    seen = refresh(
        10, observed_member("a-1", "t-0", "u-0"), observed_member("b-1", "t-0"), observed_member("c-1", topics=("v",))
    )
    assert kinds(seen.with_anomalies(at_rest=True).anomalies) == [
        FindingKind.TWO_OWNERS,
        FindingKind.NOT_SUBSCRIBED,
        FindingKind.TWO_APPLICATIONS,
    ]
    assert kinds(seen.with_anomalies(at_rest=False).anomalies) == [FindingKind.TWO_APPLICATIONS]


def test_an_observer_says_it_and_asks_for_newer_metadata_before_it_calls_a_partition_absent() -> None:
    """An assignment may be newer than what was read of a topic that has grown."""
    shared = Shared()
    shared.members = ("a", "b", "c")  # the third has t-2, and t has two partitions
    observer = of_fleet(shared)
    assert kinds(refreshed(observer).anomalies) == [FindingKind.NO_SUCH_PARTITION]
    shared.grow_when_expired = 3
    assert refreshed(observer).anomalies == ()


def test_a_metric_has_each_kind_and_goes_back_to_nothing() -> None:
    metrics = Metrics()
    anomalies = of_assignment((*HEALTHY, observed_member("c-1", "t-1", "t-2")), COUNTS)
    metrics.on_anomalies("g", anomalies)
    value = metrics.registry.get_sample_value
    assert value("bellwether_anomalies", {"group": "g", "kind": "two_owners"}) == 2
    assert value("bellwether_anomalies", {"group": "g", "kind": "two_applications"}) == 0
    metrics.on_anomalies("g", ())
    assert value("bellwether_anomalies", {"group": "g", "kind": "two_owners"}) == 0
