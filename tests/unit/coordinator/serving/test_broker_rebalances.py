"""How the broker of a group is made to ask for a plan: whether a temporary member joins the group, and with which
topology."""

import asyncio
from collections.abc import Callable, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from bellwether_kafka.coordinator.kafka.wire import (
    OTHER_TOPOLOGY,
    BrokerGroup,
    BrokerMember,
    SentTopology,
    possible_topologies,
)
from bellwether_kafka.coordinator.kafka.wire.describe_groups import SentSubtopology
from bellwether_kafka.coordinator.membership import Code
from bellwether_kafka.coordinator.runtime.plans_for_brokers import PlansForBrokers
from tests.kit.observed import SKEWED

BROKER_MEMBER = BrokerMember("m", None, None, "c", "/h", ("clicks",), ())
SHOWN = SentTopology(0, tuple(SentSubtopology(str(n), ("clicks", "views"), (), (), ()) for n in range(2)))
LIKELY, *_, LAST = possible_topologies(SHOWN)


def quick_to_retry(folder: Path) -> PlansForBrokers:
    path = f"unix:{folder}/a.sock"
    return PlansForBrokers(path, lambda _: None, CollectorRegistry(), lambda _: None, retry_s=(0.0, 0.0, 0.0))


class Coordinator:
    """The requests to the coordinator node of a group of the consumer protocol, which answers with `error`, always or
    so many times."""

    def __init__(self, error: int, members: int, *, errors: int | None = None) -> None:
        self.joined: list[str] = []
        self._errors = errors
        self._group = BrokerGroup("g", "consumer", error, members=(BROKER_MEMBER,) * members)

    async def describe_by_broker(self, _group: str, _protocol: str) -> BrokerGroup:
        if self._errors is None:
            return self._group
        self._errors -= 1
        return self._group if self._errors >= 0 else replace(self._group, error=0)

    async def rebalance_by_broker(self, group: str, _member: str) -> int:
        self.joined.append(group)
        return 0


async def rebalances_are_begun(served: PlansForBrokers, coordinator: object, act: Callable[[], object]) -> None:
    """Waits for the rebalances that `act` begins in tasks."""
    beside = asyncio.create_task(served.beside(None, coordinator, None))  # type: ignore[arg-type]  # no names are read
    await asyncio.sleep(0)
    act()
    while len(asyncio.all_tasks()) > 2:  # noqa: ASYNC110 - the tasks are known to the server alone
        await asyncio.sleep(0)
    beside.cancel()


async def ordered_rebalance(folder: Path, coordinator: Coordinator) -> list[MutableMapping[str, Any]]:
    """The log of a rebalance that is ordered in an observed group."""
    served = quick_to_retry(folder)

    def order() -> None:
        served.on_observation(replace(SKEWED, group_id="skewed", kind="consumer"))
        served.begin_rebalance("skewed", "eve has ordered it")

    with capture_logs() as logs:
        await rebalances_are_begun(served, coordinator, order)
    return logs


@pytest.mark.parametrize(
    ("error", "members", "joined", "logged"),
    [
        (0, 1, ["skewed"], ["rebalance_begun"]),
        (0, 0, [], []),
        (Code.GROUP_ID_NOT_FOUND, 0, [], ["no broker assigns 'skewed' any more, so no member of Bellwether joins it"]),
        (Code.COORDINATOR_LOAD_IN_PROGRESS, 0, [], ["COORDINATOR_LOAD_IN_PROGRESS"] * 4),
    ],
    ids=["assigned by its broker", "without members", "classic or deleted since it was seen", "not loaded"],
)
async def test_a_temporary_member_joins_only_a_group_that_its_broker_assigns_now(
    tmp_path: Path, error: int, members: int, joined: list[str], logged: list[str]
) -> None:
    coordinator = Coordinator(error, members)

    logs = await ordered_rebalance(tmp_path, coordinator)
    assert coordinator.joined == joined
    assert [line.get("reason", line["event"]) for line in logs] == logged


async def test_a_rebalance_is_begun_once_its_coordinator_node_answers(tmp_path: Path) -> None:
    """The order was withdrawn or counted as followed by then, and lost with a restart of brokers."""
    coordinator = Coordinator(Code.COORDINATOR_LOAD_IN_PROGRESS, 1, errors=2)

    logs = await ordered_rebalance(tmp_path, coordinator)
    assert coordinator.joined == ["skewed"]
    assert [line["event"] for line in logs] == ["rebalance_not_begun"] * 2 + ["rebalance_begun"]


