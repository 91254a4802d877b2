"""Members that behave like the threads of Kafka Streams processes, and what they and a leader plan with.

A process has a state directory: what it has restored of each task stays there when it dies, and its offset sums are
what its threads report. State is restored at a rate of the process; rejoins are asked for by `next_rebalance_ms`
(KIP-441), by the clock of the process.
"""

from typing import TYPE_CHECKING

from bellwether_kafka.assignors.shared import Decision, RawGroup, RawMember
from bellwether_kafka.assignors.streams import decide_streams, stock
from bellwether_kafka.assignors.streams.members import StreamsMemory
from bellwether_kafka.assignors.streams.stages import NO_STAGES
from bellwether_kafka.protocol.messages import (
    LATEST_OFFSET,
    NEVER_MS,
    AssignmentInfo,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionInfo,
)
from bellwether_kafka.protocol.primitives import ProcessId, TaskId, TopicPartition
from tests.simulation.applications import RACKS, RECORDS
from tests.simulation.members import NO_GENERATION, Kind, Member

if TYPE_CHECKING:
    from bellwether_kafka.coordinator import membership
    from tests.simulation.world import World

STREAMS = Kind(("stream",), cooperative=True)
EPOCH_MS = 1_700_000_000_000


class Process:
    """One process with its state directory and its threads."""

    def __init__(self, world: "World", name: str, static: bool, threads: int) -> None:
        self.world, self.name = world, name
        self.process_id = ProcessId(world.rng.getrandbits(63), world.rng.getrandbits(63))
        self.rate = world.rng.uniform(2_000.0, 20_000.0)  # records a second, of all tasks together
        self.rack = world.more.choice(sorted(RACKS.values())) if world.application.racks else None
        self.skew_ms = 0  # of its clock
        self.state: dict[TaskId, float] = {}
        self._restored_at = 0.0
        names = [name] if threads == 1 else [f"{name}-{number}" for number in range(1, threads + 1)]
        self.threads = [Thread(world, own, self, f"i{own[1:]}" if static else None) for own in names]

    @property
    def tags(self) -> tuple[tuple[str, str], ...]:
        return (("zone", self.rack),) if self.world.application.tagged and self.rack else ()

    def wall_ms(self) -> int:
        """The time of day, for all that it knows."""
        return self.world.wall_ms() + self.skew_ms

    def set_clock(self, skew_ms: int) -> None:
        self.skew_ms = skew_ms
        for thread in self.threads:
            thread.refresh_at_clock()

    @property
    def tasks(self) -> frozenset[TaskId]:
        return frozenset().union(*(thread.active | thread.standby for thread in self.threads))

    @property
    def tasks_run(self) -> frozenset[TaskId]:
        return frozenset().union(*(thread.active for thread in self.threads))

    def restore(self) -> None:
        """What has been restored since the last rebalance."""
        seconds, self._restored_at = self.world.clock.now - self._restored_at, self.world.clock.now
        behind = [task for task in sorted(self.tasks) if self.state.get(task, RECORDS) < RECORDS]
        for task in behind:
            self.state[task] = min(RECORDS, self.state[task] + seconds * self.rate / len(behind))


