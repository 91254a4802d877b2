"""A process that serves plans to brokers: what it knows of groups and topics, and who hears of its plans."""

import asyncio
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from bellwether_kafka.assignors.consumer import policy
from bellwether_kafka.assignors.shared import GroupPlan, Plan, Rule
from bellwether_kafka.coordinator.kafka.wire import BrokerGroup, BrokerMember, BrokerProtocol, TopicIds, TransportError
from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL, Failure
from bellwether_kafka.coordinator.observation import Observation, ObservedMember, Shadow
from bellwether_kafka.coordinator.planning import Planned
from bellwether_kafka.coordinator.runtime import Observers, plans_for_brokers
from bellwether_kafka.coordinator.runtime.plans_for_brokers import PlansForBrokers
from bellwether_kafka.coordinator.serving import wire
from tests.interop.support.members import wait_until
from tests.kit.answering_brokers import Size
from tests.kit.consumers import decided_by_load, heavy_on_one
from tests.kit.observed import SKEWED
from tests.kit.processes import running
from tests.kit.serving import Asking, owners, topic_id
from tests.kit.streams import SHOP, Thread, group, led
from tests.unit.coordinator.serving.task_requests import AskingForTasks
from tests.unit.coordinator.serving.task_requests import Thread as Threads

MEMBERS = [member.member_id for member in SKEWED.members]
ASKING = Asking([[["a"]] * 6], {member: ("a", {}) for member in MEMBERS}, assignor="bellwether")


def ask(path: Path, asking: Asking | AskingForTasks = ASKING) -> list[int]:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(path))
        request = asking.encode()
        line.sendall(wire.SIZE.pack(len(request)) + request)
        head = line.recv(4, socket.MSG_WAITALL)
        return owners(head + line.recv(wire.SIZE.unpack(head)[0], socket.MSG_WAITALL))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in other threads
            await asyncio.sleep(0.01)


async def test_a_group_that_was_observed_is_known_and_others_are_served_too(tmp_path: Path) -> None:
    path, registry, received = tmp_path / "a.sock", CollectorRegistry(), list[Planned[GroupPlan]]()

    def counted(outcome: str) -> float | None:
        return registry.get_sample_value("bellwether_served_requests_total", {"outcome": outcome})

    served = PlansForBrokers(f"unix:{path}", lambda _: policy("rack-first"), registry, received.append)
    observers = Observers.of(*served.observers)
    await served.start()
    try:
        assert len(await asyncio.to_thread(ask, path)) == 6
        await until(lambda: counted("plan") == 1)
        assert not received, "no observed group has these members yet"
        (on_observation,) = observers.on_observation
        on_observation(replace(SKEWED, kind="consumer"))
        await asyncio.to_thread(ask, path)
        await until(lambda: counted("plan") == 2)
        (on_gone,) = observers.on_gone
        on_gone(SKEWED.group_id)
        await asyncio.to_thread(ask, path)
        await until(lambda: counted("plan") == 3)
    finally:
        await served.stop()
    (planned,) = received
    decision = planned.decision
    assert (decision.raw.group_id, decision.policy) == (SKEWED.group_id, "rack-first")
    assert counted("refused") == 0
    assert not path.exists()


