"""The values of labels are bounded, whatever clients call themselves and however often they come and go."""

from collections import defaultdict
from dataclasses import replace
from itertools import count

import pytest
from prometheus_client import CollectorRegistry

from bellwether_kafka.assignors.consumer import Policy, decide
from bellwether_kafka.assignors.shared import ClusterView, Memory, Weights
from bellwether_kafka.coordinator.membership import Note, NoteKind, NotLeading, Role
from bellwether_kafka.coordinator.observation import Shadow
from bellwether_kafka.coordinator.planning import (
    Cause,
    CauseKind,
    Planned,
    Timings,
    WatchedTopics,
    cause,
)
from bellwether_kafka.coordinator.telemetry import (
    CostMetrics,
    LagMetrics,
    Metrics,
    ObservedMetrics,
    PauseMetrics,
    StreamsMetrics,
)
from bellwether_kafka.protocol.primitives import TopicPartition
from docs.generate import BOUNDS, COUNTS, SERIES
from tests.kit.consumers import LiveMember, live_group
from tests.kit.observed import observed_group
from tests.kit.streams import Thread, group, led

TIMES, MEMBERS, TASKS_OF_A_PROCESS = 60, 12, 4
OF_PAIRS = ("from_rack", "to_rack")
Seen = dict[tuple[str, str, str], set[str]]  # by metric, group and label
NEW = count()


def each_time_others(number: int) -> list[LiveMember]:
    """Members whose ids, client ids and racks nobody has seen before."""
    return [LiveMember(f"client-{number}-{i}\n-{next(NEW)}", ("t",), f"rack-{number}-{i}") for i in range(MEMBERS)]


@pytest.fixture(scope="module")
def seen() -> Seen:
    """The values of each label of each metric, of groups that were led, left and observed sixty times."""
    registry = CollectorRegistry()
    common = Metrics(registry)
    streams, pauses, lags, observed = (
        StreamsMetrics(common),
        PauseMetrics(common),
        LagMetrics(common),
        ObservedMetrics(common),
    )
    weights = Weights({TopicPartition("t", p): 1e6 for p in range(40)})
    costs = CostMetrics(common, None, lambda: weights)
    cluster = ClusterView.of({"t": [[f"rack-{p}"] for p in range(40)]})
    values: Seen = defaultdict(set)
    before = None
    for number in range(TIMES):
        made = decide(live_group(each_time_others(number), number, "range"), cluster, Memory.empty(), Policy(), 0)
        timings = Timings(3.0, 0.2, 0.004, 0.01)
        why = cause(before, made)
        planned = Planned(made, WatchedTopics(("t",)), timings, previous=before, cause=why)
        common.on_decision(planned)
        pauses.on_decision(planned)
        costs.on_decision(planned)
        costs._record("g", costs._traffic(made, False, weights))  # as its timer does
        application = led(group(*(Thread(f"p{number}-{i}", 100 * number + i) for i in range(3)), generation=number + 1))
        streams.on_streams_decision(replace(planned, decision=application))  # type: ignore[arg-type]
        for kind in CauseKind:
            common.changed("g", Cause(kind, "", (f"other-{number}-{next(NEW)}",)))
        for reason in NotLeading:
            for noted in (NoteKind.REFUSED, NoteKind.LEFT):
                common.on_note("g", Note(noted, f"member-{number} did it", number, reason.value))
            common.on_role("g", Role(reason, f"because of member-{number}", 0.0))
        again = replace(observed_group(), group_id="g", shadow=Shadow.of(made, made.plan.owner))
        observed.on_observation(again)
        lags.on_observation(again)
        before = made
        for family in registry.collect():
            for sample in family.samples:
                own = {label: value for label, value in sample.labels.items() if label != "group"}
                for label, value in own.items():
                    values[family.name, sample.labels.get("group", ""), label].add(value)
    return values


@pytest.mark.slow
def test_no_label_has_more_values_than_its_page_says(seen: Seen) -> None:
    bound = {label: count for label, count in COUNTS.items() if isinstance(count, int)}
    many = {
        key: len(values)
        for key, values in seen.items()
        if key[-1] in bound and key[0] not in SERIES and len(values) > bound[key[-1]]
    }
    assert {label for *_, label in seen} - {"le", "currency"} <= BOUNDS.keys()
    # Series of a process or a pair of racks end with it: their bound is of one moment.
    assert {key for key in many if key[-1] not in ("process", *OF_PAIRS)} == set()


@pytest.mark.slow
def test_no_value_names_a_member(seen: Seen) -> None:
    naming = {key for key, values in seen.items() if any("member-" in value for value in values)}
    assert naming == set()
    assert len(seen["bellwether_member_changes", "g", "client"]) == COUNTS["client"]
    assert seen["bellwether_step_asides", "g", "reason"] == {reason.value for reason in NotLeading}
