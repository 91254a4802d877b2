"""Kafka's own task assignors in one JVM: problems go in as lines of JSON, placements come back."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import numpy as np

from bellwether_kafka.assignors.streams.application import AssignmentConfigs, StreamsView
from tests.interop.support.jvm import Java


class Referee:
    """Asks HighAvailabilityTaskAssignor, LegacyStickyTaskAssignor or FallbackPriorTaskAssignor."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def judge(self, assignor: str, view: StreamsView, configs: AssignmentConfigs) -> dict[str, Any]:
        """What Java decides: `active` and `standby` tasks per process, `probing`, `nanos`; or `error`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(problem(assignor, view, configs)) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


@contextmanager
def referee(java: Java) -> Iterator[Referee]:
    quiet = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-XX:TieredStopAtLevel=1", "-Xmx512m")
    command = java.command("bellwether.HaReferee", options=quiet)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Referee(process)
        finally:
            process.kill()


def problem(assignor: str, view: StreamsView, configs: AssignmentConfigs) -> dict[str, Any]:
    tasks = view.tasks
    stateful = np.flatnonzero(tasks.stateful)
    processes = []
    for p, process in enumerate(view.processes):
        lags = tasks.end_sum.copy()
        lags[view.report[p]] = view.report_lag[view.report.span(p)]
        processes.append(
            {
                "id": str(UUID(bytes=bytes(process.process_id))),
                "capacity": process.capacity,
                "tags": dict(process.tags),
                "active": view.previous_active[p].tolist(),
                "standby": view.previous_standby[p].tolist(),
                "lags": lags[stateful].tolist(),
            }
        )
    return {
        "assignor": assignor,
        "tasks": list(zip(*(c.tolist() for c in (tasks.subtopology, tasks.partition, tasks.stateful)), strict=True)),
        "processes": processes,
        "acceptable_lag": configs.acceptable_recovery_lag,
        "warmups": configs.max_warmup_replicas,
        "standbys": configs.num_standby_replicas,
        "tags": list(configs.rack_aware_assignment_tags),
    }