async def test_a_group_that_was_converted_back_gets_no_orders_any_more(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    served = PlansForBrokers(f"unix:{path}", lambda _: None, CollectorRegistry(), lambda _: None)
    await served.start()
    try:
        served.on_observation(replace(SKEWED, kind="consumer"))
        await asyncio.to_thread(ask, path)
        await until(lambda: served.policies() == {SKEWED.group_id: "kafka"})
        served.on_observation(replace(SKEWED, kind="classic"))
        assert served.policies() == {}
    finally:
        await served.stop()


async def test_a_group_with_another_assignor_gets_no_orders_any_more(tmp_path: Path) -> None:
    """Orders began rebalances in it, which were refused."""
    path = tmp_path / "a.sock"
    asking = replace(SKEWED, kind="consumer", assignor="bellwether")
    served = PlansForBrokers(f"unix:{path}", lambda _: None, CollectorRegistry(), lambda _: None)
    await served.start()
    try:
        served.on_observation(asking)
        await asyncio.to_thread(ask, path)
        await until(lambda: served.policies() != {})
        other = replace(asking, assignor="uniform")
        served.on_observation(other)
        assert served.policies() != {}, "the broker may have asked after it described the group"
        served.on_observation(other)
        assert served.policies() == {}
        await asyncio.to_thread(ask, path)
        await until(lambda: served.policies() != {})
        served.on_observation(other)
        assert served.policies() != {}
        served.on_observation(asking)
        served.on_observation(other)
        assert served.policies() != {}
    finally:
        await served.stop()


async def test_a_plan_is_compared_with_the_orders_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first plan after a restart is not followed by another for orders that it follows."""
    path, rules = tmp_path / "a.sock", (Rule("ban", "*", "rack:az9", "eve has ordered a ban"),)
    in_force = [rules]
    served = PlansForBrokers(
        f"unix:{path}", lambda _: None, CollectorRegistry(), lambda _: None, rules_of=lambda _: in_force[0]
    )
    begun: list[str] = []
    monkeypatch.setattr(served, "begin_rebalance", lambda _, cause: begun.append(cause))
    await served.start()
    try:
        served.on_observation(replace(SKEWED, kind="consumer"))
        await asyncio.to_thread(ask, path)
        await until(lambda: served.policies() != {})
        served.compare(SKEWED.group_id, first=True, ended={})
        assert begun == []
        in_force[0] = ()
        served.compare(SKEWED.group_id, first=True, ended={})
        assert begun == ["eve has ordered a ban: ended"]
    finally:
        await served.stop()


async def test_an_application_is_planned_with_the_topics_that_its_observation_shows(tmp_path: Path) -> None:
    """Until it is gone: a group that has another topology later is not planned by the former one."""
    decided = led(group(Thread("thread-1"), Thread("thread-2", process=2)))
    seen = Observation(
        "shop",
        "streams",
        "Stable",
        STREAMS_PROTOCOL,
        0,
        members=tuple(ObservedMember(name, None, "c", "/h") for name in ("thread-1", "thread-2")),
        shadow=Shadow.of(decided, decided.plan.owner),
    )
    asking = AskingForTasks(
        {"0": (4, False), "1": (4, True)},
        {f"thread-{n}": Threads(f"00000000-0000-0000-0000-00000000000{n}") for n in (1, 2)},
    )
    path, reported = tmp_path / "a.sock", list[Planned[GroupPlan]]()
    served = PlansForBrokers(f"unix:{path}", lambda _: None, CollectorRegistry(), reported.append)
    await served.start()
    try:
        served.on_observation(seen)
        assert len(await asyncio.to_thread(ask, path, asking)) == 8
        await until(lambda: len(reported) == 1)
        served.on_observation(replace(seen, shadow=None))
        await asyncio.to_thread(ask, path, asking)
        await until(lambda: len(reported) == 2)
        served.on_gone("shop")
        served.on_observation(replace(seen, shadow=None))
        await asyncio.to_thread(ask, path, asking)
        await until(lambda: len(reported) == 3)
        assert served.policies() == {"shop": "streams-ha"}, "orders reach its broker, too"
    finally:
        await served.stop()
    topics = [planned.topics.subscribed for planned in reported]
    assert topics == [SHOP.source_topics, SHOP.source_topics, ("subtopology-0", "subtopology-1")]


class StartingBrokers:
    """An admin client of brokers that know no brokers at first, and a transport to them that fails once."""

    def __init__(self) -> None:
        self.answers = [[], *[[SimpleNamespace(id=1, host="b", port=9092)]] * 9]
        self.asked: list[tuple[bytes, ...]] = []

    def describe_cluster(self, **_: object) -> Future[Any]:
        answer: Future[Any] = Future()
        answer.set_result(SimpleNamespace(nodes=self.answers.pop(0)))
        return answer

    async def ask(self, request: TopicIds) -> dict[bytes, str]:
        self.asked.append(request.ids)
        if len(self.asked) == 1:
            raise TransportError(Failure.TIMED_OUT, "no answer")
        return dict.fromkeys(request.ids, "clicks")


async def test_a_topic_whose_name_could_not_be_read_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker asks once for a group at rest, and until then orders on the topic were not followed."""
    monkeypatch.setattr(plans_for_brokers, "NAMES_INTERVAL_S", 0.01)
    monkeypatch.setattr(plans_for_brokers, "FAILED_AGAIN_S", 0.01)
    path, brokers = tmp_path / "a.sock", StartingBrokers()
    served = PlansForBrokers(f"unix:{path}", lambda _: None, CollectorRegistry(), lambda _: None)
    await served.start()
    beside = asyncio.create_task(served.beside(None, brokers, brokers))  # type: ignore[arg-type]  # what it uses
    try:
        await asyncio.to_thread(ask, path)
        await until(lambda: len(brokers.asked) == 2)
        assert not beside.done()
    finally:
        beside.cancel()
        await served.stop()
    assert brokers.asked == [(topic_id(0),)] * 2


class Rebalanced:
    """A transport to a broker that computes assignments anew, with the group at each request."""

    def __init__(self) -> None:
        self.groups: list[str] = []

    async def describe_by_broker(self, group_id: str, protocol: BrokerProtocol) -> BrokerGroup:
        return BrokerGroup(
            group_id, protocol, error=0, members=(BrokerMember("c-1", None, None, "c", "/h", ("t",), ()),)
        )

    async def rebalance_by_broker(self, group_id: str, _: str) -> int:
        self.groups.append(group_id)
        return 0


async def test_a_broker_that_did_not_wait_for_a_plan_is_made_to_ask_again_at_once(tmp_path: Path) -> None:
    """A consumer that had joined had nothing for two refreshes."""
    path, gone, brokers = tmp_path / "a.sock", threading.Event(), Rebalanced()

    def policy_of(_: str) -> None:
        assert gone.wait(30)

    served = PlansForBrokers(f"unix:{path}", policy_of, CollectorRegistry(), lambda _: None)
    await served.start()
    beside = asyncio.create_task(served.beside(None, brokers, None))  # type: ignore[arg-type]  # what it uses
    try:
        served.on_observation(replace(SKEWED, kind="consumer"))
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(path))
            request = ASKING.encode()
            line.sendall(wire.SIZE.pack(len(request)) + request)
        gone.set()
        await until(lambda: brokers.groups == [SKEWED.group_id])
        await asyncio.to_thread(ask, path)
        assert brokers.groups == [SKEWED.group_id]
    finally:
        beside.cancel()
        await served.stop()


