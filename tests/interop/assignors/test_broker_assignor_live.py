"""Groups whose broker asks Bellwether, on real brokers with the assignors on their class path."""

import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.conftest import missing_tool
from tests.interop.support.bellwether import Bellwether, ordered
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.guarded import CONSUMER, Guarded, guard_command
from tests.interop.support.jvm import MissingToolError, java
from tests.interop.support.members import Flock, wait_until
from tests.interop.support.scenes.served import (
    PARTITIONS,
    RACKS,
    SETTLE_S,
    TOPIC,
    address_in,
    asking_cluster,
    begun_for_orders,
    create_topic,
    crossing,
    joined,
    settled,
    settled_with_shares,
    started,
)

pytestmark = [pytest.mark.broker, pytest.mark.timeout(400)]

PROVEN_S = 12.0  # a member that was there when the guard first looked is its child's only after ten seconds


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bellwether-assignor-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def brokers(request: pytest.FixtureRequest, folder: Path) -> Iterator[KafkaCluster]:
    try:
        java()
    except MissingToolError as missing:
        missing_tool(request.config, f"{missing}: no real broker")
    with asking_cluster(folder) as cluster:
        create_topic(cluster)
        yield cluster


def served(bellwether: Bellwether) -> int:
    return len(bellwether.log("plan_served"))


def fallbacks(brokers: KafkaCluster) -> int:
    return sum(log.count("no plan from Bellwether") for log in brokers.logs(1_000_000).values())


