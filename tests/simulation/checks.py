"""What must hold at every step, and what must come true once everything has been healed."""

from collections import Counter, deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.simulation.brokers.group_states import COMPLETING, STABLE
from tests.simulation.brokers.topics import partitions_of
from tests.simulation.hand_back_checks import HandBackChecks
from tests.simulation.members import Member
from tests.simulation.role_checks import RoleChecks
from tests.simulation.streams import Thread

if TYPE_CHECKING:
    from tests.simulation.world import World

WAY_S = 1.0
BY_TOPIC = ("eager", "eager and librdkafka")  # range deals each topic for itself
CROWD_REFRESH_S = 0.25  # of a thousand members not every change can be looked at
ASKS_MAX, ASKS_WITHIN_S = 30, 60.0  # rebalances that one thread asks for, whatever its clock says
PLANS_KEPT = 20  # of Bellwether, with what they were made from

Assignments = tuple[tuple[str, bytes], ...]


class ViolationError(AssertionError):
    """A promise was broken; the message begins with the seed."""


class Checks:
    def __init__(self, world: "World") -> None:
        self.world = world
        self.roles = RoleChecks(world)
        self.hand_backs = HandBackChecks(world)
        self.dirty = False
        self.longest: dict[
            str, float
        ] = {}  # seconds that a rebalance waited for Bellwether alone, by the broker's state
        self.plans = Counter[str]()
        self._rebalance: tuple[object, str, int] | None = None
        self._waiting: dict[str, float] = {}  # Bellwether's ids, where a rebalance waits for them alone, since when
        self._plans: dict[tuple[int, int], Assignments] = {}
        self._refresh_at = 0.0
        self.work: dict[tuple[int, int], Counter[str]] = {}  # what Bellwether did in each generation of a crowd
        self._asked: dict[str, deque[float]] = {}
        self._partitions_of: dict[Assignments, frozenset[TopicPartition]] = {}

    # ---- at every step -----------------------------------------------------------------------------------------------

    def step(self) -> None:
        self.roles.step()
        self.hand_backs.step()
        if not self.world.broker.at_work:
            self._rebalance = None
            return
        if self.dirty and self.world.clock.now >= self._refresh_at:
            self.dirty = False
            self._refresh_at = self.world.clock.now + (CROWD_REFRESH_S if self.world.crowd else 0.0)
            self._one_owner()
        self._stall()

    def _one_owner(self) -> None:
        """Counts who is a member for the broker: what an expelled one still consumes nobody can prevent."""
        world = self.world
        member_entries = world.broker.group.member_entries
        owners: dict[TopicPartition, str] = {}
        for member in world.members:
            if member.member_id not in member_entries:
                continue
            for partition in member.owned:
                other = owners.setdefault(partition, member.name)
                if other != member.name:
                    world.violate(f"partition {partition.partition} is consumed by {other} and {member.name}")

    def _stall(self) -> None:
        group = self.world.broker.group
        waits = group.waits_for() if not self.world.crowd or group.may_wait_only_for(self.world.is_own) else set()
        own = bool(waits) and all(self.world.is_own(member_id) for member_id in waits) and len(group.member_entries) > 1
        if not own or self._held_open():
            self._rebalance = None
            return
        key = (group, group.state, group.generation)
        now = self.world.clock.now
        since = self._waiting if self._rebalance == key else {}
        self._rebalance, self._waiting = key, {member_id: since.get(member_id, now) for member_id in waits}
        waited_s = now - min(self._waiting.values())
        self.longest[group.state] = max(self.longest.get(group.state, 0.0), waited_s)
        if waited_s > self.bound_s(group.state):
            self.world.violate(f"{group.state} has waited for us for {waited_s:.1f} s")

    def bound_s(self, state: str) -> float:
        """Bellwether's session and the way of its last heartbeat; before it, a plan may have been under way."""
        config = self.world.config
        work_ms = config.decision_deadline_ms if state == COMPLETING else 0
        return (config.session_timeout_ms + work_ms) / 1000 + WAY_S

    def _held_open(self) -> bool:
        """A living instance that is alone lets more members come into the rebalance, for as long as it may."""
        for instance in self.world.instances:
            if instance.holds_open:
                held_s = self.world.clock.now - instance.coalescing_since
                if held_s > self.world.config.coalesce_ms_max / 1000 + WAY_S:
                    self.world.violate(f"{instance.name} has held the round open for {held_s:.1f} s")
                return True
        return False

    def worked(self, kind: str) -> None:
        """An instance does something that costs the group, the broker or Bellwether."""
        if self.world.crowd:
            key = self.world.broker.epoch, self.world.broker.group.generation
            self.work.setdefault(key, Counter())[kind] += 1

    def made(self, assignments: Assignments, partitions: frozenset[TopicPartition]) -> None:
        """A plan of Bellwether, and the partitions of the metadata that it was made with."""
        self._partitions_of.pop(assignments, None)
        self._partitions_of[assignments] = partitions
        if len(self._partitions_of) > PLANS_KEPT:
            del self._partitions_of[next(iter(self._partitions_of))]

    def planned(self, leader: str, assignments: Assignments) -> None:
        """A leader's plan for the present generation has reached the broker, perhaps not for the first time."""
        world = self.world
        generation = world.broker.group.generation
        first = self._plans.setdefault((world.broker.epoch, generation), assignments)
        if first is not assignments:
            if first != assignments:
                world.violate(f"two plans in generation {generation}, the second by {leader}")
            return
        own = world.is_own(leader)
        self.plans["own" if own else "a member's"] += 1
        if own:
            self._plan_of_own(dict(assignments), self._partitions_of.get(assignments, frozenset()))

    def _plan_of_own(self, given: dict[str, bytes], existing: frozenset[TopicPartition]) -> None:
        world = self.world
        owners = Counter[TopicPartition]()
        for member_entry in world.broker.group.member_entries.values():
            blob = given.get(member_entry.member_id, b"")
            if not blob:
                world.violate(f"our plan leaves {member_entry.member_id} out")
                return
            partitions = ConsumerProtocolAssignment.decode(blob).partitions
            owners.update(partitions)
            if partitions and world.is_own(member_entry.member_id):
                world.violate(f"our own member gets {len(partitions)} partitions")
        twice = [partition for partition, times in owners.items() if times > 1]
        if twice:
            world.violate(f"our plan gives {twice} to two members")
        unexpected = sorted(owners.keys() - existing)
        if unexpected:
            world.violate(f"our plan gives {unexpected}, which its metadata did not have")

    # ---- in the end --------------------------------------------------------------------------------------------------

    def unsettled(self) -> str:
        """What keeps the group from rest, "" when it is at rest and balanced."""
        world = self.world
        group = world.broker.group
        if not world.broker.at_work or group.state != STABLE:
            return f"the group is {group.state}"
        running = [member for member in world.members if member.running]
        guests = world.guests
        own = {member.member_id for member in (*running, *guests)}
        strangers = {s for s in group.member_entries if not world.is_own(s)} - own
        if strangers:
            return f"{sorted(strangers)} are members but do not run"
        there = partitions_of({topic: n for topic, n in world.topics.sizes.items() if topic in world.subscribed})
        consumed: set[TopicPartition] = set()
        for member in running:
            if member.state != "stable" or member.generation != group.generation:
                return f"{member.name} is {member.state} in generation {member.generation}"
            if isinstance(member, Thread) and not member.converged:
                return f"{member.name} waits for state, or for a probe"
            if member.owned - there:
                return f"{member.name} consumes {sorted(member.owned - there)}, which are gone"
            consumed |= member.owned
        for guest in guests:
            if guest.state != "stable" or guest.generation != group.generation:
                return f"{guest.name} is {guest.state} in generation {guest.generation}"
            consumed |= guest.given  # lost, and by right
        if guests and not world.is_own(group.leader or ""):
            return ""  # what a hostile member's or a member's lead leaves to the others is not Bellwether's promise
        if consumed != there:
            return f"{len(consumed)} of {len(there)} partitions are consumed"
        if any(instance.unfinished for instance in world.instances):
            return "we wait for warm-ups"
        return self._uneven(running)

    def _uneven(self, members: Sequence[Member]) -> str:
        """Members have as many partitions as each other; where each topic is dealt for itself, of each topic."""
        if self.world.streams:
            return next(filter(None, map(self._uneven_tasks, (True, False))), "")
        by_topic = self.world.flock in BY_TOPIC
        shares = [member.owned for member in members] + [set(guest.given) for guest in self.world.guests]
        for topics in [(topic,) for topic in self.world.subscribed] if by_topic else [self.world.subscribed]:
            counts = [sum(p.topic in topics for p in share) for share in shares]
            if max(counts) - min(counts) > 1:
                return f"the spread of {' '.join(topics)} is {sorted(counts)}"
        return ""

    def _uneven_tasks(self, stateful: bool) -> str:
        """No process could give a task to another one so that both would have fewer for each of their threads, as Java
        balances them; a strategy that balances each subtopology for itself may be one off in each. Threads of a process
        have as many active tasks, or as Java deals them, as many with their standbys."""
        application = self.world.application
        ids = {s.id for s in application.topology.subtopologies if s.stateful or not stateful}
        strategy = application.config.configs.rack_aware_assignment_strategy
        slack = len(ids) - 1 if strategy == "balance_subtopology" else 0
        loads = []
        for process in self.world.processes:
            counts = [sum(task.subtopology in ids for task in thread.active) for thread in process.threads]
            copies = [len(thread.active) + len(thread.standby) for thread in process.threads]
            if not stateful and min(max(counts) - min(counts), max(copies) - min(copies)) > 1:
                return f"the threads of {process.name} have {counts} tasks, {copies} with standbys"
            loads.append((sum(counts), len(counts)))
        if any((a + 1) / n <= (b - 1 - slack) / m for a, n in loads for b, m in loads):
            return f"processes have (tasks, threads) {loads}{' with state' if stateful else ''}"
        return ""

    def asked(self, name: str) -> None:
        """A thread asks for a rebalance because a time has come that it was given."""
        now = self.world.clock.now
        times = self._asked.setdefault(name, deque(maxlen=ASKS_MAX))
        if len(times) == ASKS_MAX and now - times[0] < ASKS_WITHIN_S:
            self.world.violate(f"{name} has asked for {ASKS_MAX} rounds in {now - times[0]:.0f} s")
        times.append(now)

    def bellwether_leads(self) -> bool:
        leader = self.world.broker.group.leader
        return leader is not None and self.world.is_own(leader) and any(s.leads for s in self.world.instances)
