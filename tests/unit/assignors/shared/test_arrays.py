"""Idioms on integer arrays: codes of pairs, rows of different lengths, runs."""

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import NOBODY, Ragged, lookup, offsets, ordinals, task_code


def test_codes_of_pairs_ascend_by_process_then_task_and_come_apart_again() -> None:
    process, task = np.array([0, 0, 2], dtype=np.int32), np.array([1, 4, 0], dtype=np.int32)
    code = task_code(process, task, 5)
    assert code.tolist() == [1, 4, 10]
    assert [part.tolist() for part in np.divmod(code, 5)] == [[0, 0, 2], [1, 4, 0]]


def test_codes_are_as_wide_as_the_largest_groups_need() -> None:
    code = task_code(np.array([100_000], dtype=np.int32), np.array([7], dtype=np.int32), 1_000_000)
    assert code.tolist() == [100_000_000_007]


@pytest.mark.parametrize(("values", "missing"), [([5, 6], NOBODY), ([True, False], False)])
def test_nobody_is_answered_for(values: list[int], missing: int) -> None:
    answers = lookup(np.array(values), np.array([1, NOBODY, 0]), missing)
    assert answers.tolist() == [values[1], missing, values[0]]
    assert answers.dtype == np.array(values).dtype


def test_rows_of_different_lengths() -> None:
    ragged = Ragged.of_rows([[3, 4], [], [9]])
    assert [ragged[row].tolist() for row in range(3)] == [[3, 4], [], [9]]
    assert ragged.row.tolist() == [0, 0, 2]
    assert ragged.span(2) == slice(2, 3)
    assert ragged.codes(10).tolist() == [3, 4, 29]
    again = Ragged.of_codes(ragged.codes(10), 10, 3)
    assert (again.values.tolist(), again.first.tolist()) == (ragged.values.tolist(), ragged.first.tolist())


def test_no_rows_and_no_tasks() -> None:
    assert Ragged.of_rows([]).first.tolist() == [0]
    assert Ragged.of_codes(np.zeros(0, dtype=np.int64), 0, 2).first.tolist() == [0, 0, 0]


def test_runs() -> None:
    assert offsets([2, 0, 3]).tolist() == [0, 2, 2, 5]
    assert ordinals(np.array([2, 0, 3])).tolist() == [0, 1, 0, 1, 2]
