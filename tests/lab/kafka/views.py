"""What Kafka's unit tests know of an application, as the views that Bellwether's assignors read."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bellwether_kafka.assignors.shared import FOREIGN_RACK, NO_RACK, NOBODY, LongArray, Ragged
from bellwether_kafka.assignors.streams.application import (
    NO_STRATEGY,
    AssignmentConfigs,
    ProcessView,
    StreamsView,
    Subtopology,
    TaskTable,
)
from bellwether_kafka.assignors.streams.placing import Placement
from bellwether_kafka.protocol.primitives import ProcessId
from tests.differential.rack_problems import remote

Question = Mapping[str, Any]
GENERATION = 1_000


def streams_view(question: Question) -> StreamsView:
    """Processes come in Java's order, and tasks in theirs."""
    processes = question["processes"]
    table = _tasks(question)
    places = question.get("racks", [None] * len(processes))
    reported = [sorted(map(tuple, process["lags"])) for process in processes]
    return StreamsView(
        group_id="group",
        generation=GENERATION,
        tasks=table,
        processes=tuple(
            ProcessView(process_id(p), _threads(n, p["capacity"]), place, tuple(p["tags"].items()))
            for n, (p, place) in enumerate(zip(processes, places, strict=True))
        ),
        capacity=np.array([p["capacity"] for p in processes], dtype=np.int32),
        rack=np.array([_rack(table.racks, place) for place in places], dtype=np.int32),
        report=Ragged.of_rows([[task for task, _ in mine] for mine in reported]),
        report_lag=np.array([lag for mine in reported for _, lag in mine], dtype=np.int64),
        previous_active=Ragged.of_rows([p["active"] for p in processes]),
        previous_standby=Ragged.of_rows([p["standby"] for p in processes]),
    )


def _end_sums(question: Question) -> LongArray:
    """How long each changelog is, which Kafka's assignors do not get. A process without state lags that much, so it
    is the largest lag of all."""
    ends = np.zeros(len(question["tasks"]), dtype=np.int64)
    for process in question["processes"]:
        for task, lag in process["lags"]:
            ends[task] = max(ends[task], lag)
    return ends


def _threads(process: int, capacity: int) -> tuple[str, ...]:
    return tuple(f"{process}-{thread}" for thread in range(capacity))


def process_id(process: Mapping[str, int]) -> ProcessId:
    return ProcessId(process["high"], process["low"])


def _rack(racks: Sequence[str], place: str | None) -> int:
    if place is None:
        return NO_RACK
    return racks.index(place) if place in racks else FOREIGN_RACK


def _tasks(question: Question) -> TaskTable:
    rows = question["tasks"]
    sources = question.get("partitionsForTask") or [[] for _ in rows]
    changelogs = question.get("changelogPartitionsForTask") or [[] for _ in rows]
    racks = tuple(
        sorted(
            {
                rack
                for table in (sources, changelogs)
                for task in table
                for racks_of_replica in task
                for rack in racks_of_replica
            }
        )
    )
    source_signature, source_remote = remote(sources, racks)
    changelog_signature, changelog_remote = remote(changelogs, racks)
    return TaskTable(
        subtopologies=tuple(
            Subtopology(s, (f"t{s}",), changelogs=(f"c{s}",) if any(r[2] for r in rows if r[0] == s) else ())
            for s in sorted({row[0] for row in rows})
        ),
        subtopology=np.array([row[0] for row in rows], dtype=np.int32),
        partition=np.array([row[1] for row in rows], dtype=np.int32),
        stateful=np.array([row[2] for row in rows], dtype=np.bool_),
        end_sum=_end_sums(question),
        racks=racks,
        source_signature=source_signature,
        source_remote=source_remote,
        changelog_signature=changelog_signature,
        changelog_remote=changelog_remote,
        racks_known=question.get("racked", False) and all(replica_racks for task in sources for replica_racks in task),
        changelog_racks_known=question.get("racked", False)
        and all(replica_racks for task in changelogs for replica_racks in task),
    )


def configs_of(question: Question) -> AssignmentConfigs:
    return AssignmentConfigs(
        question["acceptable_lag"],
        question["warmups"],
        question["standbys"],
        rack_aware_assignment_tags=tuple(question["tags"]),
        rack_aware_traffic_cost=question.get("traffic"),
        rack_aware_non_overlap_cost=question.get("non_overlap"),
        rack_aware_assignment_strategy=question["strategy"] if question["racked"] else NO_STRATEGY,
    )


def placed(question: Question, view: StreamsView) -> Placement:
    """What is on the processes already."""
    place = Placement(view)
    owner = np.full(view.tasks.size, NOBODY, dtype=np.int32)
    for row, process in enumerate(question["processes"]):
        owner[process["placed"]] = row
    tasks = np.flatnonzero(owner != NOBODY).astype(np.int32)
    place.place_actives(tasks, owner[tasks])
    for row, process in enumerate(question["processes"]):
        for task in process["copies"]:
            place.add_standby(task, row)
    return place
