"""Six applications, half an hour each, with members that do badly for reasons of their own: no lead is handed back.

One process is slow, others are paused, fail of a record again and again, or lose their state; input stops at times, and
one partition never has any. Members of two of the applications commit three times an hour.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from bellwether_kafka.coordinator.planning import streams_inputs
from bellwether_kafka.coordinator.triggers import Evidence
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.simulation import SEEDS
from tests.simulation.applications import INPUT, RECORDS
from tests.simulation.checks import ViolationError
from tests.simulation.hand_back_checks import BEGINNING as HANDED_BACK
from tests.simulation.scenes.chosen_seeds import dynamic
from tests.simulation.streams import Process
from tests.simulation.working import COMMIT_S, Pace, Work
from tests.simulation.world import World

HOUR_S = 3_600.0
HOURS = SEEDS / 32  # of each application
RARE_S = 1_200.0
FAILURES = 5  # in a row
SLOW_RESTORE = 40.0  # records a second: a task takes 40 minutes
SLOW = 2.0  # records a second: less than come
QUIET_S = 900.0


@contextmanager
def led(seed: int, commit_s: float = COMMIT_S) -> Iterator[Work]:
    """An application that Bellwether leads from the beginning."""
    with World(seed) as world:
        instance = world.instances[0]
        instance.config = replace(instance.config, standby=False)
        paces = {process.name: Pace(commit_s=commit_s) for process in world.processes}
        work = Work(world, paces, frozenset({TopicPartition(INPUT, 0)}))
        instance.start()
        world.run_until(20)
        work.begin()
        for process in world.processes:
            process.threads[0].start()
        world.run_until(600)
        assert instance.leads
        yield work


def handed_back(world: World) -> bool:
    return any(HANDED_BACK in line for line in world.reported)


class Day:
    """Troubles of one process after another, until the day ends."""

    def __init__(self, work: Work) -> None:
        self.work, self.world, self.chance = work, work.world, work.world.more

    def live(self, hours: float) -> None:
        end = self.world.clock.now + hours * HOUR_S
        troubles = (self.pause, self.fail, self.fail, self.lose_state, self.rest, self.again)
        while self.world.clock.now < end:
            self.world.clock.steps = 0  # the limit is for an ordinary life
            self.wait(self.chance.uniform(60.0, 1_200.0))
            self.chance.choice(troubles)(self.chance.choice(self.world.processes[1:]))

    def wait(self, seconds: float) -> None:
        self.world.run_until(self.world.clock.now + seconds)

    def pause(self, process: Process) -> None:
        process.threads[0].pause(self.chance.choice((4.0, 60.0, 900.0)))

    def fail(self, process: Process) -> None:
        """Each time of the first record that it reads."""
        pace = self.work.paces[process.name]
        self.work.paces[process.name] = replace(pace, works=False)
        for _ in range(FAILURES):
            self.again(process, self.chance.choice((1.0, 1.0, 60.0)))
        self.work.paces[process.name] = pace

    def lose_state(self, process: Process) -> None:
        self.end(process)
        process.state.clear()
        process.rate = self.chance.choice((process.rate, SLOW_RESTORE))
        self.again(process, 5.0)

    def rest(self, _: Process) -> None:
        self.work.flows = False
        self.wait(QUIET_S)
        self.work.flows = True

    def end(self, process: Process) -> None:
        if process.threads[0].running:
            process.threads[0].crash()

    def again(self, process: Process, after_s: float = 5.0) -> None:
        self.end(process)
        self.wait(after_s)
        for member in process.threads:
            member.count_anew()
        process.threads[0].start()
        self.wait(self.chance.uniform(5.0, 30.0))  # a rebalance waits for the session of the life before


SUITABLE = [seed for seed in dynamic(40) if 3 <= len(World(seed).processes) <= 5]
APPLICATIONS = list(zip(SUITABLE, (COMMIT_S, COMMIT_S, RARE_S) * 2, strict=False))

pytestmark = pytest.mark.timeout(400)  # each takes 15 s of one core


@pytest.mark.parametrize(("seed", "commit_s"), APPLICATIONS)
def test_members_in_trouble_take_the_lead_from_nobody(seed: int, commit_s: float) -> None:
    with led(seed, commit_s) as work:
        work.paces[work.world.processes[0].name].per_s = SLOW
        Day(work).live(HOURS)
        assert not handed_back(work.world)
        assert work.world.notes["REFUSED"] == 0
        assert work.commits


def test_a_process_that_fails_again_and_again_took_the_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was: the rule matters."""
    monkeypatch.setattr(streams_inputs, "_lived_with", lambda *_: set())
    with led(SUITABLE[0]) as work:
        Day(work).fail(work.world.processes[1])
        assert work.world.notes["REFUSED"]


def test_an_application_that_commits_nothing_after_a_restart_is_an_alert() -> None:
    """Its members report that they run their tasks, so they wait for something else."""
    with led(SUITABLE[0]) as work:
        day = Day(work)
        day.wait(HOUR_S / 2)
        before = work.world.notes["ALERT"]
        for process in work.world.processes:
            work.paces[process.name].works = False
            day.again(process)
        day.wait(HOUR_S / 4)
        assert work.world.notes["ALERT"] > before
        assert not handed_back(work.world)


def test_an_open_transaction_takes_the_lead_from_nobody() -> None:
    """Records come to each partition, and readers get none beyond its beginning."""
    with led(SUITABLE[0]) as work:
        day = Day(work)
        day.wait(HOUR_S / 2)
        logs = {at: work.end_of(*at) for at in work.partitions}
        work.held = {at: float(end) for at, end in logs.items()}
        day.wait(HOUR_S / 4)
        day.again(work.world.processes[1])
        day.wait(HOUR_S / 2)
        assert not handed_back(work.world)
        work.held = {}
        commits = work.commits
        day.wait(HOUR_S / 4)
        assert work.commits > commits
        assert not handed_back(work.world)
        assert work.world.instances[0].leads


def half_upgraded() -> None:
    """Of one process, which waits for a changelog that the topology lacks, tasks stand still. Raises ViolationError if
    nothing is said of it in time."""
    with led(SUITABLE[0]) as work:
        day, process = Day(work), work.world.processes[1]
        day.wait(HOUR_S / 2)
        day.end(process)
        runs, *waits = sorted(process.state)
        process.state, process.rate = {runs: RECORDS, **dict.fromkeys(waits, RECORDS - 1)}, 0.0
        day.again(process)
        day.wait(120.0)
        if not handed_back(work.world):
            work.world.violate("an application stands still, and the lead is not handed back")
        assert work.world.notes["LEFT"]


def test_an_application_of_which_one_process_waits_for_a_changelog_is_handed_back() -> None:
    """What else the day could not notice."""
    half_upgraded()


def test_a_half_upgraded_application_that_is_left_standing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Evidence, "_proof", lambda *_: "")
    with pytest.raises(ViolationError, match="stands still"):
        half_upgraded()
