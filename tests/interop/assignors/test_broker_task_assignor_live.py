"""A Streams application whose 4.4 broker asks Bellwether, by `group.protocol=streams`, with the assignor on its class
path."""

from pathlib import Path

import pytest

from tests.interop.support.bellwether import Bellwether, ordered
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import wait_until
from tests.interop.support.scenes.served import address_in, begun_for_orders
from tests.interop.support.scenes.served_tasks import (
    GROUP,
    SETTLE_S,
    counting_application,
    in_one_rack,
    settled,
    started,
)

pytestmark = [pytest.mark.broker, pytest.mark.timeout(900)]


def test_a_broker_places_tasks_by_rack_while_bellwether_answers_and_keeps_them_while_it_does_not(
    broker: KafkaCluster, folder: Path
) -> None:
    """Two instances in each of two racks and one in the third. Every record is counted once in the end."""
    bellwether = Bellwether(broker, [GROUP], options={"mode": "observe"}, assignor_address=address_in(folder))
    with counting_application(broker, bellwether) as app:
        owners = settled(app)
        assert in_one_rack(app) == [], bellwether.tail()
        assert {list(owners.values()).count(name) for name in "abcde"} <= {3, 4}
        plans = bellwether.log("plan_served")
        assert (plans[-1]["policy"], plans[-1]["assignor"]) == ("streams-ha", "bellwether")

        bellwether.kill()
        standbys = {task: instance.name for instance in app.live for task in instance.standbys}
        app.instances["e"].stop()
        kept = settled(app)
        assert {task: kept[task] for task, owner in owners.items() if owner != "e"} == {
            task: owner for task, owner in owners.items() if owner != "e"
        }, "what runs elsewhere stays"
        lost = [task for task, owner in owners.items() if owner == "e" and task in standbys]
        assert lost
        assert {task: kept[task] for task in lost} == {task: standbys[task] for task in lost}, "where the copies are"
        assert "no plan from Bellwether" in "".join(broker.logs(1_000_000).values())

        started(bellwether)
        bellwether.logged("group_observed", group=GROUP, members=4)
        app.start("e", settings={"client.rack": "az3"})
        owners = settled(app)
        assert "e" in owners.values(), bellwether.tail()
        assert in_one_rack(app) == [], bellwether.tail()
        plan = bellwether.log("plan_served")[-1]
        assert (plan["group"], f"{GROUP}-in" in plan["topics"]) == (GROUP, True), plan
        print(f"plans took {[plan['plan_ms'] for plan in bellwether.log('plan_served')]} ms")


def test_orders_on_placement_hold_in_an_application_that_the_broker_assigns(broker: KafkaCluster, folder: Path) -> None:
    """A rack is evacuated, then a process by its client id, and each gets its tasks back when the order is withdrawn.
    For each order the broker asks at once, because a temporary member joins and leaves; every record is counted once in
    the end."""
    control = "served-tasks-control"
    bellwether = Bellwether(
        broker,
        [GROUP],
        options={"mode": "observe"},
        assignor_address=address_in(folder),
        control_topic=control,
    )
    with counting_application(broker, bellwether) as app:
        owners = settled(app)
        bellwether.logged("group_observed", group=GROUP, members=5)

        def evacuated(place: str, *names: str) -> dict[str, str]:
            begun = begun_for_orders(bellwether)
            ordered(broker, control, "evacuate", GROUP, place, "--wait", "60")
            wait_until(lambda: not any(app.instances[name].running for name in names), SETTLE_S, bellwether.tail)
            after = settled(app)
            assert not {*after.values()} & {*names}, bellwether.tail()
            assert begun_for_orders(bellwether) == begun + 1
            return after

        def withdrawn() -> None:
            ordered(broker, control, "unpin", GROUP, "--all")
            wait_until(lambda: all(instance.running for instance in app.live), SETTLE_S, bellwether.tail)
            settled(app)

        ordered(broker, control, "rebalance", GROUP)
        wait_until(lambda: begun_for_orders(bellwether) == 1, SETTLE_S, bellwether.tail)
        assert settled(app) == owners, "nobody is disturbed"

        without_rack = evacuated("rack:az1", "a", "b")
        others = {task: owner for task, owner in owners.items() if owner not in "ab"}
        # The broker asks again when the temporary member leaves, and that plan moves nothing, either.
        assert {task: without_rack[task] for task in others} == others
        withdrawn()
        evacuated("member:c", "c")
        withdrawn()
