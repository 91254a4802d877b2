"""What a process does while its group rests: it reads the members, rebuilds its memory and compares plans."""

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import RefusalError
from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import (
    GroupMembership,
    NotShownError,
    State,
    changed_members,
    may_change,
    shown,
)
from bellwether_kafka.coordinator.planning.planner import raw_group
from bellwether_kafka.coordinator.planning.racks import MemberRacks
from bellwether_kafka.coordinator.runtime.group_runner import COMPARE_AGAIN_S
from bellwether_kafka.coordinator.runtime.recollection import AGAIN_S
from bellwether_kafka.coordinator.runtime.rest_watch import INTERVAL_S

if TYPE_CHECKING:
    from tests.simulation.instance import Instance

CONTROL_LANE = -1  # of short requests; JoinGroups have lanes from 0 on


def machine_rests(machine: GroupMembership | None, generation: int) -> bool:
    return machine is not None and machine.state is State.STABLE and machine.generation == generation


def compare_rebuilt(instance: "Instance", command: membership.Decide) -> None:
    if instance.rebuilding:
        instance.world.clock.after(0.1, instance.alive(lambda: compare_rebuilt(instance, command)))
    else:
        compare(instance, command)


def compare(instance: "Instance", command: membership.Decide) -> None:
    if instance.rebuilding:
        instance.world.clock.after(AGAIN_S, instance.alive(partial(compare, instance, command)))
        return
    raw = raw_group("g", command, MemberRacks())
    if not instance.world.metadata:
        instance.post(membership.ComparisonFailed(command.generation, "no metadata"))
        compare_again(instance, command)
        return
    try:
        decision, findings = instance.planner.made(raw)
    except RefusalError as error:
        if not error.refusal.final:
            raise
        decision, findings = None, (str(error),)
    if findings:
        instance.post(membership.ComparisonFailed(command.generation, "; ".join(findings)))
        return
    if machine_rests(instance.machine, command.generation):
        instance.planner.follow(decision)
    reason = instance.planner.worth_moving(decision)
    instance.post(membership.ComparisonReady(command.generation, bool(reason), reason, instance.planner.topics(raw)))


def compare_again(instance: "Instance", command: membership.Decide) -> None:
    def again() -> None:
        if machine_rests(instance.machine, command.generation):
            compare(instance, command)

    instance.world.clock.after(COMPARE_AGAIN_S, instance.alive(again))


def watch_rest(instance: "Instance", generation: int) -> None:
    """What `runtime.rest_watch` does."""
    machine = instance.machine
    assert machine is not None

    def refresh() -> None:
        if machine_rests(instance.machine, generation) and may_change(machine.members, machine.member_id):
            at = instance.world.broker.coordinator or 1
            request = membership.Describe(0, membership.Node(at, "", 0), "g", 5_000)
            instance.world.send(
                instance.client, CONTROL_LANE, at, request, 5.0, instance.alive(read), instance.alive(lambda _: again())
            )

    def again() -> None:
        instance.world.clock.after(INTERVAL_S, instance.alive(refresh))

    def read(answer: membership.DescribeAnswer) -> None:
        again()
        with suppress(NotShownError):
            racks = Policy().uses_racks(machine.protocol) or instance.config.streams
            changes = changed_members(machine.members, shown(answer), machine.member_id, racks=racks)
            rests = machine_rests(instance.machine, generation) and answer.state == membership.GroupState.STABLE
            for change in changes if rests else ():
                instance.post(change.wanted)

    again()


def rebuild(instance: "Instance", command: membership.RebuildMemory) -> None:
    machine = instance.machine
    assert machine is not None
    own = machine.member_id

    def rests() -> bool:
        return machine.generation == command.generation and machine.state in (State.SYNCING, State.STABLE)

    def read(answer: membership.DescribeAnswer) -> None:
        try:
            group = shown(answer)
        except NotShownError:
            again()
            return
        if not instance.world.metadata:
            again()
            return
        instance.rebuilding = False
        if rests():
            others = [m for m in group.members if m.member_id != own]
            instance.planner.recall(command.generation, command.protocol, others)

    def again(_: membership.Failure | None = None) -> None:
        instance.world.clock.after(AGAIN_S, instance.alive(retry))

    def retry() -> None:
        instance.rebuilding = False
        if rests():
            rebuild(instance, command)

    instance.rebuilding = True
    request = membership.Describe(0, membership.Node(0, "", 0), "g", 5_000)
    at = instance.world.broker.coordinator or 1
    instance.world.send(instance.client, CONTROL_LANE, at, request, 5.0, instance.alive(read), instance.alive(again))
