"""Instances that are guarded, and that are emptied before they are restarted: two promises more.

A live member is never removed: each process has a guard, which looks at the group while the process lives and removes
its members when it has ended. What a guard takes for its own, the product says (`guard.members`). Half of the processes
that are emptied before a restart have none; the service removes what they leave behind.

An emptied task always has a caught-up copy: processes of an application are restarted one after the other, each emptied
before, by an order on the control topic that the service carries out and ends.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.control import OrderKind, PlacementOrder, Stage, Until
from bellwether_kafka.coordinator.guard import members
from bellwether_kafka.protocol.primitives import TaskId
from tests.simulation.applications import RECORDS
from tests.simulation.faults import Faults
from tests.simulation.instance import Instance
from tests.simulation.members import Member
from tests.simulation.streams import Process, Thread

if TYPE_CHECKING:
    from tests.simulation.world import World

ACCEPTABLE_LAG = 10_000  # Kafka's default, which the applications have
GUARD_REFRESH_S, REMOVED_AFTER_S = (1.0, 3.0), (0.01, 0.5)
CHAOS_S = 300.0
EMPTY_S, BACK_S = 1_800.0, 120.0  # warm-ups come two at a time, and one rate may be a tenth of another
HOUR_MS = 3_600_000


class Guards:
    """One for each process that lives. `shared`: operators have given two processes one client id, and stated to each
    guard that it is its own's. That word is wrong; a guard that has seen both in one finished generation must know."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.shared = world.more.random() < 0.3
        self.removed = 0
        self._of: dict[str, Guard] = {}

    def started(self, member: Member) -> None:
        name = process_name(member)
        if name not in self._of:
            self._of[name] = Guard(self, member)

    def ended(self, member: Member) -> None:
        guard = self._of.pop(process_name(member), None)
        if guard is not None:
            guard.process_ended()

    def called(self, client_id: str) -> str:
        """A client id as it is configured, which outlives a restart; `shared` gives it to two processes at a time."""
        name = client_id.partition(".")[0]
        return f"pair-{int(name[1:]) // 2}" if self.shared and name[1:].isdigit() else name

    def without(self, process: Process) -> None:
        """Its guard is gone."""
        guard = self._of.pop(process.name, None)
        if guard is not None:
            guard.end()


class Guard:
    """Of one process, from its start until its memberships have ended."""

    def __init__(self, guards: Guards, member: Member) -> None:
        self._guards, self.world, self._name = guards, guards.world, process_name(member)
        self._began = self.world.clock.now
        self._ended = False
        self._seen = members.SeenMembers()
        self._member = member
        self._beside_another = False  # seen in one finished generation with a member that is called as it is
        of = member.of if isinstance(member, Thread) else None
        process_id = str(of.process_id) if of is not None else None
        ids = () if of is not None else (guards.called(member.client),)
        self._identity = members.Identity("g", process_id, ids)
        self._refresh()

    def _refresh(self) -> None:
        if self._ended:
            return
        self.world.clock.after(self.world.more.uniform(*GUARD_REFRESH_S), self._refresh)
        request = membership.Describe(0, membership.Node(0, "", 0), "g", 5_000)
        at = self.world.broker.coordinator or 1
        self.world.send(f"guard-{self._name}.0", 9, at, request, 5.0, self._take, lambda _: None)

    def _take(self, answer: membership.DescribeAnswer) -> None:
        if not self._ended:  # a member that joins later belongs to another process
            listed = tuple(replace(m, client_id=self._guards.called(m.client_id)) for m in answer.members)
            self._seen = members.updated(self._seen, replace(answer, members=listed))
            alike = [m.member_id for m in listed if m.client_id == self._guards.called(self._member.client)]
            beside = self._member.member_id in alike and len(alike) > 1
            self._beside_another |= beside and answer.state in membership.FINISHED

    def end(self) -> None:
        self._ended = True

    def process_ended(self) -> None:
        self.end()
        lived_s = self.world.clock.now - self._began
        own = members.belonging(self._identity, self._seen, lived_s).member_ids
        if own:
            self.world.clock.after(self.world.more.uniform(*REMOVED_AFTER_S), lambda: self._remove(own))

    def _remove(self, own: tuple[str, ...]) -> None:
        named = self._identity.process_id is None
        may_err = named and self._guards.shared and not self._beside_another
        self._guards.removed += len(own)
        remove(self.world, own, f"the guard of {self._name}", may_err=may_err)


