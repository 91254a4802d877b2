"""The stock policies for Streams tasks by name, and when they use racks.

* `kafka`: what a Java leader decides (HighAvailabilityTaskAssignor);
* `streams-ha`: the same with what KIP-441 and KIP-925 promise in addition;
* `sticky`: KIP-924's StickyTaskAssignor;
* `load-aware`: `streams-ha` with even load instead of even counts; without weights it is `streams-ha`.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from bellwether_kafka.assignors.consumer import LoadAware
from bellwether_kafka.assignors.shared import NOBODY, IntArray
from bellwether_kafka.assignors.streams import placing
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, StreamsPlan, StreamsView
from bellwether_kafka.assignors.streams.policies.load_aware import assign_load_aware
from bellwether_kafka.assignors.streams.policies.streams_ha import assign_streams_ha
from bellwether_kafka.assignors.streams.stages import NO_STAGES, StageConfigs

KAFKA, STREAMS_HA, STICKY, LOAD_AWARE = "kafka", "streams-ha", "sticky", "load-aware"
NO_LOAD = LoadAware()
_Assign = Callable[[StreamsView, AssignmentConfigs, placing.RackOptimiser | None], StreamsPlan]
STREAMS_POLICIES = (KAFKA, STREAMS_HA, STICKY, LOAD_AWARE)


class UnknownPolicyError(ValueError):
    """Raised if no stock policy has this name. The message lists the known names."""


def assign_streams(
    view: StreamsView,
    configs: AssignmentConfigs,
    policy: str = KAFKA,
    stages: StageConfigs = NO_STAGES,
    load: LoadAware = NO_LOAD,
) -> StreamsPlan:
    """Returns the plan of a stock policy; `stages` are for `streams-ha`, `load` for `load-aware`. Raises
    UnknownPolicyError. While lags are unknown every policy is FallbackPrior, as in Kafka
    (docs/internals/streams.md#lags). Without processes nothing is placed."""
    policies: dict[str, _Assign] = {
        KAFKA: placing.assign_high_availability,
        STREAMS_HA: partial(assign_streams_ha, stages=stages),
        STICKY: placing.assign_sticky,
        LOAD_AWARE: partial(assign_load_aware, load=load),
    }
    assign = policies.get(policy)
    if assign is None:
        raise UnknownPolicyError(f"there is no policy {policy!r} for Streams tasks; known: {', '.join(policies)}")
    if not view.size:
        return StreamsPlan.of_active(np.full(view.tasks.size, NOBODY, dtype=np.int32))
    if not view.lags_known:
        return assign_fallback_prior(view, configs)
    racks, notes = _racks(view, configs, policy)
    plan = assign(view, configs, racks)
    return replace(plan, notes=(*notes, *plan.notes)) if notes else plan


def _racks(
    view: StreamsView, configs: AssignmentConfigs, policy: str
) -> tuple[placing.RackOptimiser | None, tuple[str, ...]]:
    """Returns the rack stage, None if it is off, cannot work or cannot gain anything; and notes about it."""
    notes = placing.unsent_tags(view, configs)
    stage = placing.RackOptimiser.of(view, configs, _with_owners_back(view, placing.previous_owners(view)))
    if isinstance(stage, str):
        notes, stage = (*notes, f"racks are not taken into account: {stage}"), None
    if policy not in (STREAMS_HA, LOAD_AWARE):
        return stage, notes
    disagreement = placing.rack_disagreement(view, configs)
    notes += (disagreement,) if disagreement else ()
    return (None if stage is not None and placing.is_pointless(view) else stage), notes


def _with_owners_back(view: StreamsView, owner: IntArray) -> IntArray:
    """Returns these owners, with tasks whose home is a resumed process on that process."""
    if not view.resumed.any():
        return owner
    back = view.resumed[view.home] & (view.home != NOBODY)
    return np.where(back, view.home, owner)


def assign_fallback_prior(view: StreamsView, configs: AssignmentConfigs) -> StreamsPlan:
    """Returns the plan of FallbackPriorTaskAssignor: tasks stay with their former process, whatever the load, and
    StickyTask places the rest. It ignores lags and racks and always probes
    (docs/internals/streams.md#fallbackpriortaskassignor)."""
    return placing.StickyTask(view, configs, preserve=True, legacy=True).assign(probing=True)
