"""Each policy plans a whole recording with a memory of its own."""

from dataclasses import asdict
from pathlib import Path

import pytest

from bellwether_kafka.assignors.consumer import POLICIES
from bellwether_kafka.assignors.shared import Rule, Weights
from bellwether_kafka.coordinator.replay import (
    History,
    HistoryError,
    PolicyOutcome,
    read_history,
    replay_policies,
    summary,
    write_history,
)
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.plans import LOADS, SCHEMAS, recorded_consumers, traffic


def replayed(history: History) -> list[PolicyOutcome]:
    """Every policy over every group."""
    weights = history.weights()
    return [
        replay for snapshots in history.snapshots.values() for replay in replay_policies(snapshots, POLICIES, weights)
    ]


@pytest.mark.slow
def test_a_recording_is_replayed_under_every_policy(tmp_path: Path) -> None:
    path = tmp_path / "history"
    assert write_history(path, [*recorded_consumers([3, 4, 4, 3]), traffic(LOADS), b"junk"]) == 6
    history = read_history(path)
    assert history.refused == {"not an event": 1}
    assert history.weights().of[TopicPartition("t", 0)] == 900
    outcomes = replayed(history)
    # The third recorded rebalance only hands out what the second left pending.
    assert len(outcomes) == 3 * len(POLICIES)
    rows = {row["policy"]: row for row in summary(outcomes, 0.0)}
    assert all(row["failed"] == 0 for row in rows.values())
    assert rows["load-aware"]["imbalance"] < 1.1 < rows["sticky-min-churn"]["imbalance"]


def test_the_recorded_policy_replays_to_what_it_did() -> None:
    values = recorded_consumers([2, 3])
    history_snapshots = [SCHEMAS.decode(value)[1] for value in values]
    outcomes = list(replay_policies(history_snapshots, ["sticky-min-churn"], Weights()))
    assert [(o.members, o.moved, o.rebalances) for o in outcomes] == [(2, 0, 1), (3, 4, 2)]


def test_orders_on_placement_that_were_in_force_bind_every_policy_but_a_brokers_own() -> None:
    (snapshot,) = [SCHEMAS.decode(value)[1] for value in recorded_consumers([3], racks=True)]
    banned = {**snapshot, "rules": [asdict(Rule("ban", "*", "rack:az1"))]}
    names = ("rack-first", "broker-uniform")
    free, bound = (list(replay_policies([recorded], names, Weights())) for recorded in (snapshot, banned))
    assert [slot.cross_rack for slot in free] == [0, free[1].cross_rack]
    assert bound[0].cross_rack >= 4, "nobody in az1 may read what is there"
    assert bound[1] == free[1]


def test_racks_decide_where_loads_are_even() -> None:
    snapshots = [SCHEMAS.decode(value)[1] for value in recorded_consumers([3], racks=True)]
    weights = Weights({TopicPartition("t", p): 1e6 for p in range(12)})
    outcomes = list(replay_policies(snapshots, ["sticky-min-churn", "rack-first"], weights))
    other, best = summary(outcomes, price_per_gb=0.5)
    assert (best["cross_rack"], best["cost_per_day"]) == (0, 0.0)
    # A megabyte per second is 86.4 GB a day.
    assert other["cost_per_day"] == pytest.approx(other["cross_rack"] * 86.4 * 0.5)
    assert other["cross_rack"] > 0


def test_members_that_cannot_be_read_do_not_end_a_replay() -> None:
    (snapshot,) = [SCHEMAS.decode(value)[1] for value in recorded_consumers([2])]
    snapshot["members"][0]["metadata"] = b"\x00"
    (outcome,) = replay_policies([snapshot], ["kafka"], Weights())
    assert (outcome.failed, outcome.members, outcome.partitions) == ("", 2, 12)


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"", "holds no snapshot"), (b"\x00\x00", "no sane length"), (b"\x00\x00\x00\x05ab", "ends within a record")],
)
def test_a_damaged_history_is_refused_with_a_remedy(tmp_path: Path, data: bytes, text: str) -> None:
    path = tmp_path / "history"
    path.write_bytes(data)
    with pytest.raises(HistoryError, match=text):
        read_history(path)
    with pytest.raises(HistoryError, match="cannot be read"):
        read_history(tmp_path / "none")
