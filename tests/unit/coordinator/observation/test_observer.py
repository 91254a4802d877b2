"""An observer keeps its last refresh and the rebalances between refreshes, passes both on, and survives its
listeners."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import Weights
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.coordinator.kafka.wire import (
    AnyCommitted,
    BrokerGroup,
    BrokerMember,
    BrokerProtocol,
    TransportError,
)
from bellwether_kafka.coordinator.membership import Code, DescribeAnswer, Failure, MembershipConfig
from bellwether_kafka.coordinator.observation import GroupObserver, Kept, LagRefreshes, Observation, Sources, Unknown
from bellwether_kafka.coordinator.planning import load_application
from bellwether_kafka.coordinator.runtime.groups_now import present_of
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.applications import App, TopologySource
from tests.kit.observed import Shared, SharedApplication, observed_member, of_fleet, refresh, refreshed
from tests.kit.streams import SHOP_COUNTS

SOURCES = cast("Sources", SimpleNamespace(transport=None, reader=SimpleNamespace(admin=None), offsets=None))


def observed(*seen: Observation, on_observation: Any = ()) -> GroupObserver:
    """An observer that has had these refreshes."""
    left = list(seen)

    class Shown(GroupObserver):
        async def observe(self) -> Observation:
            return left.pop(0)

    shown_group = Shown(MembershipConfig("g"), SOURCES, Policy(), on_observation=on_observation)
    while left:
        asyncio.run(shown_group.refresh())
    return shown_group


def test_the_page_has_the_last_refresh_and_the_rebalances_before_it() -> None:
    page = present_of(
        observed(
            refresh(10, observed_member("a-1", "t-0")),
            refresh(20, observed_member("a-1", "t-0"), observed_member("b-1")),
        ),
        Kept(),
    )
    assert page is not None
    assert [holder.name for holder in page.holders] == ["a-1", "b-1"]
    assert [line["cause"] for line in page.observed["rebalances"]] == ["b joined"]


def test_of_a_group_that_has_not_been_refreshed_nothing_is_shown() -> None:
    assert present_of(None, Kept()) is None
    assert present_of(GroupObserver(MembershipConfig("g"), SOURCES, Policy()), Kept()) is None


def test_a_listener_that_fails_is_logged_and_disturbs_nobody() -> None:
    received: list[Observation] = []

    def broken(_: Observation) -> None:
        raise ValueError

    with capture_logs() as lines:
        observation = observed(refresh(10, observed_member("a-1", "t-0")), on_observation=(broken, received.append))
    assert received == [observation.last]
    assert [line["event"] for line in lines if line["log_level"] == "error"] == ["observer_failed"]


def test_of_a_group_at_rest_only_the_lags_are_worked_out_again() -> None:
    shared = Shared()
    observer = of_fleet(shared)
    first, second = refreshed(observer), refreshed(observer)
    assert first.shadow is not None
    assert second.shadow is first.shadow
    assert (first.lag, second.lag) == (4, 8)
    assert second.seen_at_ms >= first.seen_at_ms


def test_a_change_of_members_or_topics_is_planned_for_anew() -> None:
    shared = Shared()
    observer = of_fleet(shared)
    before = refreshed(observer).shadow
    shared.members = ("a",)
    smaller = refreshed(observer)
    assert [member.member_id for member in smaller.members] == ["a"]
    assert smaller.shadow is not None
    assert smaller.shadow is not before
    assert smaller.shadow.current.unowned == 1
    shared.grow(4)
    grown = refreshed(observer).shadow
    assert grown is not None
    assert grown.current.unowned == 3


def test_a_group_that_converts_while_it_is_refreshed_is_reported_to_be_its_brokers() -> None:
    """KIP-848, and back."""
    shared = Shared()
    observer = of_fleet(shared)
    assert refreshed(observer).verdict == "can be led"
    member = BrokerMember("m", None, "az1", "c", "/h", ("t",), (("t", (0, 1)),))
    shared.by_broker = BrokerGroup("g", "consumer", 0, state="Stable", epoch=3, assignor="uniform", members=(member,))
    converted = refreshed(observer)
    assert (converted.kind, converted.lag) == ("consumer", 8)
    assert converted.protocol == "uniform", "its broker's assignor, although the plan is made by the nearest protocol"
    assert converted.shadow is not None
    assert converted.shadow.decision.raw.protocol == "cooperative-sticky"
    assert converted.shadow.decision.plan.named("member:c").all(), "by client id, which is not in its member id"
    assert converted.verdict == (
        "cannot be led: its broker assigns (KIP-848, group.protocol=consumer), so no client can lead it"
    )
    shared.by_broker = None
    assert (refreshed(observer).kind, refreshed(observer).verdict) == ("classic", "can be led")


def test_of_an_application_that_is_only_observed_standbys_are_counted_as_its_plan_has_them() -> None:
    """It has no settings, and num.standby.replicas is nowhere on the wire: a plan that assumed none was refused."""
    observer = of_fleet(SharedApplication())
    observer._keeper = cast("Any", TopologySource())
    seen = refreshed(observer)
    assert seen.trouble == ""
    assert seen.shadow is not None
    assert seen.shadow.moves.moved == 0


class Weighed(LagRefreshes):
    """Offsets by which the partitions of tasks that process b runs weigh the most."""

    def weights(self) -> Weights:
        heavy = {TopicPartition(topic, p): 100.0 for topic in SHOP_COUNTS for p in range(SHOP_COUNTS[topic])}
        return Weights(heavy | {TopicPartition("orders", 0): 900.0})


@pytest.mark.parametrize(("policy", "weights"), [("load-aware", Weights({})), ("load-aware", None), ("kafka", None)])
def test_an_application_that_is_only_observed_is_planned_by_its_load(policy: str, weights: Weights | None) -> None:
    """By the topic of weights if there is one, else by its offsets, as one that is led."""
    shared = SharedApplication()
    observer = GroupObserver(
        MembershipConfig("g"),
        cast("Any", SimpleNamespace(transport=shared, reader=shared, offsets=shared, shared=shared, groups=shared)),
        Policy(),
        load_application(replace(App(num_standby_replicas=1).kind.config, policy=policy)),
        weights=None if weights is None else lambda: weights,
        lags=Weighed("g"),
    )
    observer._keeper, observer._logs = cast("Any", TopologySource()), None
    shadow = refreshed(observer).shadow
    assert shadow is not None
    assert isinstance(shadow.decision.plan, TaskPlan)
    assert bool(shadow.decision.plan.target.weights) is (policy == "load-aware" and weights is None)


async def test_the_silence_of_brokers_is_one_log_line_for_as_long_as_it_lasts() -> None:
    class Silent(GroupObserver):
        async def _observe(self) -> Observation:
            reason = reasons.pop(0)
            if reason:
                raise TransportError(Failure.TIMED_OUT, reason)
            return refresh(10)

    reasons = ["no answer", "no answer", "gone", "", "gone"]
    observer = Silent(MembershipConfig("g"), SOURCES, Policy())
    with capture_logs() as lines:
        while reasons:
            await observer.refresh()
    silent = [line["reason"] for line in lines if line["event"] == "group_not_observed"]
    assert [reason.partition("(")[2].rstrip(")") for reason in silent] == ["no answer", "gone", "gone"]


class Erring(Shared):
    """A group whose brokers answer with `error`, or do not answer in the other protocols."""

    error = 0
    broker_error: int | Exception = Code.GROUP_ID_NOT_FOUND

    async def describe_group(self, group_id: str) -> DescribeAnswer:
        return DescribeAnswer(0, self.error) if self.error else await super().describe_group(group_id)

    async def describe_by_broker(self, group: str, protocol: BrokerProtocol) -> BrokerGroup:
        if isinstance(self.broker_error, Exception):
            raise self.broker_error
        return BrokerGroup(group, protocol, self.broker_error)


TRANSIENT = (Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR)


@pytest.mark.parametrize("code", TRANSIENT)
def test_an_error_of_a_broker_is_unknown_and_what_was_known_last_stays(code: Code) -> None:
    shared = Erring()
    observer = of_fleet(shared)
    before = refreshed(observer)
    shared.error = code
    now = refreshed(observer)
    assert now.unknown is not None
    assert (now.unknown.error, now.kind, now.members) == (code.name, before.kind, before.members)
    assert now.seen_at_ms == before.seen_at_ms, "it is as old as it is"
    since_ms = now.unknown.since_ms
    again = refreshed(observer).unknown
    assert again is not None
    assert again.since_ms == since_ms, "since the first answer of the kind"
    shared.error = 0
    assert refreshed(observer).unknown is None
    assert observer.rebalances.lines() == (), "a gap is no rebalance"


def test_an_error_before_anything_was_known_is_no_missing_group() -> None:
    shared = Erring()
    shared.error = Code.NOT_COORDINATOR
    seen = refreshed(of_fleet(shared))
    assert (seen.kind, seen.can_be_led, seen.lag) == ("unknown", False, None)
    assert "NOT_COORDINATOR" in seen.trouble


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (29, "the ACL DESCRIBE on every topic of the group"),
        (Code.GROUP_AUTHORIZATION_FAILED, "the ACL DESCRIBE on Group 'g'"),
        (Code.NOT_COORDINATOR, "NOT_COORDINATOR"),
        (TransportError(Failure.TIMED_OUT, "no answer in time"), "no answer in time"),
    ],
)
def test_a_group_that_its_broker_assigns_and_hides_is_unknown(answer: int | Exception, message: str) -> None:
    shared = Erring()
    shared.error, shared.broker_error = Code.GROUP_ID_NOT_FOUND, answer
    seen = refreshed(of_fleet(shared))
    assert seen.kind == "unknown"
    assert message in seen.trouble


@pytest.mark.parametrize("answer", [Code.GROUP_ID_NOT_FOUND, TransportError(Failure.UNSUPPORTED, "no such request")])
def test_only_a_group_that_no_protocol_has_is_missing(answer: int | Exception) -> None:
    shared = Erring()
    shared.error, shared.broker_error = Code.GROUP_ID_NOT_FOUND, answer
    assert refreshed(of_fleet(shared)).kind == "missing"


def test_an_error_in_place_of_an_empty_groups_offsets_is_not_a_group_without_any() -> None:
    """The coordinator node moved between two requests: the group had no topics and its history was dropped."""

    class Memberless(Erring):
        moved = False

        async def describe_group(self, group_id: str) -> DescribeAnswer:
            return DescribeAnswer(0, 0, "Empty", "consumer")

        async def any_committed(self, _group: str) -> AnyCommitted:
            return AnyCommitted(False, Code.NOT_COORDINATOR) if self.moved else AnyCommitted(True, topics=("t",))

    shared = Memberless()
    shared.described = 1
    observer = of_fleet(shared)
    assert refreshed(observer).lag == 4
    shared.moved = True
    assert refreshed(observer).lag_notes == ("no lags: committed offsets of g: NOT_COORDINATOR",)
    assert list(observer._lags.counts) == ["t"]


def test_a_share_group_is_not_missing() -> None:
    """A group that is no classic one exists, although no protocol in which members have partitions has it."""

    class Sharing(Erring):
        async def describe_group(self, group_id: str) -> DescribeAnswer:
            message = f"Group {group_id} is not a classic group."
            return DescribeAnswer(0, Code.GROUP_ID_NOT_FOUND, message=message)

    seen = refreshed(of_fleet(Sharing()))
    assert (seen.kind, seen.state, seen.can_be_led, seen.trouble) == ("other", "", False, "")
    assert "share group" in seen.obstacle


def test_unknown_is_neither_true_nor_false() -> None:
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(Unknown("no answer", 0))
