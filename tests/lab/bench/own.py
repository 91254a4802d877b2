"""Runs a leader's whole work on a scenario: `assignors.consumer.decide`, from subscription to assignment bytes.

The whole is timed as the product calls it, with what the JVM does not do (validation, warnings, the report of every
stage). Scores and memory are not in it: the product makes them after SyncGroup. Reading and writing bytes are timed
beside it on the same data; what is left is called assigning.
"""

import gc

from bellwether_kafka.assignors.consumer import PartitionPlan, decide, decode_group, policy
from bellwether_kafka.assignors.shared import Decision, Memory, RawGroup, RawMember, Refusal
from bellwether_kafka.protocol.bulk import write_assignments
from tests.lab.bench.outcome import LEAST_RUNS, LEAST_WARM_RUNS, MOST_RUNS, Outcome, Phases, timed, timed_runs
from tests.lab.bench.scenario import SETTLED_GENERATION, Scenario


def run_own(scenario: Scenario, *, warm_s: float, measure_s: float) -> Outcome:
    """Measures Bellwether on the scenario's bytes."""
    members = tuple(
        RawMember(member_id, None, metadata)
        for member_id, metadata in zip(scenario.member_ids, scenario.metadata, strict=True)
    )
    raw = RawGroup("bench", SETTLED_GENERATION + 1, scenario.shape.protocol, members)
    kafka = policy("kafka")
    cluster, memory = scenario.cluster, Memory.empty()

    def work() -> Decision[PartitionPlan] | Refusal:
        return decide(raw, cluster, memory, kafka, 0)

    if measure_s:
        gc.collect()
    first, decision = timed(work)
    for _ in timed_runs(work, LEAST_WARM_RUNS - 1, warm_s, MOST_RUNS):
        pass
    runs: list[Phases] = []
    for total, decision in timed_runs(work, LEAST_RUNS, measure_s, MOST_RUNS):
        assert isinstance(decision, Decision), decision
        runs.append(_phases(raw, decision, total))
    assert isinstance(decision, Decision), decision
    assert not decision.warnings, decision.warnings
    return Outcome(first, tuple(runs), tuple(blob for _, blob in decision.assignments))


def _phases(raw: RawGroup, decision: Decision[PartitionPlan], total: float) -> Phases:
    decode, _ = timed(lambda: decode_group(raw))
    cluster, sent = decision.cluster, decision.plan.target.sent
    encode, _ = timed(lambda: write_assignments(cluster.topics, cluster.first, sent, decision.plan.group.size + 1))
    return Phases(decode, max(0.0, total - decode - encode), encode)
