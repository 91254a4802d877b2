"""What Kafka's unit tests ask, answered by our assignors and codecs: a line of JSON in, a line out.

The other side is tests/java/kafka-tests. An error of ours becomes an answer, too, and an exception there.
"""

import base64
import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from bellwether_kafka.assignors.consumer.decide import decide
from bellwether_kafka.assignors.consumer.registry import Policy
from bellwether_kafka.assignors.shared.arrays import Ragged
from bellwether_kafka.assignors.shared.decision import Decision
from bellwether_kafka.assignors.shared.group import RawGroup, RawMember
from bellwether_kafka.assignors.shared.memory import Memory
from bellwether_kafka.assignors.shared.model import FOREIGN_RACK, NO_RACK, NOBODY, ClusterView
from bellwether_kafka.assignors.streams.application.model import (
    NO_STRATEGY,
    AssignmentConfigs,
    ProcessView,
    StreamsPlan,
    StreamsView,
    Subtopology,
    TaskTable,
)
from bellwether_kafka.assignors.streams.placing import RackOptimiser, StickyTask, previous_owners
from bellwether_kafka.assignors.streams.policies.assign import assign_fallback_prior, assign_streams
from bellwether_kafka.protocol.messages import AssignmentInfo, SubscriptionInfo
from bellwether_kafka.protocol.primitives.types import ProcessId
from tests.differential.rack_problems import remote
from tests.unit.assignors.streams.scenes import actives, standbys

Question = Mapping[str, Any]
CODECS = {"AssignmentInfo": AssignmentInfo, "SubscriptionInfo": SubscriptionInfo}
GENERATION = 1_000
PRESERVING = "LegacyStickyTaskAssignor(true)"
POLICY = sys.argv[1] if len(sys.argv) > 1 else "kafka"


def consumers(question: Question) -> dict[str, Any]:
    """A whole round of a leader that remembers nothing: every member's bytes, and the target with what is withheld."""
    members = tuple(RawMember(m["id"], m["instance"], base64.b64decode(m["metadata"])) for m in question["members"])
    cluster = ClusterView.of({t: racks for t, racks in question["topics"].items() if racks})
    raw = RawGroup("group", GENERATION, question["protocol"], members)
    decision = decide(raw, cluster, Memory.empty(), Policy("kafka"), 0)
    if not isinstance(decision, Decision):
        return {"error": decision.reason}
    owners = enumerate(decision.plan.target.owner.tolist())
    return {
        "assignments": {member: base64.b64encode(blob).decode() for member, blob in decision.assignments},
        "target": [[*cluster.name(flat), members[owner].member_id] for flat, owner in owners if owner != NOBODY],
    }


def codec(question: Question) -> dict[str, Any]:
    """The same message, decoded and encoded again; of a future version nobody can read more than the head."""
    message = CODECS[question["message"]].decode(base64.b64decode(question["bytes"]))
    if isinstance(message, SubscriptionInfo) and message.future:
        return {"bytes": question["bytes"]}
    return {"bytes": base64.b64encode(message.encode()).decode()}


def tasks(question: Question) -> dict[str, Any]:
    """A placement of tasks: indices of active and standby tasks of each process, and whether it wants to be probed."""
    view = streams_view(question)
    configs = AssignmentConfigs(
        question["acceptable_lag"],
        question["warmups"],
        question["standbys"],
        rack_aware_assignment_tags=tuple(question["tags"]),
        rack_aware_traffic_cost=question.get("traffic"),
        rack_aware_non_overlap_cost=question.get("non_overlap"),
        rack_aware_assignment_strategy=question["strategy"] if question["racked"] else NO_STRATEGY,
    )
    assignor = PRESERVING if question["preserve"] else question["assignor"]
    plan = PLACED_BY[assignor](view, configs)
    return {
        "active": actives(plan, view.size),
        "standby": standbys(plan, view.size),
        "probing": plan.probing,
    }


def sticky(view: StreamsView, configs: AssignmentConfigs, *, preserve: bool = False) -> StreamsPlan:
    racks = RackOptimiser.of(view, configs, previous_owners(view))
    optimiser = None if isinstance(racks, str) else racks
    return StickyTask(view, configs, optimiser, preserve=preserve, legacy=True).assign()


PLACED_BY = {
    "HighAvailabilityTaskAssignor": lambda view, configs: assign_streams(view, configs, POLICY),
    "LegacyStickyTaskAssignor": sticky,
    "FallbackPriorTaskAssignor": assign_fallback_prior,
    PRESERVING: partial(sticky, preserve=True),
}


def streams_view(question: Question) -> StreamsView:
    """Processes come in Java's order, and tasks in theirs."""
    processes, rows = question["processes"], question["tasks"]
    sources, changelogs = question.get("partitionsForTask"), question.get("changelogPartitionsForTask")
    held = [rack for table in (sources or [], changelogs or []) for task in table for racks in task for rack in racks]
    racks = tuple(sorted({*held}))
    source_signature, source_remote = remote(sources or [[] for _ in rows], racks)
    changelog_signature, changelog_remote = remote(changelogs or [[] for _ in rows], racks)
    places = question.get("racks", [None] * len(processes))
    reported = [sorted(map(tuple, process["lags"])) for process in processes]
    return StreamsView(
        group_id="group",
        generation=GENERATION,
        tasks=TaskTable(
            subtopologies=tuple(
                Subtopology(s, (f"t{s}",), changelogs=(f"c{s}",) if any(r[2] for r in rows if r[0] == s) else ())
                for s in sorted({row[0] for row in rows})
            ),
            subtopology=np.array([row[0] for row in rows], dtype=np.int32),
            partition=np.array([row[1] for row in rows], dtype=np.int32),
            stateful=np.array([row[2] for row in rows], dtype=np.bool_),
            end_sum=np.zeros(len(rows), dtype=np.int64),
            racks=racks,
            source_signature=source_signature,
            source_remote=source_remote,
            changelog_signature=changelog_signature,
            changelog_remote=changelog_remote,
            racks_known=question["racked"],
            changelog_racks_known=question["racked"],
        ),
        processes=tuple(
            ProcessView(
                ProcessId(p["high"], p["low"]),
                tuple(f"{n}-{thread}" for thread in range(p["capacity"])),
                place,
                tuple(p["tags"].items()),
            )
            for n, (p, place) in enumerate(zip(processes, places, strict=True))
        ),
        capacity=np.array([p["capacity"] for p in processes], dtype=np.int32),
        rack=np.array(
            [NO_RACK if rack is None else racks.index(rack) if rack in racks else FOREIGN_RACK for rack in places],
            dtype=np.int32,
        ),
        report=Ragged.of_rows([[task for task, _ in mine] for mine in reported]),
        report_lag=np.array([lag for mine in reported for _, lag in mine], dtype=np.int64),
        previous_active=Ragged.of_rows([p["active"] for p in processes]),
        previous_standby=Ragged.of_rows([p["standby"] for p in processes]),
    )


ABOUT: Mapping[str, Callable[[Question], dict[str, Any]]] = {
    "consumers": consumers,
    "tasks": tasks,
    "codec": codec,
}


def main() -> None:
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = ABOUT[question["about"]](question)
        except Exception as error:  # noqa: BLE001 - it is the test's verdict, on the other side
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
