"""A leader follows what changes to and fro twice, and then ever more rarely; nothing else waits for it."""

from itertools import pairwise

import pytest

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import PROGRESS, UNREAD, NoteKind, Reactions
from tests.kit.membership import ME, Play, member

DAMPED_S_MAX, QUIET_S = 3_600.0, 600.0

INTERVAL_S = 10.0


class Lived:
    """A led group that lives on. `began` has the time of each rebalance that Bellwether began."""

    def __init__(self) -> None:
        self.play = Play().stable()
        self.generation = 1
        self.began: list[float] = []
        self._settle()

    def until(self, at: float) -> None:
        while (due := self.play.machine.deadline()) is not None and due <= at:
            self.play.wake()
            self._settle()
        self.play.now = at

    def wants(self, reason: str, subject: str = "topics") -> None:
        self.play.send(membership.RebalanceWanted(reason, subject))
        self._settle()

    def orders(self) -> None:
        self.play.send(membership.RebalanceOrdered("an operator wants it"))
        self._settle()

    def _settle(self) -> None:
        while True:
            sent = [type(command) for command in self.play.last]
            if membership.Join in sent:
                self.began.append(self.play.now)
                self.generation += 1
                self.play.joined(member(ME), member("a"), generation=self.generation).planned(self.generation).synced()
            elif membership.Heartbeat in sent:
                self.play.heartbeat()
            else:
                return


def duel(seconds: float, every_s: float = 10.0) -> Lived:
    """A member under one instance id changes at this interval."""
    lived = Lived()
    begins = lived.play.now
    while lived.play.now < begins + seconds:
        lived.wants("static member a has returned and subscribes to u, too", "member a")
        lived.until(lived.play.now + every_s)
    return lived


@pytest.mark.slow
def test_a_change_to_and_fro_is_followed_twice_and_then_ever_more_rarely() -> None:
    began = duel(4 * 3_600.0).began
    assert len([at for at in began if at <= began[0] + 240.0]) == 2
    pauses = [after - before for before, after in pairwise(began)]
    assert pauses[1:] == pytest.approx([300.0, 600.0, 1_200.0, 2_400.0, 3_600.0, 3_600.0][: len(pauses) - 1], abs=11)


def test_the_wait_is_said_once() -> None:
    alerts = [reason for kind, reason in duel(240.0).play.notes() if kind is NoteKind.ALERT]
    assert len(alerts) == 1
    assert "static member a" in alerts[0]
    assert "again and again" in alerts[0]


def test_what_goes_to_and_fro_delays_nothing_else() -> None:
    lived = duel(60.0)
    before = len(lived.began)
    lived.until(lived.play.now + INTERVAL_S)
    lived.wants("topic t grew from 8 to 12 partitions")
    assert len(lived.began) == before + 1


def test_orders_wait_for_nothing_and_what_follows_them_for_the_interval() -> None:
    lived = duel(60.0)
    lived.orders()
    lived.orders()
    ordered = lived.began[-1]
    assert lived.began[-2] == ordered == lived.play.now
    lived.wants("topic t grew")
    assert lived.began[-1] == ordered
    lived.until(lived.play.now + INTERVAL_S)
    assert lived.began[-1] == ordered + INTERVAL_S


@pytest.mark.parametrize("paused", ["", "an operator wants no rebalances"])
@pytest.mark.parametrize("state", ["deciding", "syncing"])
def test_an_order_during_a_rebalance_that_bellwether_began_follows_it_at_once(state: str, paused: str) -> None:
    """As in a stable group, where an order waits neither for the interval nor for the end of a pause."""
    play = (
        Play()
        .stable()
        .send(membership.RebalanceWanted("topic t grew", "topics"))
        .joined(member(ME), member("a"), generation=2)
    )
    if state == "syncing":
        play.planned(2)
    play.send(membership.OrdersInForce(leave="", pause=paused)).send(
        membership.RebalanceOrdered("an operator wants it")
    )
    if state == "deciding":
        play.planned(2)
    assert "Join" in play.synced().kinds()


def test_probes_of_warm_ups_are_limited_by_the_interval_only() -> None:
    lived = Lived()
    for _ in range(30):
        lived.wants("next hand-over: warm-ups have caught up", PROGRESS)
        lived.until(lived.play.now + INTERVAL_S)
    assert len(lived.began) == 30


@pytest.mark.slow
def test_a_subject_that_has_been_quiet_is_followed_at_once_again() -> None:
    lived = duel(30.0)
    lived.until(lived.play.now + 2 * DAMPED_S_MAX)
    before = len(lived.began)
    lived.wants("static member a has returned", "member a")
    assert len(lived.began) == before + 1


def test_what_is_quiet_is_forgotten() -> None:
    reactions = Reactions(INTERVAL_S)
    for n in range(1_000):
        reactions.began(n * QUIET_S, f"topic {n} grew")
    assert len(reactions._last) < 5


@pytest.mark.slow
def test_partitions_that_nobody_reads_never_wait_for_longer_than_a_client_would() -> None:
    """A topic grew every ten seconds, which was a new subject each time: a rebalance, and an alert, every ten
    seconds. And a topic that was back while brokers still disagreed waited for five minutes."""
    lived = Lived()
    for n in range(360):
        lived.wants(f"topic t grew from {n} to {n + 1} partitions", UNREAD)
        lived.until(lived.play.now + INTERVAL_S)
    pauses = [after - before for before, after in pairwise(lived.began)]
    assert pauses[:5] == [INTERVAL_S] * 5
    assert pauses[5:9] == pytest.approx([20.0, 40.0, 80.0, 160.0], abs=INTERVAL_S)
    assert max(pauses) <= 300.0 + INTERVAL_S
    assert len(lived.began) < 25
    assert len([kind for kind, _ in lived.play.notes() if kind is NoteKind.ALERT]) == 1
