"""The model of the group against a real broker: the same requests to both, every answer and every listing compared.

`make conformance` has more seeds and a broker of 3.9.
"""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.interop.support.brokers import KafkaCluster
from tests.kit.membership import HashOrder
from tests.simulation.conformance.duel import MismatchError
from tests.simulation.conformance.scripts import (
    SIZE_MAX,
    TIMED,
    Script,
    by_hand,
    drawn,
    full_group,
    growing_table,
    play,
)

SEEDS = range(8)


def answers(kafka: KafkaCluster, name: str, script: Script) -> int:
    return play(
        kafka.bootstrap, f"duel-{name}", script, kafka.initial_rebalance_delay_ms / 1000, HashOrder.JAVA
    ).answers


def test_the_measured_situations(kafka: KafkaCluster) -> None:
    assert answers(kafka, "by-hand", by_hand) > 60


def test_a_table_of_members_never_shrinks(kafka: KafkaCluster) -> None:
    assert answers(kafka, "growing-table", growing_table) > 110


def test_members_that_come_late_into_a_full_group_are_refused() -> None:
    limit = {"group.max.size": str(SIZE_MAX)}
    with KafkaCluster(nodes=1, racks=(None,), initial_rebalance_delay_ms=0, properties=limit) as small:
        duel = play(small.bootstrap, "full-group", full_group, 0.0, HashOrder.JAVA, SIZE_MAX)
    assert duel.answers > 20


@pytest.mark.proof  # the rebalances before a timer must be quicker than it
def test_timers_of_the_broker(kafka: KafkaCluster) -> None:
    """Each waits some seconds for its timer, all at once."""
    with ThreadPoolExecutor(len(TIMED)) as threads:
        runs = [threads.submit(answers, kafka, script.__name__, script) for script in TIMED]
        assert all(run.result() > 8 for run in runs)


def test_scripts_by_seed(kafka: KafkaCluster) -> None:
    done = Counter[str]()
    assert sum(answers(kafka, f"seed-{seed}", drawn(seed, done)) for seed in SEEDS) > 20 * len(SEEDS)
    assert len(done) == 6, done


def test_a_difference_is_noticed(kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.simulation.brokers.admission.SESSION_MS", (1_000, 1_800_000))
    with pytest.raises(MismatchError, match="MISMATCH"):
        answers(kafka, "other-law", by_hand)
