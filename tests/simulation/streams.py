"""Members that behave like the thread of a Kafka Streams process, and what they and a leader plan with.

A process has a state directory: what it has restored of each task stays there when it dies, and its offset sums are
what it tells. State is restored at a rate of the process; rejoins are asked for by `next_rebalance_ms` (KIP-441).
"""

from typing import TYPE_CHECKING

import numpy as np

from assignors.streams.decide import decide_streams, stock
from assignors.streams.memory import StreamsMemory
from assignors.streams.model import AssignmentConfigs, Subtopology
from assignors.streams.offsets import EndOffsets
from assignors.streams.result import StreamsDecision
from assignors.streams.stages.configs import NO_STAGES
from assignors.streams.topology import Topology
from assignors.views import RawGroup, RawMember
from coordinator.attestation import Arrivals
from coordinator.guard import MESSAGE_BYTES_MAX
from coordinator.planner_tasks import MadeTasks, TaskRequest, make_tasks
from coordinator.planner_tasks import World as Seen
from coordinator.streams_config import StreamsConfig
from protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.streams_assignment import NEVER_MS, AssignmentInfo
from protocol.streams_subscription import LATEST_OFFSET, SubscriptionInfo
from protocol.types import ProcessId, TaskId, TopicPartition
from tests.simulation.members import NO_GENERATION, Kind, Member
from tests.simulation.topics import partitions_of

if TYPE_CHECKING:
    from coordinator import events as e
    from tests.simulation.world import World

STREAMS = Kind(("stream",), cooperative=True)
SOURCE, CHANGELOG = "t", "g-store-changelog"
EPOCH_MS = 1_700_000_000_000
RECORDS = 100_000  # of the changelog of each task
PROBING_MS = 60_000
CONFIGS = AssignmentConfigs(
    acceptable_recovery_lag=10_000,
    max_warmup_replicas=2,
    num_standby_replicas=1,
    probing_rebalance_interval_ms=PROBING_MS,
)
CONFIG = StreamsConfig("g", topology_attested=True, configs=CONFIGS)
TOPOLOGY = Topology("g", (Subtopology(0, (SOURCE,), changelogs=(CHANGELOG,)),), "file")


def ends(partitions: int) -> EndOffsets:
    return EndOffsets({CHANGELOG: np.full(partitions, RECORDS, dtype=np.int64)})


def rounds_max(partitions: int) -> int:
    """Within how many rounds an application must have converged (KIP-441's test of its assignor)."""
    return 2 * partitions * (1 + CONFIGS.num_standby_replicas)


def make(world: "World", raw: RawGroup, memory: StreamsMemory, arrivals: Arrivals) -> MadeTasks:
    """Our plan. Raises DecisionError and StandAsideError."""
    told = world.topics.told()
    seen = Seen(raw, TOPOLOGY, world.topics.view(told), ends(world.partitions))
    request = TaskRequest(seen, CONFIG, memory, arrivals, frozenset(), world.our_wall_ms(), 1, MESSAGE_BYTES_MAX)
    made = make_tasks(stock(NO_STAGES), request)
    world.checks.made(made[0].assignments, partitions_of(told))
    return made


class Thread(Member):
    """One process with one thread."""

    def __init__(self, world: "World", name: str, kind: Kind, instance_id: str | None) -> None:
        super().__init__(world, name, kind, instance_id)
        self.process_id = ProcessId(world.rng.getrandbits(63), world.rng.getrandbits(63))
        self.rate = world.rng.uniform(2_000.0, 20_000.0)  # records a second, of all tasks together
        self._state: dict[TaskId, float] = {}
        self._restored_at = 0.0
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
        self._restore()
        return self.next_rebalance_ms == NEVER_MS and all(self._state[task] >= RECORDS for task in self.active)

    def _restore(self) -> None:
        """What has been restored since the last look."""
        seconds, self._restored_at = self.world.clock.now - self._restored_at, self.world.clock.now
        behind = [task for task in sorted(self.active | self.standby) if self._state.get(task, 0.0) < RECORDS]
        for task in behind:
            self._state[task] = min(RECORDS, self._state.get(task, 0.0) + seconds * self.rate / len(behind))

    def _end(self, *, drop: bool = True) -> None:
        self._restore()
        super()._end(drop=drop)

    def start(self) -> None:
        self._restored_at = self.world.clock.now
        super().start()

    def _subscription(self, protocol: str) -> bytes:
        del protocol
        self._restore()
        self._unique = (self._unique + 1) % 128
        sums = tuple(
            (task, LATEST_OFFSET if task in self.active and position >= RECORDS else int(position))
            for task, position in sorted(self._state.items())
            if position or task in self.active
        )
        data = SubscriptionInfo(process_id=self.process_id, task_offset_sums=sums, unique_field=self._unique).encode()
        owned = tuple(sorted(self.owned))
        return ConsumerProtocolSubscription(3, self.world.subscribed, data, owned, self.generation, None).encode()

    def _plan(self, answer: "e.JoinAnswer") -> tuple[tuple[str, bytes], ...]:
        """The leader of an application knows what its members say and the end offsets."""
        members = tuple(RawMember(m.member_id, m.instance_id, m.metadata) for m in answer.members)
        ours = frozenset(m.member_id for m in members if self.world.is_ours(m.member_id))  # Java gives those nothing
        raw = RawGroup("g", answer.generation, answer.protocol, members, ours)
        decision = decide_streams(
            raw,
            self.world.topics.look(),
            ends(self.world.partitions),
            TOPOLOGY,
            StreamsMemory.empty(),
            CONFIGS,
            "kafka",
            self.world.wall_ms(),
            1,
            assignors=stock(NO_STAGES),
        )
        assert isinstance(decision, StreamsDecision), decision.reason
        self._leads_until = answer.generation, decision.probing_at_ms  # Java's leader tells nobody but itself
        return decision.assignments

    def _given(self, assignment: bytes) -> set[TopicPartition]:
        given = ConsumerProtocolAssignment.decode(assignment)
        info = AssignmentInfo.decode(given.user_data or b"")
        if info.error_code:
            self.world.violate(f"{self.name} is told to stop: error {info.error_code} in its AssignmentInfo")
        partitions = sorted(given.partitions)
        if [(task.subtopology, task.partition) for task in info.active_tasks] != [(0, p.partition) for p in partitions]:
            self.world.violate(f"{self.name}: active tasks {info.active_tasks} are not of its partitions {partitions}")
        self._restore()
        self.active = frozenset(info.active_tasks)
        self.standby = frozenset(task for task, _ in info.standby_tasks)
        if self.active & self.standby:
            self.world.violate(f"{self.name} has active tasks as standbys")
        self._state |= {task: 0.0 for task in self.active | self.standby if task not in self._state}
        generation, probe_ms = self._leads_until
        own_ms = probe_ms if generation == self.generation and probe_ms is not None else NEVER_MS
        self._ask_later(min(info.next_rebalance_ms, own_ms))
        return set(partitions)

    def _ask_later(self, at_ms: int) -> None:
        self.next_rebalance_ms = at_ms
        self._probe += 1
        number = self._probe
        if at_ms == NEVER_MS:
            return

        def due() -> None:
            if self._probe == number and self.state == "stable":
                self.world.tell(f"{self.name} asks for a rebalance, as it was told to")
                self._rejoin_soon()

        self._after(max(0.0, (at_ms - self.world.wall_ms()) / 1000), due)
