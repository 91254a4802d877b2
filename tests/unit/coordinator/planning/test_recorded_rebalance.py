"""Recorded rebalances from elsewhere: nonsense and bombs end in UnreadableRoundError."""

import zlib

import pytest

from bellwether_kafka.coordinator.planning import UnreadableRebalanceError, unpack


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"no zlib", "damaged"),
        (zlib.compress(b"[" * 100_000), "nested"),
        (zlib.compress(b'{"record": "TaskId", "of": []}'), "damaged"),
        (zlib.compress(b'{"record": "TaskId", "of": "x"}'), "damaged"),
        (zlib.compress(b'{"record": "TaskId", "of": {"other": 1}}'), "damaged"),
        (zlib.compress(b'{"record": "Popen", "of": {}}'), "damaged"),
        (zlib.compress(b'{"a": 1, "b": 2}'), "damaged"),
        (zlib.compress(b"9" * 5_000), "not JSON"),
        (zlib.compress(b"1"), "no rebalance"),
        (zlib.compress(b"1")[:-2], "no rebalance"),
    ],
    ids=range(10),
)
def test_what_is_no_rebalance_is_refused_in_a_clause(data: bytes, message: str) -> None:
    with pytest.raises(UnreadableRebalanceError, match=message):
        unpack(data)


@pytest.mark.slow
def test_a_rebalance_of_too_many_values_is_refused() -> None:
    with pytest.raises(UnreadableRebalanceError, match="more than 5,000,000 values"):
        unpack(zlib.compress(b"[" + b"[]," * 6_000_000 + b"[]]"))
