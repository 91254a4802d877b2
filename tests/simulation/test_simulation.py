"""Many seeds, each a group of its own with faults of its own; BELLWETHER_SIM_SEEDS raises their number."""

import pytest

from bellwether_kafka.assignors import shared
from tests.simulation import SEEDS
from tests.simulation.hostile import accept_everything
from tests.simulation.run import run_seed, run_seeds, table

BATCH = 4


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_every_promise_is_kept(first: int) -> None:
    result = run_seeds(first, min(BATCH, SEEDS - first))
    assert not result.failed, table(result)
    assert result.plans["own"] > 0
    assert sum(result.injected.values()) > BATCH


def test_a_seed_runs_the_same_scenario_twice() -> None:
    first, second = run_seed(7)[0], run_seed(7)[0]
    assert first.reported == second.reported


def test_a_hostile_member_that_stays_takes_its_share_and_no_more() -> None:
    result = run_seeds(0, BATCH, lasting_hostile=True)
    assert not result.failed, table(result)


def test_a_topic_that_is_deleted_while_a_leader_returns_is_not_consumed_for_ever() -> None:
    assert run_seed(359, lasting_hostile=True)[1] == ""


def test_the_rule_on_claims_is_what_protects_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "check_claims", shared.check_claims)  # put back afterwards
    accept_everything()
    assert any(run_seed(seed, lasting_hostile=True)[1] for seed in range(25))