class Thread(Member):
    """Threads of a process start, stand still and end together."""

    def __init__(self, world: "World", name: str, process: Process, instance_id: str | None) -> None:
        super().__init__(world, name, STREAMS, instance_id)
        self.of = process
        self._unique = 0
        self._probe = 0
        self._leads_until: tuple[int, int | None] = NO_GENERATION, None  # its assignment says so after a restart, too

    def _forget(self) -> None:
        super()._forget()
        self.active: frozenset[TaskId] = frozenset()
        self.standby: frozenset[TaskId] = frozenset()
        self.next_rebalance_ms = NEVER_MS

    @property
    def converged(self) -> bool:
        """It has all the state that it works on, and nobody has asked it to come again."""
        self.of.restore()
        return self.next_rebalance_ms == NEVER_MS and all(self.of.state.get(t, RECORDS) >= RECORDS for t in self.active)

    def count_anew(self) -> None:
        """Of its JoinGroups, as a new process of Java's does."""
        self._unique = 0

    # ---- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.of.restore()
        for thread in self.of.threads:
            if not thread.running:
                super(Thread, thread).start()

    def crash(self) -> None:
        for thread in self.of.threads:
            if thread.running:
                super(Thread, thread).crash()

    def close(self) -> None:
        for thread in self.of.threads:
            if thread.running:
                super(Thread, thread).close()

    def pause(self, seconds: float) -> None:
        for thread in self.of.threads:
            super(Thread, thread).pause(seconds)

    def _end(self, *, drop: bool = True) -> None:
        self.of.restore()
        super()._end(drop=drop)

    # ---- rebalances --------------------------------------------------------------------------------------------------

    def _subscription(self, protocol: str) -> bytes:
        """A thread reports its own tasks, and the first one of what else there is on disk."""
        del protocol
        process = self.of
        process.restore()
        self._unique = (self._unique + 1) % 128
        own = self.active | self.standby
        first = next(thread for thread in process.threads if thread.running)
        reported = own | (process.state.keys() - process.tasks if first is self else set())
        sums = tuple(
            (
                task,
                LATEST_OFFSET if task in self.active and process.state[task] >= RECORDS else int(process.state[task]),
            )
            for task in sorted(reported & process.state.keys())
            if process.state[task] or task in self.active
        )
        data = SubscriptionInfo(
            process_id=process.process_id, task_offset_sums=sums, unique_field=self._unique, client_tags=process.tags
        )
        owned = tuple(sorted(self.owned))
        return ConsumerProtocolSubscription(
            3, self.world.subscribed, data.encode(), owned, self.generation, process.rack
        ).encode()

    def _lead(self, answer: "membership.JoinAnswer") -> None:
        """Java's leader ends its process where internal topics do not fit, and the next one's after it."""
        self._planned = self.world.topics.reported()
        if not self.world.application.fits(self._planned):
            self.world.log(f"{self.name} finds that internal topics do not fit")
            self.crash()
            self.world.clock.after(self.world.more.uniform(5.0, 40.0), self.start)
            return
        self._sync(self._plan(answer))

    def _plan(self, answer: "membership.JoinAnswer") -> tuple[tuple[str, bytes], ...]:
        """The leader of an application knows what its members say and the end offsets."""
        members = tuple(RawMember(m.member_id, m.instance_id, m.metadata) for m in answer.members)
        own = frozenset(m.member_id for m in members if self.world.is_own(m.member_id))  # Java gives those nothing
        raw = RawGroup("g", answer.generation, answer.protocol, members, own)
        application = self.world.application
        decision = decide_streams(
            raw,
            self.world.topics.view(self._planned),
            application.ends(self._planned),
            application.topology,
            StreamsMemory.empty(),
            application.config.configs,
            "kafka",
            self.of.wall_ms(),
            1,
            assignors=stock(NO_STAGES),
        )
        assert isinstance(decision, Decision), decision.reason
        self._leads_until = answer.generation, decision.probing_at_ms  # Java's leader keeps it to itself
        return decision.assignments

    def _given(self, assignment: bytes) -> set[TopicPartition]:
        given = ConsumerProtocolAssignment.decode(assignment)
        info = AssignmentInfo.decode(given.user_data or b"")
        if info.error_code:
            self.world.violate(f"{self.name} is told to stop: error {info.error_code} in its AssignmentInfo")
        partitions = sorted(given.partitions)
        owner = self.world.application.topology.subtopology_of
        if [TaskId(owner[p.topic], p.partition) for p in partitions] != [*info.active_tasks]:
            self.world.violate(f"{self.name}: active tasks {info.active_tasks} are not of its partitions {partitions}")
        self.of.restore()
        if self.world.evacuation is not None:
            self.world.evacuation.given(self, frozenset(info.active_tasks) - self.of.tasks_run)
        self.active = frozenset(info.active_tasks)
        self.standby = frozenset(task for task, _ in info.standby_tasks)
        if self.active & self.standby:
            self.world.violate(f"{self.name} has active tasks as standbys")
        for task in self.active | self.standby:
            subtopology = self.world.application.topology.find(task.subtopology)
            if subtopology is not None and subtopology.stateful:
                self.of.state.setdefault(task, 0.0)
        generation, probe_ms = self._leads_until
        own_ms = probe_ms if generation == self.generation and probe_ms is not None else NEVER_MS
        self._ask_later(min(info.next_rebalance_ms, own_ms))
        return set(partitions)

    def _ask_later(self, at_ms: int) -> None:
        self.next_rebalance_ms = at_ms
        self.refresh_at_clock()

    def refresh_at_clock(self) -> None:
        """It asks for a rebalance when its own clock says that it is time."""
        self._probe += 1
        number = self._probe
        if self.next_rebalance_ms == NEVER_MS:
            return

        def due() -> None:
            if self._probe == number and self.state == "stable":
                self.world.log(f"{self.name} joins again, as its assignment asks")
                self.world.checks.asked(self.name)
                self._rejoin_soon()

        self._after(max(0.0, (self.next_rebalance_ms - self.of.wall_ms()) / 1000), due)
