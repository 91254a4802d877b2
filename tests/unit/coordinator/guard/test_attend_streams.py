"""A guarded process of Kafka Streams: its threads are removed and fenced when it ends, or when Streams closes in it."""

import time
from dataclasses import replace

import pytest

from bellwether_kafka.coordinator.kafka.wire import FenceProducer, RemoveMembers
from tests.kit.membership import GROUP, P1, P2, thread
from tests.unit.coordinator.guard.stage import (
    HOLDER,
    WORK,
    GuardedDirectory,
    Holding,
    Stage,
    crash,
    heartbeat,
    killed,
    ordered,
    stage,
)
from tests.unit.coordinator.guard.world import Process

CONCURRENT_TRANSACTIONS = 51
BETWEEN_FROM_S = 0.5


def test_threads_of_the_process_that_held_the_directory_are_removed_and_fenced(guarded: GuardedDirectory) -> None:
    options, lock = guarded

    on = stage(options, thread("a", number=1), thread("b", number=2), thread("c", P2))
    on.brokers.codes[FenceProducer] = [51, 51, 16]
    message = on.play(crash(lock))
    assert sorted(on.brokers.removed) == ["a", "b"]
    assert sorted(on.brokers.fenced) == [f"{GROUP}-{P1}-1", f"{GROUP}-{P1}-2"]
    assert f"Fenced {GROUP}-{P1}-1." in message


@pytest.mark.parametrize("seen", [("a",), ()], ids=["another thread was seen", "none was seen"])
def test_a_thread_that_joined_after_the_last_refresh_is_removed_and_fenced_too(
    guarded: GuardedDirectory, seen: tuple[str, ...]
) -> None:
    """As one that lost its tasks and joined anew, or all of a process that fails while it starts."""
    options, lock = guarded

    async def crashed(on: Stage) -> None:
        await on.refreshed(4)
        on.brokers.show(*(thread(name) for name in seen), thread("late", number=2), thread("c", P2))
        lock["holder"] = None
        on.process.end()

    on = stage(options, *(thread(name) for name in seen), thread("c", P2))
    on.play(crashed)
    assert on.brokers.removed == [*seen, "late"]
    assert f"{GROUP}-{P1}-2" in on.brokers.fenced


def test_members_that_were_listed_before_the_directory_was_held_are_a_predecessors(guarded: GuardedDirectory) -> None:
    """It died while it waited for the generation in which both are, with the same client ids and process id."""
    options, lock = guarded
    lock["holder"] = None

    async def succeeded(on: Stage) -> None:
        await on.refreshed()
        lock["holder"] = HOLDER
        on.brokers.show(thread("ghost"), thread("own"))
        await on.refreshed(4)
        await crash(lock)(on)

    on = stage(options, thread("ghost"))
    on.play(succeeded)
    assert on.brokers.removed == ["own"]


def test_one_that_never_joined_is_reported(guarded: GuardedDirectory) -> None:
    options, lock = guarded
    on = stage(options, thread("c", P2))
    assert on.play(crash(lock))[-1] == "It had no proven member, so none is removed."
    assert not on.brokers.removed


def test_a_thread_of_a_successor_that_holds_the_directory_is_not(guarded: GuardedDirectory) -> None:
    options, lock = guarded

    async def crashed(on: Stage) -> None:
        await on.refreshed(4)
        lock["holder"] = None
        on.brokers.before = lambda _: succeeded(on)
        on.process.end()

    def succeeded(on: Stage) -> None:
        lock["holder"] = HOLDER + 1
        on.brokers.before = lambda _: None
        on.brokers.show(thread("a"), thread("next"))

    on = stage(options, thread("a"))
    on.play(crashed)
    assert on.brokers.removed == ["a"]


@pytest.mark.slow
def test_one_that_was_evacuated_leaves_between_two_heartbeats_under_exactly_once(guarded: GuardedDirectory) -> None:
    options, lock = guarded
    empty_at, removed_at = [], []

    async def evacuated(on: Stage) -> None:
        await on.refreshed(4)
        await ordered(on)
        on.brokers.show(thread("a"), replace(thread("b", P2), assignment=WORK))
        await on.until(lambda: on.process.stopped)
        empty_at.append(time.monotonic())
        lock["holder"] = None
        await on.until(lambda: bool(on.brokers.removed))
        removed_at.append(time.monotonic())

    on = stage(options, replace(thread("a"), assignment=WORK), thread("b", P2))
    on.brokers.echo(heartbeat())
    on.play(evacuated)
    assert on.brokers.removed == ["a"]
    assert removed_at[0] - empty_at[0] >= BETWEEN_FROM_S - 0.1


def test_a_directory_that_another_process_holds_after_the_end_frees_nobody(guarded: GuardedDirectory) -> None:
    options, _ = guarded
    on = stage(options, thread("a"))
    message = on.play(killed)
    assert not on.brokers.removed
    assert not on.brokers.fenced
    assert "A process of it still runs" in message[-1]


def test_a_directory_that_another_process_holds_proves_nothing(guarded: GuardedDirectory) -> None:
    """A wrong --state-dir: that of a neighbour that restarts in the very moment in which the guarded process ends."""
    options, lock = guarded

    on = stage(options, thread("a"), process=Process(own=False))
    message = on.play(crash(lock))
    assert not on.brokers.removed
    assert any(f"is in use by process {HOLDER}, not by the guarded one" in sentence for sentence in message)


