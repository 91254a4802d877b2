"""Guarded instances through chaos, and planned restarts, a group for each seed; what breaks a promise is found."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bellwether_kafka.coordinator.control import absence, absence_watch
from bellwether_kafka.coordinator.guard import members
from tests.simulation import SEEDS
from tests.simulation.checks import ViolationError
from tests.simulation.run import must_lead, must_settle
from tests.simulation.scenes import absences
from tests.simulation.scenes.absences import chaos, guarded, restarted
from tests.simulation.scenes.chosen_seeds import applications
from tests.simulation.world import World

CHAOTIC = SEEDS // 2


@contextmanager
def lived_through(seed: int) -> Iterator[World]:
    with guarded(World(seed)) as world:
        chaos(world, 6.0)
        yield world


def all_lived_through(count: int) -> int:
    """How many members guards have removed."""
    removed = 0
    for seed in range(count):
        with lived_through(seed) as world:
            assert world.guards is not None
            removed += world.guards.removed
    return removed


def restart_all(seed: int) -> None:
    """One process after the other."""
    with lived_through(seed) as world:
        must_settle(world)
        must_lead(world)
        for process in world.processes:
            restarted(world, process)
            must_settle(world)
            must_lead(world)


def all_restarted(count: int) -> None:
    for seed in applications(count):
        restart_all(seed)


def test_a_live_member_is_never_removed() -> None:
    assert all_lived_through(CHAOTIC) > CHAOTIC, "guards have had something to do"


@pytest.mark.parametrize("seed", applications(max(2, SEEDS // 10)))
def test_an_evacuated_task_always_has_a_caught_up_copy(seed: int) -> None:
    restart_all(seed)


def test_a_guard_that_takes_others_members_for_its_own_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client id that several processes have proves nothing; without that check live members are removed."""
    monkeypatch.setattr(members, "_unless_shared", lambda answers, *_: answers)
    with pytest.raises(ViolationError, match=r"the guard of .* removes"):
        all_lived_through(40)


def test_a_guard_that_polls_after_the_end_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What joins when the process has ended belongs to its successor, which may have the same process id."""

    def process_ended(self: absences.Guard) -> None:
        def late() -> None:
            self._ended = False
            self._take(self.world.broker.group.describe())
            self._ended = True
            own = members.belonging(self._identity, self._seen, 60.0).member_ids
            if own:
                self._remove(own)

        self._ended = True
        self.world.clock.after(5.0, late)

    monkeypatch.setattr(absences.Guard, "process_ended", process_ended)
    with pytest.raises(ViolationError, match=r"the guard of .* removes"):
        all_lived_through(40)


def test_an_order_that_removes_the_successors_too_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (absence, absence_watch):
        monkeypatch.setattr(
            module, "left_behind", lambda _order, _order_before, seen: tuple(m.member_id for m in seen.members)
        )
    with pytest.raises(ViolationError, match=r"removes .* lives: .*has ordered evacuate"):
        all_restarted(8)


def test_a_task_that_leaves_for_a_copy_that_lacks_state_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if whatever a process has of a task were enough."""
    monkeypatch.setattr(absences, "ACCEPTABLE_LAG", -1)
    (seed,) = applications(1)
    with pytest.raises(ViolationError, match="which lacks"):
        restart_all(seed)