def uneven() -> Observation:
    """A group by load-aware whose plan would now be the opposite of what it has."""
    decision = decided_by_load()
    plan = replace(decision.plan, target=Plan.of(1 - decision.plan.owner))
    shadow = Shadow.of(replace(decision, plan=plan), decision.plan.owner)
    return replace(SKEWED, kind="consumer", assignor="bellwether-load-aware", epoch=5, shadow=shadow)


BY_RACK = replace(SKEWED, kind="consumer", assignor="bellwether-rack-first", epoch=5)  # and one is read remotely


@pytest.mark.parametrize("seen", [uneven(), BY_RACK], ids=["load", "racks"])
async def test_a_broker_is_made_to_ask_again_when_load_or_racks_have_changed(tmp_path: Path, seen: Observation) -> None:
    """It asks only when members or topics change: a group by load-aware stayed as it began, even by count."""
    brokers, weights = Rebalanced(), heavy_on_one(decided_by_load())
    served = PlansForBrokers(
        f"unix:{tmp_path}/a.sock", lambda _: None, CollectorRegistry(), lambda _: None, weights=lambda _: weights
    )
    await served.start()
    beside = asyncio.create_task(served.beside(None, brokers, None))  # type: ignore[arg-type]  # what it uses
    try:
        served.on_observation(replace(seen, state="Reconciling"))
        await asyncio.sleep(0)
        assert not brokers.groups
        served.on_observation(seen)
        await until(lambda: brokers.groups == [SKEWED.group_id])
    finally:
        beside.cancel()
        await served.stop()


async def test_a_jar_of_another_version_is_logged_once_in_a_while(tmp_path: Path) -> None:
    """Its probes come twice a second, for as long as the broker runs."""
    path, registry = tmp_path / "a.sock", CollectorRegistry()
    with capture_logs() as logs:
        served = PlansForBrokers(f"unix:{path}", lambda _: None, registry, lambda _: None)
        await served.start()
        try:
            for _ in range(3):
                with pytest.raises(AssertionError):
                    await asyncio.to_thread(ask, path, replace(ASKING, version=wire.VERSION + 1))
            await until(
                lambda: registry.get_sample_value("bellwether_served_requests_total", {"outcome": "refused"}) == 3
            )
        finally:
            await served.stop()
    (refused,) = [entry for entry in logs if entry["event"] == "plan_refused"]
    assert "give the broker the jar of this release" in refused["reason"]


async def test_without_an_address_nothing_is_noted() -> None:
    served = PlansForBrokers("", lambda _: None, CollectorRegistry(), lambda _: None)
    assert served.observers == ()
    await served.start()
    await served.stop()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_whole_process_serves_and_counts(tmp_path: Path) -> None:
    size, path = Size(groups=1, partitions=6, members=2), tmp_path / "a.sock"
    with running(size, tmp_path, assignor_address=f"unix:{path}") as run:
        run.wait_until_seen(size.groups)
        assert sorted(set(ask(path))) == list(range(len(MEMBERS)))
        message = 'bellwether_served_requests_total{outcome="plan"} 1.0'
        wait_until(lambda: message in run.get("/metrics"), 30, (tmp_path / "log").read_text)
    assert "plan_served" in (tmp_path / "log").read_text()
    assert not path.exists()
