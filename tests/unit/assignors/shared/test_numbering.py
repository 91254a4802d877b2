"""Numbers for codes, with a table and without."""

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import numbering


def test_codes_too_many_for_a_table_are_numbered_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = np.array([7, 3, 7, 9, 3, 0], dtype=np.int64)
    short = numbering.numbered(codes, 10)
    monkeypatch.setattr(numbering, "_DIRECT", 0)
    for one, other in zip(short, numbering.numbered(codes, 10), strict=True):
        assert one.tolist() == other.tolist()
