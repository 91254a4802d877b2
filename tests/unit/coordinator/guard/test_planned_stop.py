"""A guarded process that is to stop: it is emptied first, by an order that ends when it is back."""

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.kafka.wire import BrokerProtocol, FindLeader
from bellwether_kafka.coordinator.kafka.wire.topic_log import AppendRecord
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember
from tests.kit.membership import GROUP, P1, plain, thread
from tests.unit.coordinator.guard.stage import (
    NAMED,
    WORK,
    GuardedDirectory,
    Stage,
    crash,
    heartbeat,
    of_consumer_protocol,
    ordered,
    orders,
    stage,
    stopped,
)
from tests.unit.coordinator.guard.world import Brokers, Process

REASON = "it stops"

LEADER_NOT_AVAILABLE, NOT_LEADER = 5, 6  # the second: NOT_LEADER_OR_FOLLOWER


def led(*others: DescribedMember, grace_s: float = NAMED.grace_s) -> Stage:
    """The process has work, and a Bellwether leads its group."""
    on = stage(replace(NAMED, grace_s=grace_s), replace(plain("a"), assignment=WORK), *others)
    on.brokers.echo(heartbeat())
    return on


async def evacuated(on: Stage) -> None:
    """All that it had has gone to the other member."""
    await ordered(on)
    on.brokers.show(plain("a"), replace(plain("b", "app-2"), assignment=WORK))


def test_it_is_empty_before_it_is_stopped_and_the_order_is_in_force_until_it_is_back() -> None:
    on = led(plain("b", "app-2"))

    async def evacuated(on: Stage) -> None:
        await ordered(on)
        assert not on.process.stopped
        on.brokers.show(plain("a"), replace(plain("b", "app-2"), assignment=WORK))

    message = on.play(evacuated)
    assert orders(on.brokers) == [(f"evacuate/{GROUP}/*/member:a", True), (f"absence/{GROUP}/member:a", True)]
    (given,) = [control.decode(*record) for record in on.brokers.log if record[0].startswith(b"evacuate/")]
    assert isinstance(given, control.PlacementOrder)
    assert given.until is control.Until.BACK
    assert message[0].startswith("It is empty after ")
    assert on.process.stopped
    assert on.brokers.removed == ["a"]


def test_that_it_is_empty_is_recorded_also_where_the_leader_dies_before_it_has_seen_that() -> None:
    """Otherwise a new member id alone would not show that it is back, and the order would stand until it expires."""
    on = led(plain("b", "app-2"))

    on.play(evacuated)
    order, absence = (control.decode(*record) for record in on.brokers.log[-2:])
    assert isinstance(order, control.PlacementOrder)
    assert isinstance(absence, control.Absence)
    assert (absence.stage, absence.members, absence.order_ms) == (control.Stage.EMPTY, ("a",), order.at_ms)
    back = DescribeAnswer(0, 0, "Stable", "consumer", "range", (plain("a2"),))
    assert control.absence_update(order, absence, back, order.at_ms).ended == "it is back"


@pytest.mark.slow
@pytest.mark.usefixtures("soon_over")
def test_that_it_is_empty_is_recorded_before_it_is_stopped() -> None:
    """The network may be lost while it closes."""
    on = led(plain("b", "app-2"))
    on.process.when_stopped = lambda: setattr(on.brokers, "down", True)

    on.play(evacuated)
    assert [key for key, _ in orders(on.brokers)] == [f"evacuate/{GROUP}/*/member:a", f"absence/{GROUP}/member:a"]


def test_a_process_that_is_empty_is_stopped_also_where_that_cannot_be_recorded() -> None:
    on = led(plain("b", "app-2"))
    on.brokers.codes[AppendRecord] = [0, NOT_LEADER]

    message = on.play(evacuated)
    assert on.process.stopped
    assert [sentence.partition(" after ")[0] for sentence in message[:1]] == ["It is empty"]
    assert on.brokers.removed == ["a"]


def test_it_is_not_stopped_while_the_next_rebalance_is_to_hand_over_what_it_has_given_up() -> None:
    """That rebalance would wait for a process that stops: Kafka Streams does not leave, and closes only after it."""
    on = led(plain("b", "app-2"))

    async def evacuated(on: Stage) -> None:
        await ordered(on)
        await on.refreshed()
        on.brokers.show(plain("a"), plain("b", "app-2"))
        await on.refreshed(5)
        assert not on.process.stopped, "what it had has no owner"
        on.brokers.show(plain("a"), plain("b", "app-2"), state="PreparingRebalance")
        await on.refreshed(5)
        assert not on.process.stopped
        on.brokers.show(plain("a"), replace(plain("b", "app-2"), assignment=WORK))

    message = on.play(evacuated)
    assert message[0].startswith("It is empty after ")


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        (lambda b: None, "No Bellwether that leads"),
        (lambda b: b.echo(heartbeat(at_ms=1)), "No Bellwether that leads"),
        (lambda b: b.echo(heartbeat(leads=())), "No Bellwether that leads"),
        (
            lambda b: b.echo(heartbeat(policies={GROUP: "kafka"}, orders_for=())),
            "a policy that does not know evacuations",
        ),
        (lambda b: setattr(b, "no_topic", True), "There is no control topic"),
        (lambda b: (b.echo(heartbeat()), b.codes.update({AppendRecord: [29]})), "grant WRITE"),
    ],
)
def test_where_nobody_can_empty_it_it_is_stopped_at_once_and_that_is_reported(
    prepare: Callable[[Brokers], object], why: str
) -> None:
    on = stage(NAMED, replace(plain("a"), assignment=WORK))
    prepare(on.brokers)
    message = on.play(stopped)
    assert why in message[0]
    assert on.process.stopped
    assert on.brokers.removed == ["a"]


