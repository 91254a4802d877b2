"""A plan for an application at rest, from what the broker shows: what threads said when they joined is older than what
they have."""

from dataclasses import replace

import pytest

from bellwether_kafka.assignors.shared import AssignedMember, Decision, Moves, RawGroup
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.assignors.streams.application import EndOffsets
from bellwether_kafka.assignors.streams.members import recall_streams
from tests.kit.streams import OWN, led
from tests.unit.assignors.streams.fleet import PARTITIONS, TOPOLOGY, Fleet

NEWEST = 2**31 - 1


def refreshed_at(fleet: Fleet, *, resting: bool = True) -> Decision[TaskPlan]:
    """A plan for the application as DescribeGroups shows it after the last rebalance."""
    last = fleet.decision
    assert last is not None
    given, cluster = dict(last.assignments), fleet.cluster
    shown = [m for m in last.raw.members if m.member_id != OWN]
    described = [AssignedMember(m.member_id, None, m.metadata, given[m.member_id]) for m in shown]
    return led(
        RawGroup("shop", NEWEST, "stream", tuple(shown), resting=resting),
        topology=TOPOLOGY,
        cluster=cluster,
        ends=EndOffsets(fleet.ends, fleet.now_ms),
        memory=recall_streams(NEWEST, "stream", cluster, described),
        configs=fleet.configs,
        assignors=fleet.assignors,
        policy=fleet.policy,
        now_ms=fleet.now_ms,
    )


def grown(policy: str) -> Fleet:
    """An instance was away and has come back; the last rebalance has handed out what others gave up for it, and nothing
    is left for a probe to promote."""
    fleet = Fleet(policy, "none")
    fleet.stop(2)
    fleet.rest()
    fleet.start(2)
    fleet.settle()
    return fleet


@pytest.mark.parametrize("policy", ["kafka", "streams-ha"])
def test_an_application_at_rest_has_all_its_tasks_and_keeps_them(policy: str) -> None:
    fleet = grown(policy)
    plan = refreshed_at(fleet)
    assert plan.moves == Moves(kept=3 * PARTITIONS, moved=0, new=0, lost=0)
    assert plan.warnings == ()
    owners = {str(plan.plan.name(t)): int(plan.plan.owner[t]) for t in range(3 * PARTITIONS)}
    assert owners == fleet.owners()


def test_what_the_last_follow_up_handed_out_had_no_owner_by_what_threads_reported() -> None:
    assert refreshed_at(grown("kafka"), resting=False).moves.new > 0


def test_what_is_held_is_pending_for_others_and_not_given_away_at_once() -> None:
    """Nobody joins again for a dry plan, so what the last rebalance gave is held by those who got it."""
    fleet = grown("kafka")
    last = fleet.decision
    assert last is not None
    gone = fleet.threads.pop(next(iter(fleet.threads)))
    left = replace(last.raw, members=tuple(m for m in last.raw.members if m.member_id != gone.member_id))
    fleet.decision = replace(last, raw=left)
    plan = refreshed_at(fleet)
    assert plan.moves.new > 0
    assert (plan.plan.before[plan.plan.pending] >= 0).all()
