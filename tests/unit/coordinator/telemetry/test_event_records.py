"""Decisions as event records: equal to what was decided, complete, and encodable under the schemas."""

import numpy as np

from bellwether_kafka.assignors.consumer import PartitionPlan, Policy, decide
from bellwether_kafka.assignors.shared import NOBODY, ClusterView, Decision, Memory
from bellwether_kafka.coordinator.events import SchemaSet
from bellwether_kafka.coordinator.planning import Planned, Timings, WatchedTopics, cause
from bellwether_kafka.coordinator.telemetry.event_records import decision_events, membership_records, snapshot_record
from tests.kit.applications import FIRST, GROWN
from tests.kit.consumers import LiveMember, live_group
from tests.kit.plans import tasks

ENTRIES_MAX = 1_000

RACKS = ("az1", "az2", "az3")


def cluster_of(partitions: int) -> ClusterView:
    return ClusterView.of({"t": [[RACKS[p % 3], RACKS[(p + 1) % 3]] for p in range(partitions)], "u": [[None]] * 2})


def decided(members: list[LiveMember], cluster: ClusterView, generation: int = 1) -> Decision[PartitionPlan]:
    raw = live_group(members, generation)
    return decide(raw, cluster, Memory.empty(), Policy("rack-first"), now_ms=5)


def planned_of(decision: Decision[PartitionPlan]) -> Planned[PartitionPlan]:
    timings, why = Timings(0.0, 0.01, 0.02, 0.03), cause(None, decision)
    return Planned(decision, WatchedTopics(("t", "u")), timings, cause=why)


def test_events_of_a_plan_say_what_the_plan_says() -> None:
    members = [LiveMember(f"m{i}", ("t", "u"), RACKS[i % 3]) for i in range(3)]
    decision = decided(members, cluster_of(9))
    schemas = SchemaSet.load()
    events = [schemas.decode(schemas.encode(event, record)) for event, record in decision_events(planned_of(decision))]
    assert [event for event, _ in events] == ["decision", "assignment", *["membership"] * 3, "snapshot"]
    head, assignment = events[0][1], events[1][1]
    assert (head["owned"], head["moved"], head["cross_rack"]) == (11, 0, decision.cost.cross_rack)
    assert (head["metadata_ms"], head["plan_ms"], head["sync_ms"]) == (10.0, 20.0, 30.0)
    reported = {(e["topic"], e["partition"]): e["member"] for e in assignment["entries"]}
    names = [m.key for m in decision.plan.group.members]
    wanted = {
        tuple(decision.cluster.name(flat)): names[decision.plan.owner[flat]]
        for flat in np.flatnonzero(decision.plan.owner != NOBODY).tolist()
    }
    assert reported == wanted
    entry = next(e for e in assignment["entries"] if e["topic"] == "t" and e["partition"] == 4)
    assert (entry["leader_rack"], entry["replica_racks"], entry["previous"]) == ("az2", ["az2", "az3"], None)


def test_a_large_plan_is_cut_into_parts() -> None:
    decision = decided([LiveMember("m", ("t",))], cluster_of(2 * ENTRIES_MAX + 1))
    parts = [r for event, r in decision_events(planned_of(decision)) if event == "assignment"]
    assert [(p["part"], len(p["entries"])) for p in parts] == [(0, ENTRIES_MAX), (1, ENTRIES_MAX), (2, 1)]


def test_changes_of_members_are_reported_once() -> None:
    cluster = cluster_of(4)
    decision = decided([LiveMember("a", ("t",)), LiveMember("b", ("t",))], cluster)
    two = decided([LiveMember("b", ("t", "u")), LiveMember("c", ("t",))], cluster, 2)
    changes = {(r["change"], r["member"]) for r in membership_records(decision, two)}
    assert changes == {("left", "a"), ("resubscribed", "b"), ("joined", "c")}
    assert membership_records(two, two) == []


def test_a_snapshot_holds_what_the_decision_was_made_from() -> None:
    members = [LiveMember("m", ("t", "u"), "az1")]
    cluster = cluster_of(5)
    record = snapshot_record(decided(members, cluster))
    layout = {t["name"]: [record["placements"][row] for row in t["placements"]] for t in record["topics"]}
    again = ClusterView.of(layout)
    assert (again.topics, again.racks) == (cluster.topics, cluster.racks)
    assert again.leader_rack.tolist() == cluster.leader_rack.tolist()
    assert again.signature_racks[again.signature].tolist() == cluster.signature_racks[cluster.signature].tolist()
    assert record["members"][0]["metadata"] == members[0].metadata


def test_events_of_an_application_show_how_far_its_copies_are_behind() -> None:
    schemas = SchemaSet.load()
    events = [schemas.decode(schemas.encode(event, record)) for event, record in decision_events(tasks(GROWN, FIRST))]
    assert [event for event, _ in events] == ["decision", "assignment", "membership", "lag"]
    reported = {(e["task"], e["member"], e["role"]): e["lag"] for e in events[-1][1]["entries"]}
    copies = {(str(c.task), str(c.process_id), "warmup" if c.warmup else "standby"): c.lag for c in GROWN.plan.copies}
    assert reported == {copy: max(lag, -1) for copy, lag in copies.items()}
    assert max(reported.values()) > 0
