"""One plan for a Streams application, from what has been read to a decision and what the guard says of it. Called in a
thread, or in the solver's process: arguments and result are values that survive pickling.
"""

from dataclasses import dataclass, replace

from assignors.decide import DecisionError
from assignors.model import ClusterView
from assignors.streams.crew import decode_streams, gather
from assignors.streams.decide import Assignors, decide_streams
from assignors.streams.memory import StreamsMemory
from assignors.streams.offsets import EndOffsets
from assignors.streams.result import Cause, StepAside, StreamsDecision
from assignors.streams.slimming import without_host_maps
from assignors.streams.topology import Topology
from assignors.views import RawGroup
from coordinator.attestation import LEARNED, Arrivals, distrust
from coordinator.guard import oversized
from coordinator.guard_streams import inspect_streams
from coordinator.streams_config import StreamsConfig
from coordinator.topology_settle import settle

_LISTED = 5
MadeTasks = tuple[StreamsDecision, tuple[str, ...], Arrivals]


class StandAsideError(Exception):
    """Nobody's plan would do: a Java member must lead. The message is the reason."""


@dataclass(frozen=True, slots=True)
class World:
    """What one decision is made from. `removed`: see `commands.Decide`."""

    raw: RawGroup
    topology: Topology
    cluster: ClusterView
    ends: EndOffsets
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """A world, and what the planner knew when it asked. Nobody acts on a `dry` plan."""

    world: World
    config: StreamsConfig
    memory: StreamsMemory
    arrivals: Arrivals
    witnesses: frozenset[str]
    now_ms: int
    seed: int
    message_bytes_max: int
    dry: bool = False


def make_tasks(assignors: Assignors, asked: TaskRequest) -> MadeTasks:
    """The plan, the guard's findings, and the arrivals to remember if it is sent.

    Raises DecisionError where another plan may do, StandAsideError where none would.
    """
    config, memory = asked.config, asked.memory
    world = _settled(asked)
    decoded = decode_streams(world.raw, memory.threads.keys() if memory.led else ())
    doubt, arrived = distrust(
        decoded,
        gather(decoded, memory),
        memory,
        asked.arrivals,
        world.topology,
        asked.now_ms,
        attested=config.topology_attested,
        witnesses=asked.witnesses,
        removed=world.removed,
    )
    if doubt is not None:
        raise StandAsideError(doubt)
    decision = decide_streams(
        world.raw,
        world.cluster,
        world.ends,
        world.topology,
        memory,
        config.configs,
        config.policy,
        asked.now_ms,
        asked.seed,
        assignors=assignors,
    )
    if isinstance(decision, StepAside):
        raise DecisionError(decision.reason) if decision.cause is Cause.PLAN else StandAsideError(decision.reason)
    for finding in oversized(world.raw, decision.assignments, asked.message_bytes_max):
        decision = without_host_maps(decision, finding) or decision
    return decision, inspect_streams(world.raw, decision, message_bytes_max=asked.message_bytes_max), arrived


def _settled(asked: TaskRequest) -> World:
    """With a topology of which every changelog is somewhere. Raises StandAsideError where lags would be needed that
    nobody can know."""
    world, topology = asked.world, asked.world.topology
    if topology.source != LEARNED or not topology.undecided:
        return world
    found = settle(topology, world.raw, asked.memory, world.cluster, world.ends.ends)
    if not found.open:
        return replace(world, topology=found.topology)
    processes = gather(decode_streams(world.raw), asked.memory).processes
    named = ", ".join(found.open[:_LISTED])
    reason = f"no thread has said enough yet to tell which subtopology these belong to: {named}"
    # Whoever is removed to lead reports offsets; where others do already, that would tell nothing new.
    if len(processes) > 1 and (found.told or not asked.dry):
        raise StandAsideError(reason)
    return replace(world, topology=found.topology, ends=EndOffsets.failed(reason))
