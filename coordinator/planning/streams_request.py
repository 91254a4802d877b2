"""Makes one plan for a Streams application, from what has been read to a decision and the guard's findings. Called in a
thread or in the solver's process: arguments and results can be pickled."""

from dataclasses import replace

from bellwether_kafka.assignors.shared import Decision, Refusal, RefusalCause, RefusalError
from bellwether_kafka.assignors.streams import Assignors, TaskPlan, decide_streams, without_host_maps
from bellwether_kafka.assignors.streams.application import LEARNED, EndOffsets
from bellwether_kafka.assignors.streams.members import decode_streams, gather
from bellwether_kafka.coordinator.planning.attestation import distrust, probe_at_ms
from bellwether_kafka.coordinator.planning.fallback import Proposal
from bellwether_kafka.coordinator.planning.inspection import inspect, oversized
from bellwether_kafka.coordinator.planning.streams_config import TaskRequest, World
from bellwether_kafka.coordinator.topology import settle

_LISTED = 5


def make_tasks(assignors: Assignors, asked: TaskRequest) -> Proposal[TaskPlan]:
    """Returns the plan, the guard's findings, and the arrivals to remember if it is sent.

    Raises RefusalError, a final one if no other plan would be valid.
    """
    world, *others = _settled(asked)
    objection, arrived = distrust(asked, world.topology)
    if objection is not None:
        raise RefusalError(RefusalCause.TOPOLOGY, objection)
    decision = _decided(assignors, asked, world)
    if any(_decided(assignors, asked, other).assignments != decision.assignments for other in others):
        raise RefusalError(RefusalCause.TOPOLOGY, _undecided(asked.world.topology.undecided))
    for finding in oversized(world.raw, decision.assignments, asked.message_bytes_max):
        decision = without_host_maps(decision, finding) or decision
    probes = [at_ms for at_ms in (decision.probing_at_ms, probe_at_ms(arrived, asked.now_ms)) if at_ms is not None]
    decision = replace(decision, probing_at_ms=min(probes, default=None))
    findings = inspect(world.raw, decision, message_bytes_max=asked.message_bytes_max)
    return Proposal(decision, findings, arrived)


def _decided(assignors: Assignors, asked: TaskRequest, world: World) -> Decision[TaskPlan]:
    config, configs, memory = asked.config, asked.config.configs, asked.memory
    if config.standbys_unknown:
        configs = replace(configs, num_standby_replicas=memory.usual_standbys(world.topology.stateful))
        memory = replace(memory, standbys={})  # no configured number that they could contradict
    decision = decide_streams(
        world.raw,
        world.cluster,
        world.ends,
        world.topology,
        memory,
        configs,
        config.policy,
        asked.now_ms,
        asked.seed,
        assignors=assignors,
    )
    if isinstance(decision, Refusal):
        raise decision.error()
    return decision


def _settled(asked: TaskRequest) -> list[World]:
    """Returns one World per topology consistent with what members reported; the plan is valid only if it is the same
    for all of them. Raises RefusalError if there are too many."""
    world, topology = asked.world, asked.world.topology
    if topology.source != LEARNED or not topology.undecided:
        return [world]
    settled = settle(topology, world.raw, asked.memory, world.cluster, world.ends.ends)
    if not settled.open:
        return [replace(world, topology=settled.topology)]
    # A single process gets all tasks, whatever their lags; and removed members report offsets when they come back.
    if asked.dry or len(gather(decode_streams(world.raw), asked.memory).processes) < 2:
        return [replace(world, topology=settled.topology, ends=EndOffsets.failed(_undecided(settled.open)))]
    if not settled.ways:
        raise RefusalError(RefusalCause.TOPOLOGY, _undecided(settled.open))
    return [replace(world, topology=way) for way in settled.ways]


def _undecided(changelogs: tuple[str, ...]) -> str:
    named = ", ".join(changelogs[:_LISTED])
    return f"what threads have reported does not show yet which subtopology these belong to: {named}"
