"""Tasks to processes: whole plans, and the parts of Kafka's assignors that have tests of their own."""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from bellwether_kafka.assignors.streams.application import AssignmentConfigs, StreamsPlan, StreamsView, TaskLags
from bellwether_kafka.assignors.streams.placing import (
    LabelRule,
    Movements,
    Placement,
    RackOptimiser,
    StandbyRule,
    StickyTask,
    hashes_of,
    previous_owners,
    task_hashes,
)
from bellwether_kafka.assignors.streams.policies import assign_fallback_prior, assign_streams
from tests.kit.streams_views import actives, standbys
from tests.lab.kafka.views import Question, configs_of, placed, streams_view

POLICY = sys.argv[1] if len(sys.argv) > 1 else "kafka"
PRESERVING = "LegacyStickyTaskAssignor(true)"
Answer = dict[str, Any]


def plan(question: Question) -> Answer:
    """A placement of tasks: indices of active and standby tasks of each process, and whether it wants to be probed."""
    view = streams_view(question)
    assignor = PRESERVING if question["preserve"] else question["assignor"]
    made = PLACED_BY[assignor](view, configs_of(question))
    return _rows(made, view) | {"probing": made.probing}


def _rows(made: StreamsPlan, view: StreamsView) -> Answer:
    return {"active": actives(made, view.size), "standby": standbys(made, view.size)}


def _sticky(view: StreamsView, configs: AssignmentConfigs, *, preserve: bool = False) -> StreamsPlan:
    racks = RackOptimiser.of(view, configs, previous_owners(view))
    optimiser = None if isinstance(racks, str) else racks
    return StickyTask(view, configs, optimiser, preserve=preserve, legacy=True).assign()


PLACED_BY: Mapping[str, Callable[[StreamsView, AssignmentConfigs], StreamsPlan]] = {
    "HighAvailabilityTaskAssignor": lambda view, configs: assign_streams(view, configs, POLICY),
    "LegacyStickyTaskAssignor": _sticky,
    "FallbackPriorTaskAssignor": assign_fallback_prior,
    PRESERVING: partial(_sticky, preserve=True),
}


def rack_actives(question: Question) -> Answer:
    view = streams_view(question)
    place = placed(question, view)
    active, chosen = np.array(place.active, dtype=np.int32), np.array(question["chosen"], dtype=np.int32)
    racks = RackOptimiser(view, question["strategy"], previous_owners(view))
    owners = racks.actives(active, chosen, question["traffic"], question["non_overlap"])
    place.replace_actives(chosen, owners[chosen])
    return _rows(place.plan(probing=False), view)


def rack_standbys(question: Question) -> Answer:
    view = streams_view(question)
    place = placed(question, view)
    rule = _labels(question, view) if "labels" in question else StandbyRule()
    racks = RackOptimiser(view, question["strategy"])
    racks.standbys(place, rule, question["traffic"], question["non_overlap"])
    return _rows(place.plan(probing=False), view)


def _labels(question: Question, view: StreamsView) -> LabelRule:
    labels = [tuple(mine.items()) for mine in question["labels"]]
    return LabelRule(labels, question.get("keys", ()), task_hashes(view))


def spread(question: Question) -> Answer:
    """Standbys over labels, for the chosen tasks in their order."""
    view = streams_view(question)
    place = placed(question, view)
    _labels(question, view).assign(place, question["chosen"], question["standbys"])
    return _rows(place.plan(probing=False), view)


def movable(question: Question) -> Answer:
    view = streams_view(question)
    rule, ends = _labels(question, view), (question["source"], question["destination"])
    if "task" not in question:
        return {"allowed": rule.may_move(*ends)}
    return {"allowed": rule.may_move_task(*ends, question["task"], placed(question, view))}


def movements(question: Question) -> Answer:
    """Tasks back to where their state is, of which `made` were warmed up already; warm-ups are (task, process)."""
    view = streams_view(question)
    place: Placement = placed(question, view)
    made = {(task, row) for row, mine in enumerate(question["made"]) for task in mine}
    place.warmups |= made
    moves = Movements(place, TaskLags.of(view, 0), question["left"], hashes_of(view))
    stateful = np.flatnonzero(view.tasks.stateful).astype(np.int32)
    moved = moves.actives(stateful) if question["kind"] == "actives" else moves.standbys()
    fresh = [[int(task), int(process)] for task, process in sorted(place.warmups - made)]
    return _rows(place.plan(probing=False), view) | {"moved": moved, "warmups": fresh}
