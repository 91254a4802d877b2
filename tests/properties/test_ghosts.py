"""A world of processes that lock directories, restart, crash, are cloned and call themselves what they like, and a
broker that shows them: what is removed must be dead."""

from dataclasses import dataclass, field
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bellwether_kafka.coordinator.ghosts import GhostFinder, Proof
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember
from tests.kit.membership import GROUP, subscribed, thread_id

HOSTS = ("/10.0.0.1", "/10.0.0.2")
DIRECTORIES = tuple(str(UUID(int=number + 1)) for number in range(3))
# What people type: nothing, names that collide, and names that look like the default of a process of nobody.
FORGED = f"{GROUP}-{UUID(int=99)}"
TYPED = ("", "app", FORGED)


@dataclass
class Thread:
    member_id: str
    client_id: str
    host: str
    process: str
    number: int
    alive: bool = True
    listed: bool = True  # the broker counts it as a member

    def shown(self, *, stable: bool) -> DescribedMember:
        metadata = subscribed(self.process) if stable else b""
        return DescribedMember(self.member_id, None, metadata, client_id=self.client_id, client_host=self.host)


@dataclass
class Broker:
    """Lists members in the order in which they came; a rebalance ends when every listed member is alive."""

    threads: list[Thread] = field(default_factory=list)
    joined: int = 0
    waiting: bool = False

    def join(self, client_id: str, host: str, process: str, number: int) -> None:
        self.joined += 1
        self.threads.append(Thread(f"m{self.joined}", client_id, host, process, number))
        self.waiting = True

    def members(self) -> list[Thread]:
        return [thread for thread in self.threads if thread.listed]

    def answer(self) -> DescribeAnswer:
        stable = not self.waiting
        shown = tuple(thread.shown(stable=stable) for thread in self.members())
        return DescribeAnswer(0, 0, "Stable" if stable else "PreparingRebalance", "consumer", "stream", shown)


class World(RuleBasedStateMachine):
    """Streams processes and plain clients. A directory is locked by at most one process; the rest is malice."""

    unique = False

    def __init__(self) -> None:
        super().__init__()
        self.finder = GhostFinder(GROUP, client_ids_unique=self.unique)
        self.broker = Broker()
        self.now = 0.0
        self.removed: list[tuple[Thread, Proof]] = []
        self.blind = False

    @initialize(count=st.integers(0, 2))
    def begin(self, count: int) -> None:
        for directory in DIRECTORIES[:count]:
            self._start(directory, "", 1, HOSTS[0])

    def _start(self, directory: str, typed: str, threads: int, host: str) -> None:
        for number in range(1, threads + 1):
            client_id = f"{typed}-StreamThread-{number}-consumer" if typed else thread_id(directory, number)
            self.broker.join(client_id, host, directory, number)

    def _live(self, process: str | None = None) -> list[Thread]:
        return [t for t in self.broker.threads if t.alive and process in (None, t.process)]

    @rule(
        directory=st.sampled_from(DIRECTORIES),
        typed=st.sampled_from(TYPED),
        threads=st.integers(1, 2),
        host=st.sampled_from(HOSTS),
    )
    def start(self, directory: str, typed: str, threads: int, host: str) -> None:
        """The lock: nothing starts in a directory that a living process holds."""
        if not self._live(directory):
            self._start(directory, typed, threads, host)

    @rule(directory=st.sampled_from(DIRECTORIES))
    def kill(self, directory: str) -> None:
        for thread in self._live(directory):
            thread.alive = False

    @rule(directory=st.sampled_from(DIRECTORIES))
    def restart(self, directory: str) -> None:
        before = self._live(directory)
        self.kill(directory)
        for thread in before:
            self.broker.join(thread.client_id, thread.host, directory, thread.number)

    @rule(directory=st.sampled_from(DIRECTORIES))
    def replace_a_thread(self, directory: str) -> None:
        """An uncaught exception with REPLACE_THREAD: numbers of threads that live are not given again."""
        living = self._live(directory)
        if not living or not living[0].client_id.startswith(f"{GROUP}-{directory}"):
            return
        living[0].alive = False
        number = next(n for n in range(1, 9) if n not in {t.number for t in living[1:]})
        self.broker.join(thread_id(directory, number), living[0].host, directory, number)

    @rule(client_id=st.sampled_from(("rdkafka", f"{FORGED}-StreamThread-1-consumer")), host=st.sampled_from(HOSTS))
    def another_joins(self, client_id: str, host: str) -> None:
        self.broker.join(client_id, host, str(UUID(int=50 + self.broker.joined)), 0)

    @rule(seconds=st.sampled_from((1.0, 60.0)))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def stop_refreshing(self) -> None:
        """The network fails Bellwether until the next rebalance has ended."""
        self.blind = True

    def _refresh(self) -> None:
        if self.blind:
            return
        self.now += 0.25
        ghosts = self.finder.refresh(self.broker.answer(), self.now)
        by_id = {t.member_id: t for t in self.broker.threads}
        for ghost in ghosts:
            assert by_id[ghost.member_id].listed, "removed twice"
            by_id[ghost.member_id].listed = False
            self.removed.append((by_id[ghost.member_id], ghost.proof))
        self.finder.removed(ghosts, self.now)

    @rule()
    def expire(self) -> None:
        """The sessions of the dead end."""
        for thread in self.broker.members():
            thread.listed = thread.alive

    def _settle(self) -> None:
        """The rebalance ends once everybody is back."""
        if self.broker.waiting and all(thread.alive for thread in self.broker.members()):
            self.broker.waiting = False
            self.blind = False

    @rule(data=st.data())
    def come_back_under_a_new_id(self, data: st.DataObject) -> None:
        """A live client forgets its member id (it polled too late): the old id is nobody's from now on."""
        living = self._live()
        if living:
            thread = data.draw(st.sampled_from(living))
            thread.alive = False
            self.broker.join(thread.client_id, thread.host, thread.process, thread.number)

    @invariant()
    def nobody_who_lives_was_removed(self) -> None:
        self._refresh()
        self._settle()
        self._refresh()
        assert not [thread for thread, _ in self.removed if thread.alive]


