"""A guarded process from its start to the end of its memberships, on brokers whose answers are scripted."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.guard import attend, running_streams
from bellwether_kafka.coordinator.guard.attend import (
    BETWEEN_FROM_S,
    BETWEEN_TO_S,
    Attendance,
    until_between_heartbeats_s,
)
from bellwether_kafka.coordinator.guard.evacuation import REASON
from bellwether_kafka.coordinator.guard.fencing import CONCURRENT_TRANSACTIONS
from bellwether_kafka.coordinator.guard.options import GuardOptions
from bellwether_kafka.coordinator.guard.state_directory import Lock, StateDirectory
from bellwether_kafka.coordinator.kafka.log_requests import AppendRecord, FindLeader
from bellwether_kafka.coordinator.kafka.node_requests import RemoveMembers
from bellwether_kafka.coordinator.kafka.producer_requests import FenceProducer
from bellwether_kafka.coordinator.kafka.transport import TransportError
from bellwether_kafka.coordinator.membership.events import DescribeAnswer, DescribedMember, Failure
from bellwether_kafka.protocol.messages.consumer import ConsumerProtocolAssignment
from bellwether_kafka.protocol.primitives.types import TopicPartition
from tests.unit.coordinator.ghosts.test_proof import GROUP, P1, P2, plain, thread
from tests.unit.coordinator.guard.world import Brokers, Process

NAMED = GuardOptions(GROUP, {}, "bellwether-control", client_ids=("app-1",), grace_s=5.0)
LEADER_NOT_AVAILABLE, NOT_LEADER = 5, 6  # the second: NOT_LEADER_OR_FOLLOWER
WORK = ConsumerProtocolAssignment(0, (TopicPartition("in", 0),)).encode()
HOLDER = 4_000_000


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("UNSETTLED_S", 0.01), ("SETTLED_S", 0.01), ("DIRECTORY_LOOK_S", 0.01)):
        monkeypatch.setattr(attend, name, value)
    for name, value in (("EMPTYING_LOOK_S", 0.01), ("END_S", 0.5), ("LEFT_S", 0.05), ("LEFT_LOOK_S", 0.005)):
        monkeypatch.setattr(attend, name, value)


class Stage:
    """An attendance that runs beside a script of what happens."""

    def __init__(self, options: GuardOptions, brokers: Brokers, process: Process) -> None:
        self.brokers, self.process = brokers, process
        self.said: list[str] = []
        self._attendance = Attendance(process, options, brokers, self.said.append)

    def play(self, script: Callable[["Stage"], Awaitable[None]]) -> list[str]:
        async def both() -> None:
            running = asyncio.create_task(self._attendance.run())
            await script(self)
            await asyncio.wait_for(running, 20)

        asyncio.run(both())
        return self.said

    async def looked(self, looks: int = 2) -> None:
        """Until the group has been looked at this often from now on."""
        before = len(self.brokers.asked)
        await self.until(lambda: len(self.brokers.asked) >= before + looks)

    async def until(self, happened: Callable[[], bool]) -> None:
        while not happened():  # noqa: ASYNC110 - brokers that are asked set no event
            await asyncio.sleep(0.005)


def stage(options: GuardOptions = NAMED, *members: DescribedMember, process: Process | None = None) -> Stage:
    brokers = Brokers()
    brokers.show(*members)
    return Stage(options, brokers, process or Process())


async def killed(on: Stage) -> None:
    await on.looked()
    on.process.end()


async def stopped(on: Stage) -> None:
    await on.looked()
    on.process.sigterm()


async def ordered(on: Stage) -> None:
    """SIGTERM, and the order to empty it is in the control topic."""
    await stopped(on)
    await on.until(lambda: bool(orders(on.brokers)))


def test_members_of_a_killed_process_are_removed_and_no_others() -> None:
    on = stage(NAMED, plain("a"), plain("b", "app-2"))
    said = on.play(killed)
    assert on.brokers.removed == ["a"]
    assert said[-1].startswith("Removed 1 of its 1 members, ")


def test_who_joins_after_the_end_is_never_removed() -> None:
    async def restarted(on: Stage) -> None:
        await on.looked()
        on.process.end()
        on.brokers.show(plain("a"), plain("successor"), state="PreparingRebalance")

    on = stage(NAMED, plain("a"))
    on.play(restarted)
    assert on.brokers.removed == ["a"]


def test_what_has_left_by_itself_is_no_fault() -> None:
    async def left(on: Stage) -> None:
        await on.looked()
        on.brokers.show()
        on.process.end()

    on = stage(NAMED, plain("a"))
    said = on.play(left)
    assert not on.brokers.removed
    assert "did not remove" not in " ".join(said)
    assert said[-1].endswith(" 1 had left the group before.")


def test_a_coordinator_node_that_moves_is_found_again() -> None:
    on = stage(NAMED, plain("a"))
    on.brokers.codes[RemoveMembers] = [16, 15]
    on.play(killed)
    assert on.brokers.removed == ["a"]


def test_missing_rights_are_named() -> None:
    on = stage(NAMED, plain("a"))
    on.brokers.codes[RemoveMembers] = [30]
    said = on.play(killed)
    assert (
        said[-1]
        == f"The broker removed none of its members: Bellwether's principal needs the ACL READ on Group '{GROUP}'."
    )


def test_brokers_that_are_down_hold_nobody_up_for_long() -> None:
    async def partitioned(on: Stage) -> None:
        await on.looked()
        on.brokers.down = True
        on.process.end()

    on = stage(NAMED, plain("a"))
    began = time.monotonic()
    said = on.play(partitioned)
    assert time.monotonic() - began < 10
    assert "they end with their sessions" in said[-1]


def test_what_the_process_has_left_running_keeps_its_members() -> None:
    """A shell that was killed may have left the real application behind."""
    process = Process()
    process.left_behind = True
    on = stage(NAMED, plain("a"), process=process)
    said = on.play(killed)
    assert not on.brokers.removed
    assert said[-1] == "Something of it still runs, so none of its members is removed."


# ---- Kafka Streams ---------------------------------------------------------------------------------------------------


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[GuardOptions, dict[str, int | None]]:
    """Options for the state directory of the process P1, and who holds its lock."""
    directory = tmp_path / GROUP
    directory.mkdir()
    (directory / "kafka-streams-process-metadata").write_text(f'{{"processId":"{P1}"}}')
    lock: dict[str, int | None] = {"holder": HOLDER, "file": 7, "heartbeats": 1}
    monkeypatch.setattr(StateDirectory, "lock", lambda _: Lock(lock["holder"], lock["file"] or 0))
    monkeypatch.setattr(running_streams, "sends_heartbeats", lambda _: bool(lock["heartbeats"]))
    return replace(NAMED, client_ids=(), state_dir=tmp_path, fence=True), lock


Held = tuple[GuardOptions, dict[str, int | None]]


def test_threads_of_the_process_that_held_the_directory_are_removed_and_fenced(held: Held) -> None:
    options, lock = held

    async def crashed(on: Stage) -> None:
        await on.looked(4)
        lock["holder"] = None
        on.process.end()

    on = stage(options, thread("a", number=1), thread("b", number=2), thread("c", P2))
    on.brokers.codes[FenceProducer] = [51, 51, 16]
    said = on.play(crashed)
    assert sorted(on.brokers.removed) == ["a", "b"]
    assert sorted(on.brokers.fenced) == [f"{GROUP}-{P1}-1", f"{GROUP}-{P1}-2"]
    assert f"Fenced {GROUP}-{P1}-1." in said


def test_one_that_was_emptied_leaves_between_two_heartbeats_under_exactly_once(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, lock = held
    monkeypatch.setattr(attend, "END_S", 5.0)
    empty_at, removed_at = [], []

    async def emptied(on: Stage) -> None:
        await on.looked(4)
        await ordered(on)
        on.brokers.show(thread("a"), replace(thread("b", P2), assignment=WORK))
        await on.until(lambda: on.process.stopped)
        empty_at.append(time.monotonic())
        lock["holder"] = None
        await on.until(lambda: bool(on.brokers.removed))
        removed_at.append(time.monotonic())

    on = stage(options, replace(thread("a"), assignment=WORK), thread("b", P2))
    on.brokers.say(beat())
    on.play(emptied)
    assert on.brokers.removed == ["a"]
    assert removed_at[0] - empty_at[0] >= BETWEEN_FROM_S - 0.1


def test_it_waits_for_the_time_between_two_heartbeats_and_no_longer() -> None:
    for hundredths in range(1_000):
        since_s = hundredths / 100
        left_at_s = since_s + until_between_heartbeats_s(since_s)
        assert left_at_s - since_s <= 0.75
        assert BETWEEN_FROM_S - 0.001 <= left_at_s % 1.0 <= BETWEEN_TO_S + 0.001


def test_a_directory_that_somebody_holds_after_the_end_frees_nobody(held: Held) -> None:
    options, _ = held
    on = stage(options, thread("a"))
    said = on.play(killed)
    assert not on.brokers.removed
    assert not on.brokers.fenced
    assert "Something of it still runs" in said[-1]


def test_a_directory_that_another_process_holds_proves_nothing(held: Held) -> None:
    """A wrong --state-dir: that of a neighbour who lives."""
    options, lock = held

    async def crashed(on: Stage) -> None:
        await on.looked(4)
        lock["holder"] = None  # the neighbour restarts in the very moment in which our process ends
        on.process.end()

    on = stage(options, thread("a"), process=Process(ours=False))
    said = on.play(crashed)
    assert not on.brokers.removed
    assert any(f"is in use by process {HOLDER}, not by the guarded one" in sentence for sentence in said)


def test_members_that_are_removed_are_not_reported_as_left_where_their_producers_are_not_fenced(held: Held) -> None:
    options, lock = held

    async def crashed(on: Stage) -> None:
        await on.looked(4)
        lock["holder"] = None
        on.process.end()

    on = stage(options, thread("a", number=1))
    on.brokers.codes[FenceProducer] = [CONCURRENT_TRANSACTIONS] * 1_000
    said = on.play(crashed)
    assert on.brokers.removed == ["a"]
    assert said[-1] == "Its producers are not fenced within 0.5 s; their transactions end with transaction.timeout.ms."


def test_a_successor_that_takes_the_directory_is_not_fenced(held: Held) -> None:
    options, lock = held

    async def crashed(on: Stage) -> None:
        await on.looked(4)
        lock["holder"] = None
        on.process.end()

    on = stage(options, thread("a"))
    real = on.brokers.ask

    async def ask(request: object) -> object:
        if isinstance(request, FenceProducer):
            lock["holder"] = HOLDER + 1
            return 51
        return await real(request)

    on.brokers.ask = ask  # type: ignore[method-assign]
    said = on.play(crashed)
    assert any("another process has taken its place" in sentence for sentence in said)


async def closed(on: Stage, lock: dict[str, int | None]) -> None:
    """Streams has closed in a process that lives on."""
    await on.looked(4)
    lock.update(holder=None, heartbeats=0)
    await on.looked(4)
    assert not on.process.ended


def test_members_of_streams_that_has_closed_are_removed_while_the_process_lives_on(held: Held) -> None:
    """As after an exception in all threads, where the application goes on to answer requests."""
    options, lock = held

    async def failed(on: Stage) -> None:
        await closed(on, lock)
        await on.until(lambda: sorted(on.brokers.removed) == ["a", "b"])
        await on.looked(4)
        assert not on.brokers.fenced, "it may open Streams again, whose producers have the same ids"
        on.process.end()

    on = stage(options, thread("a", number=1), thread("b", number=2), thread("c", P2))
    on.process.left_behind = True  # what else it has started lives on
    said = on.play(failed)
    assert said[0].startswith("Removed 2 of its 2 members, ")
    assert said[0].endswith(" ms after Kafka Streams closed in it.")
    assert said[1:] == [f"Fenced {GROUP}-{P1}-1.", f"Fenced {GROUP}-{P1}-2."]


def test_members_of_streams_that_is_opened_again_are_removed_at_the_end(held: Held) -> None:
    options, lock = held

    async def reopened(on: Stage) -> None:
        await closed(on, lock)
        await on.until(lambda: on.brokers.removed == ["a"])
        lock.update(holder=HOLDER, heartbeats=1)
        on.brokers.show(thread("a2"))
        await on.looked(4)
        assert on.brokers.removed == ["a"]
        lock["holder"] = None
        on.process.end()

    on = stage(options, thread("a"))
    on.play(reopened)
    assert on.brokers.removed == ["a", "a2"]


@pytest.mark.parametrize(
    "seen",
    [
        {"holder": None},  # a thread sends heartbeats: the process has lost the lock in another way
        {"holder": None, "heartbeats": 0, "file": 8},  # another process has come and gone; the directory was removed
        {"holder": None, "heartbeats": 0, "file": None},  # the directory was removed
        {"heartbeats": 0},  # between two consumers
    ],
)
def test_less_does_not_prove_that_streams_has_closed(held: Held, seen: dict[str, int | None]) -> None:
    options, lock = held

    async def lives(on: Stage) -> None:
        await on.looked(4)
        lock.update(seen)
        await on.looked(8)
        assert not on.brokers.removed
        lock["holder"] = None
        on.process.end()

    on = stage(options, thread("a"))
    on.play(lives)
    assert on.brokers.removed == ["a"], "its end proves it"


def test_heartbeats_that_were_never_seen_do_not_prove_by_their_absence(held: Held) -> None:
    """Another JVM may name its threads otherwise."""
    options, lock = held
    lock["heartbeats"] = 0

    async def lives(on: Stage) -> None:
        await closed(on, lock)
        await on.looked(8)
        assert not on.brokers.removed
        on.process.end()

    on = stage(options, thread("a"))
    on.play(lives)
    assert on.brokers.removed == ["a"]


def test_members_that_cannot_be_removed_when_streams_closes_are_removed_later(held: Held) -> None:
    options, lock = held

    async def failed(on: Stage) -> None:
        await on.looked(4)
        on.brokers.down = True
        lock.update(holder=None, heartbeats=0)
        await on.until(lambda: bool([one for one in on.said if "are not ended" in one]))
        on.brokers.down = False
        await on.until(lambda: on.brokers.removed == ["a"])
        on.process.end()

    on = stage(options, thread("a"))
    on.play(failed)


# ---- a planned stop --------------------------------------------------------------------------------------------------


def beat(**fields: object) -> control.Beat:
    now_ms = int(time.time() * 1000)
    return replace(control.Beat("lead", leads=(GROUP,), orders_for=(GROUP,), at_ms=now_ms), **fields)  # type: ignore[arg-type]


def orders(brokers: Brokers) -> list[tuple[str, bool]]:
    """What was written to the control topic beside beats: the key, and whether it is an order or its withdrawal."""
    return [(key.decode(), value is not None) for key, value in brokers.log if not key.startswith(b"beat/")]


def test_it_is_empty_before_it_is_stopped_and_the_order_stands_until_it_is_back() -> None:
    on = stage(NAMED, replace(plain("a"), assignment=WORK), plain("b", "app-2"))
    on.brokers.say(beat())

    async def emptied(on: Stage) -> None:
        await ordered(on)
        assert not on.process.stopped
        on.brokers.show(plain("a"), replace(plain("b", "app-2"), assignment=WORK))

    said = on.play(emptied)
    assert orders(on.brokers) == [(f"evacuate/{GROUP}/*/member:a", True), (f"absence/{GROUP}/member:a", True)]
    (given,) = [control.decode(*record) for record in on.brokers.log if record[0].startswith(b"evacuate/")]
    assert isinstance(given, control.PlacementOrder)
    assert given.until is control.Until.BACK
    assert said[0].startswith("It is empty after ")
    assert on.process.stopped
    assert on.brokers.removed == ["a"]


def test_that_it_is_empty_is_recorded_also_where_the_leader_dies_before_it_has_seen_that() -> None:
    """Otherwise a new member id alone would not show that it is back, and the order would stand until it expires."""
    on = stage(NAMED, replace(plain("a"), assignment=WORK), plain("b", "app-2"))
    on.brokers.say(beat())

    async def emptied(on: Stage) -> None:
        await ordered(on)
        on.brokers.show(plain("a"), replace(plain("b", "app-2"), assignment=WORK))

    on.play(emptied)
    order, absence = (control.decode(*record) for record in on.brokers.log[-2:])
    assert isinstance(order, control.PlacementOrder)
    assert isinstance(absence, control.Absence)
    assert (absence.stage, absence.members, absence.order_ms) == (control.Stage.EMPTY, ("a",), order.at_ms)
    back = DescribeAnswer(0, 0, "Stable", "consumer", "range", (plain("a2"),))
    assert control.look(order, absence, back, order.at_ms).ended == "it is back"


def test_that_it_is_empty_is_recorded_before_it_is_stopped() -> None:
    """The network may be lost while it closes."""
    on = stage(NAMED, replace(plain("a"), assignment=WORK), plain("b", "app-2"))
    on.brokers.say(beat())
    stop = on.process.stop

    def stop_without_network() -> None:
        on.brokers.down = True
        stop()

    on.process.stop = stop_without_network  # type: ignore[method-assign]

    async def emptied(on: Stage) -> None:
        await ordered(on)
        on.brokers.show(plain("a"), replace(plain("b", "app-2"), assignment=WORK))

    on.play(emptied)
    assert [key for key, _ in orders(on.brokers)] == [f"evacuate/{GROUP}/*/member:a", f"absence/{GROUP}/member:a"]


def test_a_process_that_is_empty_is_stopped_also_where_that_cannot_be_recorded() -> None:
    on = stage(NAMED, replace(plain("a"), assignment=WORK), plain("b", "app-2"))
    on.brokers.say(beat())
    on.brokers.codes[AppendRecord] = [0, NOT_LEADER]

    async def emptied(on: Stage) -> None:
        await ordered(on)
        on.brokers.show(plain("a"), replace(plain("b", "app-2"), assignment=WORK))

    said = on.play(emptied)
    assert on.process.stopped
    assert [sentence.partition(" after ")[0] for sentence in said[:1]] == ["It is empty"]
    assert on.brokers.removed == ["a"]


def test_it_is_not_stopped_while_the_next_rebalance_is_to_hand_over_what_it_has_given_up() -> None:
    """That rebalance would wait for a process that stops: Kafka Streams does not leave, and closes only after it."""
    on = stage(NAMED, replace(plain("a"), assignment=WORK), plain("b", "app-2"))
    on.brokers.say(beat())

    async def emptied(on: Stage) -> None:
        await ordered(on)
        await on.looked()
        on.brokers.show(plain("a"), plain("b", "app-2"))
        await on.looked(5)
        assert not on.process.stopped, "what it had has no owner"
        on.brokers.show(plain("a"), plain("b", "app-2"), state="PreparingRebalance")
        await on.looked(5)
        assert not on.process.stopped
        on.brokers.show(plain("a"), replace(plain("b", "app-2"), assignment=WORK))

    said = on.play(emptied)
    assert said[0].startswith("It is empty after ")


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        (lambda b: None, "No Bellwether that leads"),
        (lambda b: b.say(beat(at_ms=1)), "No Bellwether that leads"),
        (lambda b: b.say(beat(leads=())), "No Bellwether that leads"),
        (lambda b: b.say(beat(policies={GROUP: "kafka"}, orders_for=())), "a policy that does not know evacuations"),
        (lambda b: setattr(b, "no_topic", True), "There is no control topic"),
        (lambda b: (b.say(beat()), b.codes.update({AppendRecord: [29]})), "grant WRITE"),
    ],
)
def test_where_nobody_can_empty_it_it_is_stopped_at_once_and_that_is_said(
    prepare: Callable[[Brokers], object], why: str
) -> None:
    on = stage(NAMED, replace(plain("a"), assignment=WORK))
    prepare(on.brokers)
    said = on.play(stopped)
    assert why in said[0]
    assert on.process.stopped
    assert on.brokers.removed == ["a"]


def test_an_instance_that_cannot_be_emptied_is_stopped_when_its_grace_is_over() -> None:
    on = stage(replace(NAMED, grace_s=0.2), replace(plain("a"), assignment=WORK))
    on.brokers.say(beat())
    said = on.play(stopped)
    assert said[0] == "It is not empty after 0.2 s, and is stopped."
    assert [given for _, given in orders(on.brokers)] == [True, False]


def test_the_order_on_one_that_was_stopped_before_it_was_empty_is_withdrawn() -> None:
    """A static member that is back before it was seen to be empty would not be known again."""
    on = stage(replace(NAMED, grace_s=0.2), replace(plain("a"), assignment=WORK))
    on.brokers.say(beat())
    on.play(stopped)
    key = f"evacuate/{GROUP}/*/member:a"
    assert orders(on.brokers) == [(key, True), (key, False)]


def test_an_order_is_withdrawn_where_the_control_topic_has_moved_meanwhile() -> None:
    on = stage(replace(NAMED, grace_s=0.2), replace(plain("a"), assignment=WORK))
    on.brokers.say(beat())
    on.brokers.codes[AppendRecord] = [0, NOT_LEADER]
    said = on.play(stopped)
    assert [given for _, given in orders(on.brokers)] == [True, False]
    leaders = [request for request in on.brokers.asked if isinstance(request, FindLeader)]
    assert len(leaders) == 2, "at first, and after the first attempt to withdraw it"
    assert not any("withdrawn" in sentence for sentence in said)


def test_an_order_is_given_again_while_a_broker_is_in_the_way() -> None:
    on = stage(NAMED, replace(plain("a"), assignment=WORK), plain("b", "app-2"))
    on.brokers.say(beat())
    on.brokers.codes[FindLeader] = [LEADER_NOT_AVAILABLE]
    on.brokers.codes[AppendRecord] = [NOT_LEADER, NOT_LEADER]

    async def emptied(on: Stage) -> None:
        await ordered(on)
        on.brokers.show(plain("a"), replace(plain("b", "app-2"), assignment=WORK))

    said = on.play(emptied)
    assert said[0].startswith("It is not emptied yet: There is no control topic")
    assert said[1].startswith("It is not emptied yet: The control topic 'bellwether-control' was not written")
    assert said[2].startswith("It is empty after "), "each reason once"


def test_an_order_is_given_as_soon_as_the_brokers_answer_again() -> None:
    on = stage(NAMED, replace(plain("a"), assignment=WORK), plain("b", "app-2"))
    on.brokers.say(beat())

    async def emptied(on: Stage) -> None:
        await on.looked()
        on.brokers.down = True
        on.process.sigterm()
        await on.until(lambda: any("not emptied yet" in sentence for sentence in on.said))
        assert not on.process.stopped
        on.brokers.down = False
        await on.until(lambda: bool(orders(on.brokers)))
        on.brokers.show(plain("a"), replace(plain("b", "app-2"), assignment=WORK))

    said = on.play(emptied)
    assert said[-2].startswith("It is empty after ")
    assert on.brokers.removed == ["a"]


def test_an_order_whose_answer_was_lost_is_withdrawn_as_well() -> None:
    """It may stand: the one that is given again is the same."""
    on = stage(replace(NAMED, grace_s=0.5), replace(plain("a"), assignment=WORK))
    on.brokers.say(beat())
    real, lost = on.brokers.ask, []

    async def ask(request: object) -> object:
        answer = await real(request)
        if isinstance(request, AppendRecord) and not lost:
            lost.append(request)
            raise TransportError(Failure.TIMED_OUT, "no answer")
        return answer

    on.brokers.ask = ask  # type: ignore[method-assign]
    on.play(stopped)
    assert [given for _, given in orders(on.brokers)] == [True, True, False]


def test_an_order_that_cannot_be_withdrawn_is_reported() -> None:
    async def then_nobody_answers(on: Stage) -> None:
        await ordered(on)
        on.brokers.down = True

    on = stage(replace(NAMED, grace_s=0.2), replace(plain("a"), assignment=WORK))
    on.brokers.say(beat())
    said = on.play(then_nobody_answers)
    assert [given for _, given in orders(on.brokers)] == [True]
    assert said[-1].startswith("Its order to be emptied is not withdrawn (")
    assert said[-1].endswith("it ends when the process is back in the group, or expires within 10 minutes.")


def test_a_second_sigterm_is_passed_on_at_once() -> None:
    async def twice(on: Stage) -> None:
        await stopped(on)
        await on.looked()
        on.process.sigterm()

    on = stage(replace(NAMED, grace_s=60.0), replace(plain("a"), assignment=WORK))
    on.brokers.say(beat())
    said = on.play(twice)
    assert said[0].startswith("It is stopped at once, by a second signal")


def left_order(**fields: object) -> control.PlacementOrder:
    """As an earlier guard of P1 has given it, which lost the network before it could withdraw it."""
    now_ms = int(time.time() * 1000)
    kind, where, until = control.PlacementKind.EVACUATE, f"member:{P1}", control.Until.BACK
    given = control.PlacementOrder(
        kind, GROUP, "*", where, "root@here", now_ms - 90_000, now_ms + 600_000, REASON, until=until
    )
    return replace(given, **fields)  # type: ignore[arg-type]


def absence(stage: control.Stage) -> control.Absence:
    return control.Absence(GROUP, f"member:{P1}", 1, int(time.time() * 1000) + 600_000, stage, 1, ("a0",), (P1,))


def test_an_order_that_an_earlier_guard_could_not_withdraw_is_withdrawn_when_the_process_is_back(held: Held) -> None:
    options, lock = held

    async def back(on: Stage) -> None:
        await on.until(lambda: bool(on.said))
        lock["holder"] = None
        on.process.end()

    on = stage(options, thread("a"))
    order = left_order()
    on.brokers.say(order)
    said = on.play(back)
    assert said[0] == "It is back: the order of an earlier guard to empty it is withdrawn."
    assert orders(on.brokers) == [(order.key, True), (order.key, False)]


@pytest.mark.parametrize(
    "records",
    [
        (left_order(reason="maintenance"),),  # an operator's
        (left_order(at_ms=int(time.time() * 1000)),),  # given since the process started
        (left_order(), absence(control.Stage.EMPTY)),  # which the leader ends
        (left_order(), absence(control.Stage.AWAY)),
        (left_order(target="another"),),
    ],
)
def test_other_orders_are_left_alone(held: Held, records: tuple[control.Record, ...]) -> None:
    options, lock = held

    async def back(on: Stage) -> None:
        await on.looked(8)
        lock["holder"] = None
        on.process.end()

    on = stage(options, thread("a"))
    for record in records:
        on.brokers.say(record)
    on.play(back)
    assert all(given for _, given in orders(on.brokers))


def test_an_order_of_an_operator_is_not_withdrawn() -> None:
    on = stage(NAMED, plain("a"))
    now_ms = int(time.time() * 1000)
    kind, where = control.PlacementKind.EVACUATE, "member:a"
    on.brokers.say(beat())
    on.brokers.say(control.PlacementOrder(kind, GROUP, "*", where, "operator", now_ms, now_ms + 60_000))
    on.play(stopped)
    assert [given for _, given in orders(on.brokers)] == [True]


def test_one_that_dies_while_it_is_emptied_is_removed_at_once() -> None:
    async def died(on: Stage) -> None:
        await stopped(on)
        await on.looked()
        on.process.end()

    on = stage(replace(NAMED, grace_s=60.0), replace(plain("a"), assignment=WORK))
    on.brokers.say(beat())
    on.play(died)
    assert not on.process.stopped
    assert on.brokers.removed == ["a"]


def test_without_grace_it_is_stopped_without_an_order() -> None:
    on = stage(replace(NAMED, grace_s=0.0), plain("a"))
    on.brokers.say(beat())
    on.play(stopped)
    assert on.process.stopped
    assert not orders(on.brokers)


def test_a_watched_process_that_outlives_its_guard_keeps_its_members() -> None:
    on = stage(replace(NAMED, grace_s=0.1), plain("a"), process=Process(ours=False))
    said = on.play(stopped)
    assert said == ["It runs on, and is guarded no more."]
    assert not on.process.stopped
    assert not on.brokers.removed