def test_a_broker_assigns_by_rack_while_bellwether_answers_and_moves_nothing_while_it_does_not(
    brokers: KafkaCluster, folder: Path
) -> None:
    group, address = "served-by-rack", address_in(folder)
    bellwether = Bellwether(brokers, [group], options={"mode": "observe"}, assignor_address=address)
    with Flock(brokers.bootstrap) as flock, ExitStack() as ends:
        ends.push(bellwether)
        uniform = [joined(flock, "by-uniform", "uniform", rack) for rack in RACKS * 2]
        settled(uniform)
        by_uniform = crossing(uniform)
        for member in uniform:
            member.stop()
        started(bellwether)
        members = [joined(flock, group, "bellwether-rack-first", rack) for rack in RACKS * 2]
        settled(members)
        assert served(bellwether), bellwether.tail()
        assert crossing(members) <= min(6, by_uniform // 2), (crossing(members), by_uniform)

        bellwether.kill()
        before, fallbacks_before = {member.name: member.owned() for member in members}, fallbacks(brokers)
        late = joined(flock, group, "bellwether-rack-first", "az1")
        wait_until(lambda: fallbacks(brokers) > fallbacks_before, SETTLE_S, bellwether.tail)
        settled([*members, late])
        assert {member.name: member.owned() for member in members} == before
        gone = members.pop()
        gone.stop()
        settled([*members, late])
        assert all(member.owned() >= before[member.name] for member in members)
        assert late.owned(), "it has the fewest"

        started(bellwether)
        plans_served = served(bellwether)
        members += [late, joined(flock, group, "bellwether-rack-first", "az2")]
        wait_until(lambda: served(bellwether) > plans_served, SETTLE_S, bellwether.tail)
        settled(members)
        shares = [len(member.owned()) for member in members]
        assert max(shares) - min(shares) <= 1, shares
        assert crossing(members) <= 10

        plans_served = served(bellwether)
        members.pop().stop()
        wait_until(lambda: served(bellwether) > plans_served, SETTLE_S, bellwether.tail)
        settled(members)
        last = bellwether.log("plan_served")[-1]
        assert (last["policy"], last["topics"]) == ("rack-first", TOPIC), "its id has a name by now"


def test_orders_on_placement_hold_in_a_group_that_the_broker_assigns(brokers: KafkaCluster, folder: Path) -> None:
    """An evacuated rack stays empty through a further rebalance and a restart of Bellwether, and has its share again
    when the order is withdrawn. Each time the broker asks at once, because a temporary member joins and leaves. An
    order on a client id outlives a restart of the member, which has another member id then."""
    group, control = "served-orders", "served-control"
    address = address_in(folder)
    settings = {"assignor_address": address, "control_topic": control}
    bellwether = Bellwether(brokers, [group], options={"mode": "observe"}, **settings)

    with Flock(brokers.bootstrap) as flock, ExitStack() as ends:
        ends.push(bellwether)
        started(bellwether)
        members = [joined(flock, group, "bellwether-rack-first", rack) for rack in RACKS * 2]
        evacuated, others = [m for m in members if m.fields["rack"] == "az1"], members[1:3]

        def empty_after(order: Callable[[], object]) -> float:
            began = time.monotonic()
            order()
            wait_until(lambda: not any(m.owned() for m in evacuated), SETTLE_S, bellwether.tail)
            return time.monotonic() - began

        settled(members)
        took_s = empty_after(lambda: ordered(brokers, control, "evacuate", group, "rack:az1", "--wait", "60"))
        settled(members)
        print(f"the rack was empty {took_s:.1f} s after the command began; {begun_for_orders(bellwether)} rebalance")
        assert begun_for_orders(bellwether) == 1

        others[0].stop()
        settled([m for m in members if m is not others[0]])
        assert not any(m.owned() for m in evacuated), "another rebalance keeps it empty"
        others[0].start()
        settled(members)

        bellwether.stop()
        started(bellwether)
        wait_until(lambda: bool(bellwether.log("control_topic_read")), SETTLE_S, bellwether.tail)
        others[1].stop()
        settled([m for m in members if m is not others[1]])
        assert not any(m.owned() for m in evacuated), "so does a plan after a restart"
        others[1].start()
        settled(members)

        ordered(brokers, control, "unpin", group, "--all")
        settled_with_shares(members)

        restarted = members[0]
        ordered(brokers, control, "evacuate", group, f"member:{restarted.name}", "--wait", "60")
        settled(members)
        restarted.stop()
        restarted.start()
        settled_with_shares(members)
        assert any("it is back" in entry["cause"] for entry in bellwether.log("rebalance_begun")), bellwether.tail()


def test_roll_restarts_each_member_of_a_group_that_the_broker_assigns(brokers: KafkaCluster, folder: Path) -> None:
    """Each member is emptied, restarted, and has its share again before the next. No order is left in force."""
    group, control, asked = "served-roll", "served-roll-control", folder / "restart"
    settings = {"assignor_address": address_in(folder), "control_topic": control}
    bellwether = Bellwether(brokers, [group], options={"mode": "observe"}, **settings)
    restart = (
        f"sh -c 'echo {{member}} > {asked}.part; mv {asked}.part {asked}; while [ -e {asked} ]; do sleep 0.1; done'"
    )
    restarted: list[str] = []
    with Flock(brokers.bootstrap) as flock, ExitStack() as ends, ThreadPoolExecutor() as threads:
        ends.push(bellwether)
        started(bellwether)
        members = {m.name: m for m in (joined(flock, group, "bellwether-rack-first", rack) for rack in RACKS)}
        settled_with_shares(list(members.values()))
        rolled = threads.submit(ordered, brokers, control, "roll", group, "--exec", restart, "--wait", "60")
        while not rolled.done():
            if asked.exists():
                name = asked.read_text().strip()
                assert not members[name].owned(), "it was emptied before"
                members[name].stop()
                members[name].start()
                restarted.append(name)
                asked.unlink()
            time.sleep(0.1)
        print(rolled.result().text)
        assert restarted == sorted(members)
        settled_with_shares(list(members.values()))
        assert "evacuate" not in ordered(brokers, control, "orders").text


def test_a_consumer_under_the_guard_is_empty_before_it_gets_sigterm(brokers: KafkaCluster, folder: Path) -> None:
    group, control, assignor = "served-guard", "served-guard-control", "bellwether-rack-first"
    settings = {"assignor_address": address_in(folder), "control_topic": control}
    bellwether = Bellwether(brokers, [group], options={"mode": "observe"}, **settings)
    guard = guard_command(brokers, group, "--client-id", "stops", "--topic", control, "--grace", "60")
    properties = json.dumps({**brokers.client_config("admin", "admin"), "group.remote.assignor": assignor})
    stops = [sys.executable, "-c", CONSUMER, properties, group, TOPIC, "stops", "0", "0", "consumer"]
    with Flock(brokers.bootstrap) as flock, ExitStack() as ends:
        ends.push(bellwether)
        started(bellwether)
        stays = joined(flock, group, assignor, "az1")
        guarded = ends.enter_context(Guarded(guard, stops))
        wait_until(lambda: 0 < len(stays.owned()) < PARTITIONS, SETTLE_S, guarded.message)
        time.sleep(PROVEN_S)
        os.kill(guarded.process.pid, signal.SIGTERM)
        assert guarded.process.wait(SETTLE_S) == 128 + signal.SIGTERM, guarded.message()
        assert len(stays.owned()) == PARTITIONS, guarded.message()
        assert re.search(r"It is empty after [\d.]+ s", guarded.message()), guarded.message()
        print(guarded.message())


def test_a_group_that_began_even_by_count_becomes_even_by_load(brokers: KafkaCluster, folder: Path) -> None:
    """What is hot is known only once the group has been observed, and nothing else makes the broker ask again."""
    group, topic, partitions = "served-by-load", "served-hot", 12
    brokers.create_topic(topic, partitions)
    bellwether = Bellwether(brokers, [group], options={"mode": "observe"}, assignor_address=address_in(folder))
    with Flock(brokers.bootstrap) as flock, ExitStack() as ends:
        ends.push(bellwether)
        started(bellwether)
        members = [joined(flock, group, "bellwether-load-aware", "", topic=topic) for _ in RACKS]
        wait_until(lambda: [len(m.owned()) for m in members] == [4, 4, 4], SETTLE_S, lambda: str(members))
        hot = {partition for _, partition in members[0].owned()}
        rates = {partition: 300 if partition in hot else 60 for partition in range(partitions)}
        producer = Producer({"bootstrap.servers": brokers.bootstrap})

        def loads() -> list[int]:
            for partition, rate in rates.items():
                for _ in range(rate // 10):
                    producer.produce(topic, b"record", partition=partition)
            producer.flush(10)
            return sorted(sum(rates[partition] for _, partition in member.owned()) for member in members)

        before = loads()
        assert before[-1] > 2 * sum(before) / 3, "one member has the hot ones"
        wait_until(lambda: sum(loads()) == sum(before) and max(loads()) <= 1.2 * sum(before) / 3, 90, bellwether.tail)
        assert "the load of members is uneven" in bellwether.log("rebalance_begun")[0]["cause"]