@pytest.mark.parametrize("protocol", ["consumer", "streams"])
def test_it_is_empty_before_it_is_stopped_where_its_broker_gets_plans_of_bellwether(protocol: BrokerProtocol) -> None:
    group = replace(of_consumer_protocol("app-1", "app-2"), protocol=protocol)
    first, second = group.members
    on = stage(NAMED)
    on.brokers.by_broker = group
    on.brokers.echo(heartbeat(leads=(), serves=(GROUP,)))

    async def evacuated_by_its_broker(on: Stage) -> None:
        await ordered(on)
        await on.refreshed(4)
        assert not on.process.stopped
        everything = replace(second, assigned=(("orders", (0, 1)),))
        on.brokers.by_broker = replace(group, members=(replace(first, assigned=()), everything))

    message = on.play(evacuated_by_its_broker)
    assert message[0].startswith("It is empty after ")
    assert [key for key, _ in orders(on.brokers)] == [f"evacuate/{GROUP}/*/member:m-0", f"absence/{GROUP}/member:m-0"]
    assert on.process.stopped


def test_it_is_explained_why_nothing_is_known_to_be_its_own() -> None:
    """Otherwise it stops with its tasks, its members wait for their sessions, and nobody learns of it."""
    on = stage(NAMED, plain("a"), plain("b"))
    on.brokers.echo(heartbeat())
    nothing, *objections = on.play(stopped)
    assert nothing == "It has no proven member, so there is nothing to empty; it is stopped at once."
    assert [objection.partition(": ")[0] for objection in objections[:2]] == ["Not emptied", "Not emptied"]
    assert any(
        objection.startswith("Not removed: several members have the client id 'app-1'") for objection in objections
    )


@pytest.mark.slow
def test_an_instance_that_cannot_be_evacuated_is_stopped_when_its_grace_is_over() -> None:
    on = led(grace_s=0.2)
    message = on.play(stopped)
    assert message[0] == "It is not empty after 0.2 s, and is stopped."
    assert [given for _, given in orders(on.brokers)] == [True, False]


@pytest.mark.slow
def test_the_order_on_one_that_was_stopped_before_it_was_empty_is_withdrawn() -> None:
    """A static member that is back before it was seen to be empty would not be known again."""
    on = led(grace_s=0.2)
    on.play(stopped)
    key = f"evacuate/{GROUP}/*/member:a"
    assert orders(on.brokers) == [(key, True), (key, False)]


@pytest.mark.slow
def test_an_order_is_withdrawn_where_the_control_topic_has_moved_meanwhile() -> None:
    on = led(grace_s=0.2)
    on.brokers.codes[AppendRecord] = [0, NOT_LEADER]
    message = on.play(stopped)
    assert [given for _, given in orders(on.brokers)] == [True, False]
    leaders = [request for request in on.brokers.asked if isinstance(request, FindLeader)]
    assert len(leaders) == 2, "at first, and after the first attempt to withdraw it"
    assert not any("withdrawn" in sentence for sentence in message)


@pytest.mark.slow
def test_an_order_is_given_again_while_a_broker_is_in_the_way() -> None:
    on = led(plain("b", "app-2"))
    on.brokers.codes[FindLeader] = [LEADER_NOT_AVAILABLE]
    on.brokers.codes[AppendRecord] = [NOT_LEADER, NOT_LEADER]

    message = on.play(evacuated)
    assert message[0].startswith("It is not emptied yet: There is no control topic")
    assert message[1].startswith("It is not emptied yet: The control topic 'bellwether-control' was not written")
    assert message[2].startswith("It is empty after "), "each reason once"


def test_an_order_is_given_as_soon_as_the_brokers_answer_again() -> None:
    on = led(plain("b", "app-2"))

    async def evacuated(on: Stage) -> None:
        await on.refreshed()
        on.brokers.down = True
        on.process.sigterm()
        await on.until(lambda: any("not emptied yet" in sentence for sentence in on.message))
        assert not on.process.stopped
        on.brokers.down = False
        await on.until(lambda: bool(orders(on.brokers)))
        on.brokers.show(plain("a"), replace(plain("b", "app-2"), assignment=WORK))

    message = on.play(evacuated)
    assert message[-2].startswith("It is empty after ")
    assert on.brokers.removed == ["a"]