class Evacuation:
    """One process that is being emptied; `world.evacuation` while its order is in force."""

    def __init__(self, world: "World", process: Process) -> None:
        self.world, self.process = world, process
        where, now_ms = f"member:{process.process_id}", world.own_wall_ms()
        kind = OrderKind.EVACUATE
        self._order = PlacementOrder(kind, world.group, "*", where, "sim", now_ms, now_ms + HOUR_MS, until=Until.BACK)
        self._ran = {task for thread in process.threads for task in thread.active}
        world.control.append(self._order.key, self._order)

    @property
    def stage(self) -> Stage:
        """As the process that leads shows it."""
        leader = next((instance.server.service for instance in self.world.instances if instance.leads), None)
        shown = leader.emptying(self.world.group) if leader is not None else ()
        return next((absence.stage for _, absence in shown if absence is not None), Stage.EMPTYING)

    @property
    def back(self) -> bool:
        """The product has withdrawn the order."""
        return self._order.key not in self.world.control.kept

    def given(self, thread: Thread, tasks: frozenset[TaskId]) -> None:
        """A thread gets tasks that it did not have. Those that the process ran which is being emptied, and which could
        run them still, have to be caught up there."""
        if thread.of is self.process or not any(t.running for t in self.process.threads):
            return
        for task in sorted(tasks & self._ran & thread.of.state.keys()):
            lag = RECORDS - thread.of.state[task]
            if lag > ACCEPTABLE_LAG:
                self.world.violate(
                    f"{task} leaves {self.process.name} for {thread.name}, which lacks {lag:.0f} records"
                )


def remove(world: "World", member_ids: tuple[str, ...], by: str, *, may_err: bool = False) -> None:
    """`may_err`: the operator's word is wrong, and nothing that has been seen says so."""
    for member in world.members:
        if member.running and member.member_id in member_ids and not may_err:
            world.violate(f"{by} removes {member.member_id}, and {member.name} lives")
    world.log(f"{by} removes {', '.join(member_ids)}")
    at = world.broker.coordinator or 1
    request = membership.Evict(0, membership.Node(at, "", 0), "g", 5_000, member_ids, by)
    world.send("remover.0", 9, at, request, 5.0, lambda _: None, lambda _: None)


def process_name(member: Member) -> str:
    return member.of.name if isinstance(member, Thread) else member.name


def guarded(world: "World") -> "World":
    """The same world with guards, and an application that carries out orders."""
    world.guards = Guards(world)
    application = world.application
    world.application = replace(application, config=replace(application.config, policy="streams-ha"))
    return world


def chaos(world: "World", interval_s: float) -> None:
    """All faults, with guards; then everything heals."""
    starts: list[Member | Instance] = [*world.members, *world.hostile, world.instances[0]]
    for number, process in enumerate(starts):
        world.clock.after(number * 0.5, process.start)
    faults = Faults(world, interval_s)
    world.run_until(CHAOS_S)
    faults.heal()
    processes: list[Member | Instance] = [*world.members, *world.instances]
    asleep = (process.paused_until for process in processes)
    world.run_until(max(world.clock.now, *asleep))


def restarted(world: "World", process: Process) -> None:
    """Emptied, stopped, started again, and given its share, while Bellwether leads a group at rest."""
    evacuation = world.evacuation = Evacuation(world, process)
    world.log(f"---- {process.name} is to be emptied ----")
    # The last one that runs cannot be emptied: nobody else could have its tasks.
    alone = len(world.processes) == 1
    if not alone and not world.run_until(
        world.clock.now + EMPTY_S, lambda: evacuation.stage is Stage.EMPTY or evacuation.back
    ):
        world.violate(f"{process.name} is {evacuation.stage.value} {EMPTY_S:.0f} s after the order")
    world.log(f"---- {process.name} is restarted ----")
    first = process.threads[0]
    if world.guards is not None and world.more.random() < 0.5:
        world.guards.without(process)
    first.crash() if world.more.random() < 0.5 else first.close()
    world.run_until(world.clock.now + world.more.uniform(0.0, 20.0))
    first.start()
    if not alone and not world.run_until(world.clock.now + BACK_S, lambda: evacuation.back):
        world.violate(f"{process.name} started {BACK_S:.0f} s ago, and its order still stands")
    world.evacuation = None
