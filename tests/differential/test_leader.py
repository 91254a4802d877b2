"""Bellwether's leader beside Java's own on the bytes of the same random groups, of versions mixed and to come.

Everything that a member is sent is compared: partitions, tasks, standbys, host maps, versions, error codes and who is
to rejoin at once. Where a group cannot be led Java fails the application, and Bellwether steps aside.
"""

import base64
import os
from random import Random

import pytest

from bellwether_kafka.assignors.shared import Decision, Refusal
from bellwether_kafka.assignors.streams import TaskPlan, decide_streams
from bellwether_kafka.assignors.streams.members import SHUTDOWN_REQUESTED, StreamsMemory
from bellwether_kafka.protocol.messages import NEVER_MS, AssignmentInfo, ConsumerProtocolAssignment
from tests.differential.leader_problems import NOW_MS, LeaderProblem, random_leader
from tests.differential.referees import TIMEOUT_S, ask
from tests.interop.support.jvm import Java
from tests.kit.consumers import cluster_of

INPUTS = int(os.environ.get("BELLWETHER_INPUTS", "500"))
REFEREE = "org.apache.kafka.streams.processor.internals.LeaderReferee"
ASSIGNMENT_ERROR = 3
DEADLINE_FROM = 7

pytestmark = [pytest.mark.broker, pytest.mark.timeout(TIMEOUT_S)]


def own(problem: LeaderProblem) -> Decision[TaskPlan] | Refusal:
    return decide_streams(
        problem.raw,
        cluster_of(problem.counts),
        problem.end_offsets,
        problem.topology,
        StreamsMemory.empty(),
        problem.configs,
        "kafka",
        NOW_MS,
    )


def read(blob: bytes) -> tuple[tuple, AssignmentInfo]:
    assignment = ConsumerProtocolAssignment.decode(blob)
    assert assignment.user_data is not None
    return assignment.partitions, AssignmentInfo.decode(assignment.user_data)


def shape(blob: bytes) -> dict[str, object]:
    """What a member is sent, whatever the order of maps; when a probe is due is left out."""
    partitions, info = read(blob)
    return {
        "partitions": partitions,
        "active": info.active_tasks,
        "standby": {task: sorted(read) for task, read in info.standby_tasks},
        "hosts": {host: sorted(read) for host, read in info.partitions_by_host},
        "standby hosts": {host: sorted(read) for host, read in info.standby_partitions_by_host},
        "versions": (info.version, info.commonly_supported_version),
        "error": info.error_code,
        "at once": info.next_rebalance_ms == 0,
    }


def compare(problem: LeaderProblem, theirs: dict) -> str:
    """Fails where the leaders differ; says what kind of rebalance it was."""
    assert "error" not in theirs, (theirs["error"], problem)
    sent = {member: base64.b64decode(blob) for member, blob in theirs["members"].items()}
    codes = {read(blob)[1].error_code for blob in sent.values()}
    decision = own(problem)
    if isinstance(decision, Refusal):
        assert codes == {ASSIGNMENT_ERROR}, (decision.reason, problem)
        return "left"
    mine = dict(decision.assignments)
    if decision.plan.shutdown:
        # Bellwether's is of a version that all of them read, where Java sends the newest.
        assert codes == {SHUTDOWN_REQUESTED} == {read(mine[member])[1].error_code for member in sent}
        return "shut down"
    if not decision.plan.view.lags_known:
        # FallbackPrior walks Java's hash tables: who has what is compared by counts, in test_ha.py.
        for member, blob in sent.items():
            assert shape(mine[member])["versions"] == shape(blob)["versions"], (member, problem)
        return "lags unknown"
    for member, blob in sent.items():
        assert shape(mine[member]) == shape(blob), (member, problem)
    compare_probes(problem, decision, {read(blob)[1].next_rebalance_ms for blob in sent.values()} - {0, NEVER_MS})
    return "future" if decision.plan.process_map.future else "known"


def compare_probes(problem: LeaderProblem, decision: Decision[TaskPlan], theirs: set[int]) -> None:
    """Java has a thread of its own process probe, unless one of it rejoins at once; Bellwether does it itself."""
    process_map = decision.plan.process_map
    if theirs or decision.probing_at_ms is None or decision.plan.out.version < DEADLINE_FROM:
        assert theirs <= {decision.probing_at_ms}
        return
    leader = [i for i, process in enumerate(process_map.processes) if process.process_id == problem.leader]
    assert (
        not leader
        or (decision.plan.out.next_rebalance_ms[process_map.member[process_map.process == leader[0]]] == 0).any()
    )


@pytest.mark.parametrize("future", [False, True], ids=["known versions", "version probing"])
def test_leaders_send_the_same(jvm: Java, *, future: bool) -> None:
    random = Random(9 + future)
    problems = [random_leader(random, future=future) for _ in range(INPUTS)]
    kinds = [compare(problem, theirs) for problem, theirs in zip(problems, ask(jvm, REFEREE, problems), strict=True)]
    assert set(kinds) == {"shut down", "lags unknown", *(["future", "left"] if future else ["known"])}
