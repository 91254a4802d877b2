"""One plan for a Streams application, from what has been read to a decision and what the guard says of it. Called in a
thread, or in the solver's process: arguments and result are values that survive pickling.
"""

from dataclasses import dataclass

from assignors.decide import DecisionError
from assignors.model import ClusterView
from assignors.streams.crew import decode_streams, gather
from assignors.streams.decide import Assignors, decide_streams
from assignors.streams.memory import StreamsMemory
from assignors.streams.offsets import EndOffsets
from assignors.streams.result import Cause, StepAside, StreamsDecision
from assignors.streams.topology import Topology
from assignors.views import RawGroup
from coordinator.attestation import Arrivals, distrust
from coordinator.guard_streams import inspect_streams
from coordinator.streams_config import StreamsConfig

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
    """A world, and what the planner knew when it asked."""

    world: World
    config: StreamsConfig
    memory: StreamsMemory
    arrivals: Arrivals
    witnesses: frozenset[str]
    now_ms: int
    seed: int
    message_bytes_max: int


def make_tasks(assignors: Assignors, asked: TaskRequest) -> MadeTasks:
    """The plan, the guard's findings, and the arrivals to remember if it is sent.

    Raises DecisionError where another plan may do, StandAsideError where none would.
    """
    world, config, memory = asked.world, asked.config, asked.memory
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
    return decision, inspect_streams(world.raw, decision, message_bytes_max=asked.message_bytes_max), arrived
