"""Groups whose broker asks Bellwether, on real brokers with the assignors on their class path."""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import missing_tool
from tests.interop.support.bellwether import Bellwether, ordered
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.jvm import MissingToolError, java
from tests.interop.support.members import QUIET_S, Flock, Member, partitions_of, wait_until
from tests.patience import PATIENCE

TOPIC, PARTITIONS = "served", 30
RACKS = ("az1", "az2", "az3")
ASSIGNORS = "uniform,bellwether.broker.BellwetherAssignor,bellwether.broker.RackFirstAssignor"
SETTLE_S = 60.0
PROBED_S = 3.0
JOINED_S = 3.0  # the broker joins changes for a second, and a heartbeat comes every second

pytestmark = [pytest.mark.broker, pytest.mark.timeout(400)]


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
    properties = {
        "group.consumer.assignors": ASSIGNORS,
        "bellwether.assignor.address": f"unix:{folder / 'assignor.sock'}",
        "bellwether.assignor.deadline.ms": "500",  # of a busy machine; how fast plans come is measured elsewhere
        "group.consumer.heartbeat.interval.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "1000",
    }
    with KafkaCluster(properties=properties) as cluster:
        cluster.create_topic(TOPIC, assignment=[[1 + p % 3] for p in range(PARTITIONS)])
        yield cluster


def joined(flock: Flock, group: str, assignor: str, rack: str) -> Member:
    more = {"property.group.remote.assignor": assignor}
    return flock.member("java", group, [TOPIC], [], protocol="consumer", rack=rack, more=more)


def settled(members: Sequence[Member]) -> None:
    """Waits until these members have every partition once, for a while."""

    def complete() -> bool:
        owned = [partition for member in members for partition in member.owned()]
        whole = len(owned) == PARTITIONS and set(owned) == partitions_of({TOPIC: PARTITIONS})
        return whole and all(member.quiet_s > JOINED_S + QUIET_S for member in members)

    wait_until(complete, SETTLE_S, lambda: str({member.name: sorted(member.owned()) for member in members}))


def crossing(members: Sequence[Member]) -> int:
    return sum(RACKS[p % 3] != member.fields["rack"] for member in members for _, p in member.owned())


def served(bellwether: Bellwether) -> int:
    return len(bellwether.log("plan_served"))


def started(bellwether: Bellwether) -> None:
    """Waits until brokers, which probe twice a second, know that it answers."""
    before = len(bellwether.log("plans_for_brokers"))
    bellwether.start(wait=False)
    wait_until(lambda: len(bellwether.log("plans_for_brokers")) > before, SETTLE_S, bellwether.tail)
    time.sleep(PROBED_S * PATIENCE)


def fallbacks(brokers: KafkaCluster) -> int:
    return sum(log.count("no plan from Bellwether") for log in brokers.logs(1_000_000).values())


def test_a_broker_assigns_by_rack_while_bellwether_answers_and_moves_nothing_while_it_does_not(
    brokers: KafkaCluster, folder: Path
) -> None:
    group, address = "served-by-rack", f"unix:{folder / 'assignor.sock'}"
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
        known = served(bellwether)
        members += [late, joined(flock, group, "bellwether-rack-first", "az2")]
        wait_until(lambda: served(bellwether) > known, SETTLE_S, bellwether.tail)
        settled(members)
        shares = [len(member.owned()) for member in members]
        assert max(shares) - min(shares) <= 1, shares
        assert crossing(members) <= 10

        known = served(bellwether)
        members.pop().stop()
        wait_until(lambda: served(bellwether) > known, SETTLE_S, bellwether.tail)
        settled(members)
        last = bellwether.log("plan_served")[-1]
        assert (last["policy"], last["topics"]) == ("rack-first", TOPIC), "its id has a name by now"


def test_orders_on_placement_hold_in_a_group_that_the_broker_assigns(brokers: KafkaCluster, folder: Path) -> None:
    """An evacuated rack stays empty through a further rebalance and a restart of Bellwether, and has its share again
    when the order is withdrawn. Each time the broker asks at once, because a temporary member joins and leaves."""
    group, control = "served-orders", "served-control"
    address = f"unix:{folder / 'assignor.sock'}"
    settings = {"assignor_address": address, "control_topic": control}
    bellwether = Bellwether(brokers, [group], options={"mode": "observe"}, **settings)

    def begun() -> int:
        return len(bellwether.log("rebalance_begun"))

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
        print(f"the rack was empty {took_s:.1f} s after the command began; {begun()} rebalance")
        assert begun() == 1

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


def settled_with_shares(members: Sequence[Member]) -> None:
    wait_until(lambda: all(member.owned() for member in members), SETTLE_S, lambda: str(members))
    settled(members)