@pytest.mark.slow
def test_an_order_whose_answer_was_lost_is_withdrawn_as_well() -> None:
    """It may stand: the one that is given again is the same."""
    on = led(grace_s=3.0)
    on.brokers.loses_answer_to = AppendRecord
    on.play(stopped)
    assert [given for _, given in orders(on.brokers)] == [True, True, False]


@pytest.mark.slow
@pytest.mark.usefixtures("soon_over")
def test_an_order_that_cannot_be_withdrawn_is_reported() -> None:
    async def then_nobody_answers(on: Stage) -> None:
        await ordered(on)
        on.brokers.down = True

    on = led(grace_s=0.2)
    message = on.play(then_nobody_answers)
    assert [given for _, given in orders(on.brokers)] == [True]
    assert message[-1].startswith("Its order to be emptied is not withdrawn (")
    assert message[-1].endswith("it ends when the process is back in the group, or expires within 10 minutes.")


def test_a_second_sigterm_is_passed_on_at_once() -> None:
    async def twice(on: Stage) -> None:
        await stopped(on)
        await on.refreshed()
        on.process.sigterm()

    on = led(grace_s=60.0)
    message = on.play(twice)
    assert message[0].startswith("It is stopped at once, by a second signal")


# Than the start of any process of these tests, whose parameters are made long before some of them run.
LATER_MS = int(time.time() * 1000) + 3_600_000


def left_order(*, target: str = GROUP, reason: str = REASON, at_ms: int = 0) -> control.PlacementOrder:
    """As an earlier guard of P1 has given it, which lost the network before it could withdraw it."""
    expires_ms = int(time.time() * 1000) + 600_000
    kind, where, until = control.OrderKind.EVACUATE, f"member:{P1}", control.Until.BACK
    return control.PlacementOrder(kind, target, "*", where, "root@here", at_ms, expires_ms, reason, until=until)


def absence(stage: control.Stage) -> control.Absence:
    return control.Absence(GROUP, f"member:{P1}", 1, int(time.time() * 1000) + 600_000, stage, 1, ("a0",), (P1,))


def test_an_order_that_an_earlier_guard_could_not_withdraw_is_withdrawn_when_the_process_is_back(
    guarded: GuardedDirectory,
) -> None:
    options, lock = guarded

    async def back(on: Stage) -> None:
        await on.until(lambda: bool(on.message))
        lock["holder"] = None
        on.process.end()

    on = stage(options, thread("a"))
    order = left_order()
    on.brokers.echo(order)
    message = on.play(back)
    assert message[0] == "It is back: the order of an earlier guard to empty it is withdrawn."
    assert orders(on.brokers) == [(order.key, True), (order.key, False)]


@pytest.mark.parametrize(
    "records",
    [
        (left_order(reason="maintenance"),),  # an operator's
        (left_order(at_ms=LATER_MS),),  # given since the process started
        (left_order(), absence(control.Stage.EMPTY)),  # which the leader ends
        (left_order(), absence(control.Stage.AWAY)),
        (left_order(target="another"),),
    ],
)
def test_other_orders_are_left_alone(guarded: GuardedDirectory, records: tuple[control.Record, ...]) -> None:
    options, lock = guarded

    on = stage(options, thread("a"))
    for record in records:
        on.brokers.echo(record)
    on.play(crash(lock, refreshes=8))
    assert all(given for _, given in orders(on.brokers))


def test_an_order_of_an_operator_is_not_withdrawn() -> None:
    on = stage(NAMED, plain("a"))
    now_ms = int(time.time() * 1000)
    kind, where = control.OrderKind.EVACUATE, "member:a"
    on.brokers.echo(heartbeat())
    on.brokers.echo(control.PlacementOrder(kind, GROUP, "*", where, "operator", now_ms, now_ms + 60_000))
    on.play(stopped)
    assert [given for _, given in orders(on.brokers)] == [True]


def test_one_that_dies_while_it_is_evacuated_is_removed_at_once() -> None:
    async def died(on: Stage) -> None:
        await stopped(on)
        await on.refreshed()
        on.process.end()

    on = led(grace_s=60.0)
    on.play(died)
    assert not on.process.stopped
    assert on.brokers.removed == ["a"]


def test_without_grace_it_is_stopped_without_an_order() -> None:
    on = stage(replace(NAMED, grace_s=0.0), plain("a"))
    on.brokers.echo(heartbeat())
    on.play(stopped)
    assert on.process.stopped
    assert not orders(on.brokers)


def test_a_watched_process_that_outlives_its_guard_keeps_its_members() -> None:
    on = stage(replace(NAMED, grace_s=0.1), plain("a"), process=Process(own=False))
    message = on.play(stopped)
    assert message == ["It runs on and is no longer guarded."]
    assert not on.process.stopped
    assert not on.brokers.removed
