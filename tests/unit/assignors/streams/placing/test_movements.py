"""Movements back to where the state is (after the descriptions of Kafka's TaskMovementTest)."""

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import PrioritySet
from bellwether_kafka.assignors.streams.application import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, TaskLags
from bellwether_kafka.assignors.streams.placing import Movements, Placement, high_availability
from tests.kit.streams_views import Application, Instance, process_id

END_SUM = 1000
FAR = 500


class Scene:
    """Three processes; `lags[p]` is what process p reports of each task, placement as given."""

    def __init__(self, lags: list[dict[int, int]], active: list[int], standbys: dict[int, list[int]] | None = None):
        application = Application([(len(active), END_SUM)])
        application.instances = [Instance(process_id(n + 1), lags=mine) for n, mine in enumerate(lags)]
        view = application.view()
        self.tasks = np.arange(len(active), dtype=np.int32)
        self.place = Placement(view)
        self.place.place_actives(self.tasks, np.array(active, dtype=np.int32))
        for task, holders in (standbys or {}).items():
            for process in holders:
                self.place.add_standby(task, process)
        self.lags = TaskLags.of(view, 10)
        self.view = view

    @property
    def standbys(self) -> list[list[int]]:
        return [self.place.standbys[task] for task in self.tasks.tolist()]

    def moves(self, warmups: int) -> Movements:
        return Movements(self.place, self.lags, warmups, lambda: list(range(self.view.size)))

    def move(self, warmups: int) -> int:
        return self.moves(warmups).actives(self.tasks)

    def move_standbys(self, warmups: int, *, closer: bool = False) -> int:
        return self.moves(warmups).standbys(closer=closer)


def test_tasks_stay_where_they_are_caught_up() -> None:
    scene = Scene([{0: LATEST_OFFSET}, {1: 10}, {2: 0}], [0, 1, 2])
    assert scene.move(2) == 0
    assert scene.place.active == [0, 1, 2]


def test_tasks_stay_where_nobody_is_closer() -> None:
    scene = Scene([{}, {}, {}], [0, 1, 2])
    assert scene.move(2) == 0


def test_the_budget_limits_how_many_warm_up() -> None:
    """Two tasks run on process 2 and are meant for 0 and 1: both stay, one may warm up."""
    scene = Scene([{}, {}, {0: LATEST_OFFSET, 1: LATEST_OFFSET}], [0, 1])
    assert scene.move(1) == 2
    assert scene.place.active == [2, 2]
    assert scene.standbys == [[0], []]
    assert scene.place.warmups == {(0, 0)}
    assert scene.place.load == [1, 0, 2]


def test_tasks_with_the_fewest_caught_up_processes_come_first() -> None:
    scene = Scene([{}, {0: 0}, {0: LATEST_OFFSET, 1: LATEST_OFFSET}], [0, 0])
    scene.move(1)
    assert scene.standbys == [[], [0]]


def test_a_standby_that_has_caught_up_swaps_roles_without_a_warm_up() -> None:
    scene = Scene([{}, {0: 0}, {}], [0], {0: [1]})
    moves = scene.moves(1)
    assert moves.actives(scene.tasks) == 1
    assert scene.place.active == [1]
    assert scene.standbys == [[0]]
    assert scene.place.warmups == set()
    assert moves._left == 1, "the budget is untouched"


def test_swaps_go_on_when_the_budget_is_spent() -> None:
    scene = Scene([{}, {0: 0}, {}], [0], {0: [1]})
    assert scene.move(0) == 1
    assert scene.place.active == [1]
    assert scene.standbys == [[0]]


def test_the_lightest_process_that_has_caught_up_takes_the_task() -> None:
    scene = Scene([{}, {0: 0, 1: LATEST_OFFSET}, {0: 0}], [0, 1])
    scene.move(2)
    assert scene.place.active == [2, 1]


def test_without_anybody_caught_up_the_closest_takes_the_task() -> None:
    scene = Scene([{}, {0: FAR + 1}, {0: FAR}], [0])
    assert scene.move(2) == 1
    assert scene.place.active == [2]
    assert scene.standbys == [[0]]


def test_a_standby_that_is_the_closest_swaps_roles() -> None:
    scene = Scene([{}, {0: FAR}, {}], [0], {0: [1]})
    assert scene.move(0) == 1
    assert scene.place.active == [1]
    assert scene.standbys == [[0]]


def test_an_unknown_lag_comes_first_although_it_is_not_caught_up() -> None:
    """-3 is smaller than any lag, so the process that sent it is the "closest"."""
    scene = Scene([{}, {0: UNKNOWN_OFFSET_SUM}, {0: FAR}], [0])
    scene.move(2)
    assert scene.place.active == [1]


def test_a_standby_moves_to_a_process_that_has_caught_up() -> None:
    scene = Scene([{0: LATEST_OFFSET}, {}, {0: 0}], [0], {0: [1]})
    assert scene.move_standbys(0) == 1
    assert scene.standbys == [[2]]
    scene = Scene([{0: LATEST_OFFSET}, {}, {0: 0}], [0], {0: [1]})
    assert scene.move_standbys(1) == 1
    assert sorted(scene.place.standbys[0]) == [1, 2]
    assert scene.place.warmups == {(0, 1)}


def test_warm_ups_are_not_moved() -> None:
    scene = Scene([{}, {0: LATEST_OFFSET}, {0: 0}], [0])
    moves = scene.moves(1)
    moves.actives(scene.tasks)
    assert scene.place.warmups == {(0, 0)}
    assert moves.standbys() == 0


def test_a_standby_moves_to_an_equally_distant_process_of_smaller_id_as_in_java() -> None:
    scene = Scene([{}, {}, {0: LATEST_OFFSET}], [2], {0: [1]})
    assert scene.move_standbys(0) == 1
    assert scene.standbys == [[0]]


def test_a_standby_moves_only_closer_if_asked() -> None:
    scene = Scene([{}, {}, {0: LATEST_OFFSET}], [2], {0: [1]})
    assert scene.move_standbys(2, closer=True) == 0
    assert scene.standbys == [[1]]
    scene = Scene([{0: FAR}, {}, {0: LATEST_OFFSET}], [2], {0: [1]})
    assert scene.move_standbys(0, closer=True) == 1
    assert scene.standbys == [[0]]


@pytest.mark.parametrize("warmups", [0, 1, 2, 6])
def test_every_movement_says_by_how_much_it_has_changed_the_loads(
    monkeypatch: pytest.MonkeyPatch, warmups: int
) -> None:
    """Replays of the queue take it at its word."""
    scene = Scene([{}, dict.fromkeys((0, 1, 2), 0), dict.fromkeys((1, 2, 3, 4), 0)], [0, 0, 0, 0, 1], {1: [1], 4: [0]})
    seen = list(scene.place.load)
    changes: list[tuple[int, int]] = []

    class Checked(PrioritySet):
        def offer(self, source: int, destination: int, *, gained: int = 0, lost: int = 0, polled: bool) -> None:
            load = scene.place.load
            assert (gained, lost) == (load[source] - seen[source], seen[destination] - load[destination])
            seen[:] = load
            changes.append((gained, lost))
            super().offer(source, destination, gained=gained, lost=lost, polled=polled)

    monkeypatch.setattr(high_availability, "PrioritySet", Checked)
    moves = scene.moves(warmups)
    moves.actives(scene.tasks)
    moves.standbys()
    assert ((1, 0) in changes, (1, 1) in changes) == (warmups > 0, warmups < 4)