@pytest.mark.slow
@pytest.mark.usefixtures("soon_over")
def test_members_that_are_removed_are_not_reported_as_left_where_their_producers_are_not_fenced(
    guarded: GuardedDirectory,
) -> None:
    options, lock = guarded

    on = stage(options, thread("a", number=1))
    on.brokers.codes[FenceProducer] = [CONCURRENT_TRANSACTIONS] * 1_000
    message = on.play(crash(lock))
    assert on.brokers.removed == ["a"]
    assert (
        message[-1] == "Its producers are not fenced within 0.5 s; their transactions end with transaction.timeout.ms."
    )


def test_a_successor_that_takes_the_directory_is_not_fenced(guarded: GuardedDirectory) -> None:
    options, lock = guarded

    on = stage(options, thread("a"))
    on.brokers.codes[FenceProducer] = [CONCURRENT_TRANSACTIONS]

    def taken(request: object) -> None:
        """The lock changes hands between two requests."""
        if isinstance(request, FenceProducer):
            lock["holder"] = HOLDER + 1

    on.brokers.before = taken
    message = on.play(crash(lock))
    assert any("another process has taken its place" in sentence for sentence in message)


async def closed(on: Stage, lock: Holding) -> None:
    """Streams has closed in a process that lives on."""
    await on.refreshed(4)
    lock.update(holder=None, heartbeats=0)
    await on.refreshed(4)
    assert not on.process.ended


def test_members_of_streams_that_has_closed_are_removed_while_the_process_lives_on(guarded: GuardedDirectory) -> None:
    """As after an exception in all threads, where the application goes on to answer requests."""
    options, lock = guarded

    async def failed(on: Stage) -> None:
        await closed(on, lock)
        await on.until(lambda: sorted(on.brokers.removed) == ["a", "b"])
        await on.refreshed(4)
        assert not on.brokers.fenced, "it may open Streams again, whose producers have the same ids"
        on.process.end()

    on = stage(options, thread("a", number=1), thread("b", number=2), thread("c", P2))
    on.process.left_behind = True  # what else it has started lives on
    message = on.play(failed)
    assert message[0].startswith("Removed 2 of its 2 members, ")
    assert message[0].endswith(" ms after Kafka Streams closed in it.")
    assert message[1:] == [f"Fenced {GROUP}-{P1}-1.", f"Fenced {GROUP}-{P1}-2."]


def test_members_of_streams_that_has_closed_and_may_be_anothers_are_named(guarded: GuardedDirectory) -> None:
    options, lock = guarded

    async def failed(on: Stage) -> None:
        await closed(on, lock)
        await on.until(lambda: bool(on.message))
        on.process.end()

    on = stage(options, thread("a"), thread("b"))
    (message, *_) = on.play(failed)
    assert message.startswith("Not removed: several members have the client id ")
    assert not on.brokers.removed


def test_members_are_reported_as_removed_where_the_process_ends_before_the_brokers_have_answered(
    guarded: GuardedDirectory,
) -> None:
    """As one that is killed: it gives the lock of its directory back a moment before its end is known."""
    options, lock = guarded

    def asked(request: object) -> None:
        if isinstance(request, RemoveMembers):
            on.process.end()

    async def killed(on: Stage) -> None:
        await on.refreshed(4)
        lock.update(holder=None, heartbeats=0)

    on = stage(options, thread("a", number=1), thread("b", number=2), thread("c", P2))
    on.brokers.before, on.brokers.answers_after_s = asked, 0.1
    message = on.play(killed)
    assert sorted(on.brokers.removed) == ["a", "b"]
    assert message[0].startswith("Removed 2 of its 2 members, ")
    assert message[1:] == [f"Fenced {GROUP}-{P1}-1.", f"Fenced {GROUP}-{P1}-2."]


def test_members_of_streams_that_is_opened_again_are_removed_at_the_end(guarded: GuardedDirectory) -> None:
    options, lock = guarded

    async def reopened(on: Stage) -> None:
        await closed(on, lock)
        await on.until(lambda: on.brokers.removed == ["a"])
        lock.update(holder=HOLDER, heartbeats=1)
        on.brokers.show(thread("a2"))
        await on.refreshed(4)
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
def test_less_does_not_prove_that_streams_has_closed(guarded: GuardedDirectory, seen: Holding) -> None:
    options, lock = guarded

    async def lives(on: Stage) -> None:
        await on.refreshed(4)
        lock.update(seen)
        await on.refreshed(8)
        assert not on.brokers.removed
        lock["holder"] = None
        on.process.end()

    on = stage(options, thread("a"))
    on.play(lives)
    assert on.brokers.removed == ["a"], "its end proves it"


def test_heartbeats_that_were_never_seen_do_not_prove_by_their_absence(guarded: GuardedDirectory) -> None:
    """Another JVM may name its threads otherwise."""
    options, lock = guarded
    lock["heartbeats"] = 0

    async def lives(on: Stage) -> None:
        await closed(on, lock)
        await on.refreshed(8)
        assert not on.brokers.removed
        on.process.end()

    on = stage(options, thread("a"))
    on.play(lives)
    assert on.brokers.removed == ["a"]


@pytest.mark.slow
@pytest.mark.usefixtures("soon_over")
def test_members_that_cannot_be_removed_when_streams_closes_are_removed_later(guarded: GuardedDirectory) -> None:
    options, lock = guarded

    async def failed(on: Stage) -> None:
        await on.refreshed(4)
        on.brokers.down = True
        lock.update(holder=None, heartbeats=0)
        await on.until(lambda: bool([text for text in on.message if "are not ended" in text]))
        on.brokers.down = False
        await on.until(lambda: on.brokers.removed == ["a"])
        on.process.end()

    on = stage(options, thread("a"))
    on.play(failed)