async def test_orders_while_a_coordinator_node_is_away_begin_one_rebalance(tmp_path: Path) -> None:
    """Each began one of its own once the node was back."""
    coordinator = Coordinator(Code.COORDINATOR_LOAD_IN_PROGRESS, 1, errors=2)
    served = quick_to_retry(tmp_path)

    def order() -> None:
        served.on_observation(replace(SKEWED, group_id="skewed", kind="consumer"))
        for name in ("eve", "ann", "eve"):
            served.begin_rebalance("skewed", f"{name} has ordered it")

    with capture_logs() as logs:
        await rebalances_are_begun(served, coordinator, order)
    assert coordinator.joined == ["skewed"]
    assert (logs[-1]["event"], logs[-1]["cause"]) == ("rebalance_begun", "eve has ordered it; ann has ordered it")


async def test_an_order_that_is_given_while_the_broker_is_asked_begins_another_rebalance(tmp_path: Path) -> None:
    """The broker may have asked for the plan before the order was in force."""
    served = quick_to_retry(tmp_path)

    class Slow(Coordinator):
        async def rebalance_by_broker(self, group: str, member: str) -> int:
            if not self.joined:
                served.begin_rebalance("skewed", "ann has ordered it")
            return await super().rebalance_by_broker(group, member)

    def order() -> None:
        served.on_observation(replace(SKEWED, group_id="skewed", kind="consumer"))
        served.begin_rebalance("skewed", "eve has ordered it")

    coordinator = Slow(0, 1)
    with capture_logs() as logs:
        await rebalances_are_begun(served, coordinator, order)
    assert coordinator.joined == ["skewed"] * 2
    assert [line["cause"] for line in logs] == ["eve has ordered it", "ann has ordered it"]


async def test_a_member_that_joined_without_a_plan_makes_the_broker_ask_again(tmp_path: Path) -> None:
    """It had nothing until the next member joined or left."""
    coordinator = Coordinator(0, 3)
    members = (*SKEWED.members, replace(SKEWED.members[0], member_id="late", owned=()))
    idle = replace(SKEWED, group_id="g", kind="consumer", assignor="bellwether", epoch=4, members=members)

    served = quick_to_retry(tmp_path)

    def observe() -> None:
        for _ in range(5):
            served.on_observation(idle)

    await rebalances_are_begun(served, coordinator, observe)
    assert coordinator.joined == ["g"], "once"


class Streams:
    """The requests to the coordinator node of a group of the streams protocol, whose application has sent `topology`.
    `joined` are the topologies with which members tried to join."""

    def __init__(self, shown: BrokerGroup, topology: SentTopology = LIKELY) -> None:
        self.shown, self.topology = shown, topology
        self.joined: list[SentTopology] = []
        self.member_ids: set[str] = set()

    async def describe_by_broker(self, _group: str, _protocol: str) -> BrokerGroup:
        return self.shown

    async def rebalance_streams_by_broker(self, _group: str, member_id: str, topology: SentTopology) -> int:
        self.joined.append(topology)
        self.member_ids.add(member_id)
        return 0 if topology == self.topology else OTHER_TOPOLOGY


async def ordered_in_application(folder: Path, coordinator: Streams, times: int = 1) -> list[str]:
    """What is logged when rebalances are ordered in an observed application."""
    served = quick_to_retry(folder)
    served.on_observation(replace(SKEWED, group_id="shop", kind="streams"))
    with capture_logs() as logs:
        for _ in range(times):
            order = lambda: served.begin_rebalance("shop", "eve has ordered it")  # noqa: E731 - one of several
            await rebalances_are_begun(served, coordinator, order)
    return [line.get("reason", line["event"]) for line in logs]


def shown(topology: SentTopology | None = SHOWN, *, members: int = 3, assignor: str = "bellwether") -> BrokerGroup:
    members_seen = (BROKER_MEMBER,) * members
    return BrokerGroup("shop", "streams", 0, members=members_seen, topology=topology, assignor=assignor)


async def test_a_temporary_member_joins_an_application_with_its_topology(tmp_path: Path) -> None:
    coordinator = Streams(shown())
    assert await ordered_in_application(tmp_path, coordinator) == ["rebalance_begun"]
    assert coordinator.joined == [LIKELY]
    assert all(member_id.startswith("bellwether-temporary-") for member_id in coordinator.member_ids)