TestNobodyIsWrongedByProcessIds = World.TestCase


@given(
    shared=st.sampled_from(("app", thread_id(DIRECTORIES[0]))),
    refreshes_before_return=st.integers(0, 8),
    interval_s=st.sampled_from((0.25, 0.5, 1.0)),
    later=st.lists(st.sampled_from((0.25, 5.0, 600.0)), max_size=8),
)
def test_where_the_word_of_the_operator_or_the_lock_is_wrong_one_removal_is_the_most(
    shared: str, refreshes_before_return: int, interval_s: float, later: list[float]
) -> None:
    """A client id that was attested is shared, or a state directory was copied: two live members, one client id. The
    first removed one comes right back, and that gives it away; nobody else is touched, whatever comes later."""
    finder = GhostFinder(GROUP, client_ids_unique=True)
    now = 0.0
    removals = 0

    def refresh(state: str, *members: str) -> None:
        nonlocal now, removals
        now += interval_s
        metadata = subscribed(DIRECTORIES[0]) if state == "Stable" else b""
        shown = tuple(DescribedMember(m, None, metadata, client_id=shared, client_host="/h") for m in members)
        ghosts = finder.refresh(DescribeAnswer(0, 0, state, "consumer", "stream", shown), now)
        finder.removed(ghosts, now)
        removals += len(ghosts)

    refresh("Stable", "a")
    refresh("PreparingRebalance", "a", "b")
    assert removals == 1
    for _ in range(refreshes_before_return):
        refresh("Stable", "b")
    refresh("PreparingRebalance", "b", "a-again")
    for number, gap in enumerate(later):
        now += gap
        refresh("PreparingRebalance", "b", "a-again", f"c{number}")
    refresh("Stable", "b", "a-again")
    for number, gap in enumerate(later):
        now += gap
        refresh("PreparingRebalance", "b", "a-again", f"d{number}")
        refresh("Stable", "b")
        refresh("PreparingRebalance", "b", f"e{number}")
    assert removals == 1
    assert finder.warnings()
