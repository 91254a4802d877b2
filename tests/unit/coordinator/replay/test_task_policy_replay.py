"""What every policy would have cost an application over recorded rebalances."""

import time
from collections.abc import Sequence
from typing import Any

import pytest

from bellwether_kafka.assignors.shared import ClusterView, Weights
from bellwether_kafka.coordinator.planning import pack
from bellwether_kafka.coordinator.replay import PolicyOutcome, replay_task_policies
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.applications import App, Cluster, Log
from tests.kit.streams import SHOP_COUNTS, Thread

A, B, C = Thread("a", 1, rack="az1"), Thread("b", 2, rack="az2"), Thread("c", 3, rack="az1")
POLICIES = ("kafka", "streams-ha", "sticky", "broker-sticky")
WEIGHTS = Weights({TopicPartition("orders", p): 1_000.0 for p in range(4)})


class Racked(Cluster):
    """Each partition is in one of two racks."""

    async def snapshot(self, topics: tuple[str, ...], age_ms_max: int) -> ClusterView:
        return ClusterView.of(
            {t: [[("az1", "az2")[p // 2]] for p in range(n)] for t, n in SHOP_COUNTS.items() if t in topics}
        )


async def recorded(*rebalances: Sequence[Thread], log: Log | None = None) -> list[dict[str, Any]]:
    """The events of rebalances of these threads, a second apart."""
    app = App(attested=True, cluster=Racked(), log=log, num_standby_replicas=1)
    records = []
    for generation, threads in enumerate(rebalances, 1):
        order = app.order(generation, *threads, deadline=time.monotonic() + 5)
        planned = await app.planner.plan(order)
        at_ms, inputs = generation * 1_000, planned.inputs
        assert inputs is not None
        records.append({"group": "shop", "generation": generation, "decided_at_ms": at_ms, "inputs": pack(inputs)})
    return records


def outcomes(records: list[dict[str, Any]], weights: Weights | None = None) -> dict[str, list[PolicyOutcome]]:
    by_policy: dict[str, list[PolicyOutcome]] = {name: [] for name in POLICIES}
    for outcome in replay_task_policies(records, POLICIES, weights or Weights()):
        by_policy[outcome.policy].append(outcome)
    return by_policy


@pytest.mark.slow
async def test_rebalances_of_the_same_members_are_one_and_each_policy_goes_on_from_its_own_plan() -> None:
    by_policy = outcomes(await recorded((A, B), (A, B), (A, B, C), (A, B, C)))
    for policy, steps in by_policy.items():
        assert [step.members for step in steps] == [2, 3], policy
        assert [step.partitions for step in steps] == [8, 8], policy
        assert steps[0].moved == 0, "nothing was anywhere before"
        assert 0 < steps[1].moved <= 4, "only what the newcomer gets"
        assert not any(step.failed for step in steps), policy


async def test_traffic_is_by_weight_and_only_what_is_read_across_racks() -> None:
    for steps in outcomes(await recorded((A, B)), WEIGHTS).values():
        (step,) = steps
        assert step.cross_bytes_per_s <= 1_000.0 * step.cross_rack
        assert step.cross_share == step.cross_bytes_per_s / 4_000.0


@pytest.mark.slow
async def test_a_rebalance_that_cannot_be_planned_is_a_failure_and_takes_nothing_away() -> None:
    broken = {"group": "shop", "generation": 2, "decided_at_ms": 2_000, "inputs": b"no inputs"}
    first, last = await recorded((A, B), (A, B, C))
    last |= {"generation": 3, "decided_at_ms": 3_000}
    for steps in outcomes([first, broken, last]).values():
        assert [bool(step.failed) for step in steps] == [False, True, False]
        assert steps[2].moved > 0, "it continues from the first plan"


@pytest.mark.slow
async def test_an_unreadable_record_between_equal_rebalances_counts_none_of_them_twice() -> None:
    broken = {"group": "shop", "generation": 2, "decided_at_ms": 2_000, "inputs": b"no inputs"}
    first, again = await recorded((A, B), (A, B))
    again |= {"generation": 3, "decided_at_ms": 3_000}
    for steps in outcomes([first, broken, again]).values():
        assert [step.generation for step in steps] == [first["generation"], 2]


async def test_without_the_ends_of_changelogs_no_policy_can_be_followed() -> None:
    log = Log()
    log.failure = "no answer"
    for steps in outcomes(await recorded((A, B), log=log)).values():
        assert "ends of changelogs" in steps[0].failed
