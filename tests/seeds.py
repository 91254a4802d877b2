"""Seeds of a test of one property: a quarter of them in `make quick`, all of them in `make test`."""

import pytest


def seeds(count: int) -> list[object]:
    """Returns parameters for `pytest.mark.parametrize`, of which all after the first quarter are slow."""
    return [pytest.param(seed, marks=[pytest.mark.slow] if 4 * seed >= count else []) for seed in range(count)]
