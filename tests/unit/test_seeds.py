"""Cases that are one test are all tried, and all that fail are named."""

from pathlib import Path

import pytest

from tests.seeds import together

NUMBERS = {"one": 1, "two": 2, "three": 3}


@together("number", NUMBERS, parts=2)
def test_a_check_may_have_fixtures(number: int, tmp_path: Path) -> None:
    assert tmp_path.joinpath(str(number)).parent.is_dir()


def test_parts_have_all_cases_between_them() -> None:
    tried = []

    def check(number: int) -> None:
        tried.append(number)

    made = together("number", NUMBERS, parts=2)(check)
    made(part=0)
    made(part=1)
    assert sorted(tried) == [1, 2, 3]


def test_all_cases_that_fail_are_named() -> None:
    def small(number: int) -> None:
        assert number < 2

    with pytest.raises(ExceptionGroup, match="2 of 3 cases") as failed:
        together("number", NUMBERS)(small)(part=0)
    assert [error.__notes__ for error in failed.value.exceptions] == [["two"], ["three"]]


def test_parts_after_the_first_few_are_of_the_next_ring() -> None:
    def check(number: int) -> None: ...

    (parametrized,) = together("number", NUMBERS, parts=3, quick=1)(check).pytestmark
    assert [bool(part.marks) for part in parametrized.args[1]] == [False, True, True]
