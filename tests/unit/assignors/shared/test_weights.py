"""From estimates to the weight of every partition."""

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import Weight, Weights, heaviest
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.consumers import cluster_of

RATE_MAX = 1000000000000000.0
SKEW_MS_MAX = 300_000

CLUSTER = cluster_of({"a": 3, "b": 3, "c": 2})
ALL = np.ones(8, dtype=np.bool_)
NOW_MS = 1_000_000


def weights(text: str) -> Weights:
    """From "a0=5 b2=7"."""
    pairs = (item.split("=") for item in text.split())
    return Weights({TopicPartition(name[0], int(name[1:])): float(value) for name, value in pairs})


def test_the_edges_of_what_is_usable_are_usable() -> None:
    estimates = {
        TopicPartition("a", 0): Weight(0.0, NOW_MS - 100),
        TopicPartition("a", 1): Weight(3.0, NOW_MS + SKEW_MS_MAX),
    }
    usable, refused = Weights.usable(estimates, NOW_MS, 100)
    assert usable.of == {TopicPartition("a", 0): 0.0, TopicPartition("a", 1): 3.0}
    assert refused == {}


def test_what_is_refused_is_counted_by_reason() -> None:
    estimates = {
        TopicPartition("a", 0): Weight(-0.1, NOW_MS),
        TopicPartition("a", 1): Weight(float("inf"), NOW_MS),
        TopicPartition("b", 0): Weight(1.0, NOW_MS - 101),
        TopicPartition("b", 1): Weight(1.0, NOW_MS + SKEW_MS_MAX + 1),
        TopicPartition("c", 0): Weight(1.0, NOW_MS),
    }
    usable, refused = Weights.usable(estimates, NOW_MS, 100)
    assert usable.of == {TopicPartition("c", 0): 1.0}
    assert refused == {"old": 1, "from the future": 1, "absurd": 2}


def test_rates_whose_sum_is_no_number_are_refused() -> None:
    """A finite rate near the largest number was used: its group's weights were all not a number, or all zero."""
    estimates = {TopicPartition("a", p): Weight(1e308, NOW_MS) for p in range(3)}
    estimates |= {TopicPartition("b", p): Weight(2.0, NOW_MS) for p in range(3)}
    usable, refused = Weights.usable(estimates, NOW_MS, 100)
    assert refused == {"absurd": 3}
    assert np.isfinite(usable.dense(CLUSTER, ALL)[0]).all()
    largest = {partition: Weight(RATE_MAX, NOW_MS) for partition in estimates}
    dense, _ = Weights.usable(largest, NOW_MS, 100)[0].dense(CLUSTER, ALL)
    assert dense.tolist() == pytest.approx([1.0] * 8)


def test_the_mean_of_what_counts_is_one() -> None:
    dense, reason = weights("a0=2 a1=4 a2=6 b0=10 b1=10 b2=10 c0=100 c1=100").dense(CLUSTER, np.arange(8) < 6)
    assert reason == ""
    assert dense[:6].tolist() == pytest.approx([2 / 7, 4 / 7, 6 / 7, 10 / 7, 10 / 7, 10 / 7])
    assert dense[6:].tolist() == pytest.approx([100 / 7, 100 / 7])


def test_partitions_without_a_weight_weigh_what_others_of_their_topic_do_else_what_most_do() -> None:
    dense, reason = weights("a0=2 a2=4 b0=10 b1=30").dense(CLUSTER, ALL)
    assert reason == ""
    raw = [2, 3, 4, 10, 30, 20, 7, 7]  # c: the median of 2, 4, 10 and 30
    assert dense.tolist() == pytest.approx([value * 8 / sum(raw) for value in raw])


def test_fewer_than_half_of_the_weights_are_not_used() -> None:
    few, reason = weights("a0=2 a1=4 a2=6").dense(CLUSTER, ALL)
    assert few.tolist() == [1.0] * 8
    assert reason == "weights of 3 of 8 partitions are known, so all weigh the same"
    assert weights("a0=2 a1=4 a2=6 b0=1").dense(CLUSTER, ALL)[1] == ""
    assert weights("a0=2 a1=4 a2=6").dense(CLUSTER, np.arange(8) < 6)[1] == ""
    assert weights("").dense(CLUSTER, np.zeros(8, dtype=np.bool_))[1].startswith("weights of 0 of 0")


def test_where_nothing_is_written_all_weigh_the_same() -> None:
    dense, reason = weights("a0=0 a1=0 a2=0 b0=0 b1=0 b2=0 c0=0 c1=0").dense(CLUSTER, ALL)
    assert dense.tolist() == [1.0] * 8
    assert reason == "nothing is written to any partition, so all weigh the same"


def test_absurd_weights_are_clamped_to_a_thousand_times_the_median_and_counted() -> None:
    some = weights("a0=1 a1=1 a2=1 b0=1 b1=1 b2=1 c0=5000 c1=0.0001")
    dense, _ = some.dense(CLUSTER, ALL)
    assert dense[6] == pytest.approx(1_000 * dense[0])
    assert dense[7] == pytest.approx(dense[0] / 1_000)
    assert some.clamped() == 2
    assert weights("a0=1 a1=1 a2=1 c0=1000 c1=0.001").clamped() == 0
    assert weights("").clamped() == 0


def test_where_most_weigh_nothing_the_mean_is_the_middle() -> None:
    some = weights("a0=0 a1=0 a2=0 b0=0 b1=8 b2=0 c0=0 c1=0")
    dense, reason = some.dense(CLUSTER, ALL)
    assert reason == ""
    assert dense[4] == pytest.approx(8_000 * dense[0])
    assert some.clamped() == 7


def test_the_error_of_some_partitions_follows_from_those_of_their_estimates() -> None:
    errors = {"a0": 0.3, "a1": 0.4, "a2": 0.0, "b0": 9.0, "c0": 1.0}
    estimates = {
        TopicPartition(name[0], int(name[1:])): Weight(value, NOW_MS, errors.get(name))
        for name, value in {"a0": 2.0, "a1": 4.0, "a2": 4.0, "b0": 5.0, "b1": 5.0, "c0": 0.0, "c1": 0.0}.items()
    }
    usable, _ = Weights.usable(estimates, NOW_MS, 100)
    topics = CLUSTER.topic_of()
    assert usable.error_in(CLUSTER, topics == 0) == pytest.approx(0.5 / 10)
    assert usable.error_in(CLUSTER, topics == 1) is None, "of one it is not known"
    assert usable.error_in(CLUSTER, topics == 2) is None, "a sum of 0 has no relative error"
    assert Weights(usable.of, error=0.2).error_in(CLUSTER, ALL) == 0.2


def test_estimates_of_partitions_that_do_not_exist_are_left_out() -> None:
    raw = weights("a0=1 a3=5 d0=7").raw(CLUSTER)
    assert raw[0] == 1.0
    assert np.isnan(raw[1:]).all()


def test_the_heaviest_come_first_and_equals_by_name() -> None:
    some = weights("b1=5 a2=9 c0=5 b0=5 a0=1")
    names = [f"{topic}{partition}" for (topic, partition), _ in heaviest(some, 4)]
    assert names == ["a2", "b0", "b1", "c0"]