async def test_the_topology_that_a_broker_has_accepted_is_the_first_the_next_time(tmp_path: Path) -> None:
    coordinator = Streams(shown(), LAST)
    assert await ordered_in_application(tmp_path, coordinator, times=2) == ["rebalance_begun"] * 2
    assert coordinator.joined == [*possible_topologies(SHOWN), LAST]


@pytest.mark.parametrize(
    ("described", "joined", "logged"),
    [
        (shown(members=0), 0, []),
        (
            shown(assignor="sticky"),
            0,
            [
                (
                    "its broker assigns with sticky now, which would give a temporary member tasks;"
                    " set streams.assignor.name=bellwether"
                )
            ],
        ),
        (shown(None), 0, ["the group has no topology yet"] * 4),
        (
            BrokerGroup("shop", "streams", Code.GROUP_ID_NOT_FOUND),
            0,
            ["no broker assigns 'shop' any more, so no member of Bellwether joins it"],
        ),
        (
            BrokerGroup("shop", "streams", Code.TOPIC_AUTHORIZATION_FAILED),
            0,
            ["grant Bellwether's principal the ACL DESCRIBE on all topics of the application"],
        ),
        (shown(), 4, ["its broker refused 4 possible topologies, so it asks when the group changes"]),
    ],
    ids=[
        "empty",
        "of another assignor",
        "without a topology",
        "gone",
        "not permitted",
        "of a topology that is not shown",
    ],
)
async def test_no_member_joins_an_application_that_it_would_disturb_or_create(
    tmp_path: Path, described: BrokerGroup, joined: int, logged: list[str]
) -> None:
    coordinator = Streams(described, SentTopology(1, ()))
    assert await ordered_in_application(tmp_path, coordinator) == logged
    assert len(coordinator.joined) == joined


class Deleted(Streams):
    """The group is deleted after it was described, so that the first member creates it."""

    async def rebalance_streams_by_broker(self, _group: str, member_id: str, topology: SentTopology) -> int:
        self.joined.append(topology)
        self.shown = replace(self.shown, members=(), epoch=2)
        return 0


async def test_a_group_that_was_deleted_just_before_a_temporary_member_created_it_is_reported(tmp_path: Path) -> None:
    """The application may have another topology, with which its members would be refused."""
    coordinator = Deleted(replace(shown(), epoch=7))
    (created, begun) = await ordered_in_application(tmp_path, coordinator)
    assert "which created it with a likely topology" in created
    assert begun == "rebalance_begun"
    left = Streams(replace(shown(), epoch=7))
    assert await ordered_in_application(tmp_path, left) == ["rebalance_begun"], "its members remain"


async def test_a_group_that_is_forgotten_meanwhile_is_reported_as_well(tmp_path: Path) -> None:
    """The rebalance ended with a KeyError, and with it the causes that waited."""
    served = quick_to_retry(tmp_path)

    class Forgotten(Deleted):
        async def describe_by_broker(self, group: str, protocol: str) -> BrokerGroup:
            if self.joined:
                served.on_gone("skewed")
            return await super().describe_by_broker(group, protocol)

    def order() -> None:
        served.on_observation(replace(SKEWED, group_id="skewed", kind="streams"))
        served.begin_rebalance("skewed", "eve has ordered it")

    with capture_logs() as logs:
        await rebalances_are_begun(served, Forgotten(replace(shown(), epoch=7)), order)
    assert [entry["event"] for entry in logs if entry["event"].startswith(("group_c", "rebal"))] == [
        "group_created",
        "rebalance_begun",
    ]


@pytest.mark.slow
async def test_another_order_is_tried_at_once_while_a_failed_one_waits(tmp_path: Path) -> None:
    """It waited with it for up to half a minute, and its command ended before that."""
    path = f"unix:{tmp_path}/a.sock"
    served = PlansForBrokers(path, lambda _: None, CollectorRegistry(), lambda _: None, retry_s=(3_600.0,))
    coordinator = Coordinator(Code.COORDINATOR_NOT_AVAILABLE, 1, errors=1)

    def orders() -> None:
        served.on_observation(replace(SKEWED, group_id="skewed", kind="consumer"))
        served.begin_rebalance("skewed", "eve has ordered it")
        asyncio.get_running_loop().call_later(0.05, served.begin_rebalance, "skewed", "ann has ordered it")

    with capture_logs() as logs:
        await asyncio.wait_for(rebalances_are_begun(served, coordinator, orders), 60)
    (begun,) = [entry["cause"] for entry in logs if entry["event"] == "rebalance_begun"]
    assert begun == "eve has ordered it; ann has ordered it"
