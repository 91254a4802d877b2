"""How many tests a check with many cases is: seeds of a property, and cases that are short."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import pytest

Check = Callable[..., None]


def seeds(count: int) -> list[object]:
    """Returns parameters for `pytest.mark.parametrize`, of which all after the first eighth are slow."""
    return [pytest.param(seed, marks=[pytest.mark.slow] if 8 * seed >= count else []) for seed in range(count)]


def together(
    argument: str, cases: Mapping[str, Any], parts: int = 1, quick: int | None = None
) -> Callable[[Check], Any]:
    """As `pytest.mark.parametrize`, for cases by name that take less time than the two milliseconds that a test costs
    on its own. They are one test, or `parts`, of which all after the first `quick` are slow. All that fail are named.
    """
    names = [*cases]

    def decorate(check: Check) -> Any:
        @wraps(check)
        def run(*, part: int, **fixtures: Any) -> None:
            failed, mine = [], names[part::parts]
            for name in mine:
                try:
                    check(**fixtures, **{argument: cases[name]})
                except Exception as error:  # noqa: BLE001 - whatever a check raises
                    error.add_note(name)
                    failed.append(error)
            if failed:
                raise ExceptionGroup(f"{len(failed)} of {len(mine)} cases", failed)

        others = [p for p in inspect.signature(check).parameters.values() if p.name != argument]
        own = inspect.Parameter("part", inspect.Parameter.KEYWORD_ONLY)
        setattr(run, "__signature__", inspect.Signature([*others, own]))  # noqa: B010 - functions declare none
        ring_1 = range(parts if quick is None else quick, parts)
        marked = [pytest.param(part, marks=[pytest.mark.slow] if part in ring_1 else []) for part in range(parts)]
        return pytest.mark.parametrize("part", marked)(run)

    return decorate
