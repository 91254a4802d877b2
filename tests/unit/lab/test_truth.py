"""The comparison with the truth notices what is wrong, and takes nothing for wrong that may have been true."""

from dataclasses import replace
from typing import Any

import pytest

from tests.lab.truth.claims import Claim, Judge, now, of_metrics, of_moment, of_overview
from tests.lab.truth.reader import Sample

PLACES = [("t", 0), ("t", 1)]
AT = 50.0


def sample(second: int, **changed: Any) -> Sample:
    """Two members read ten records a second and lag by five."""
    ends = dict.fromkeys(PLACES, 10 * second)
    committed = {place: max(0, end - 5) for place, end in ends.items()}
    undisturbed = Sample(second, second + 0.5, "Stable", frozenset("ab"), frozenset(), committed, ends)
    return replace(undisturbed, **changed)


UNDISTURBED = [sample(second) for second in range(100)]


def judged(claim: Claim, samples: list[Sample] = UNDISTURBED) -> str | None:
    return Judge({"g": samples}, {"g": PLACES}).wrong(claim)


@pytest.mark.parametrize(
    ("what", "right", "wrong"),
    [
        ("members", 2, 0),
        ("members", 2, 3),
        ("state", "stable", "empty"),
        ("leading", False, True),
        ("assigned_by", "a member", "nobody"),
        ("assigned_by", "unknown", "bellwether"),
        ("lag", (10, 0), (1_000, 0)),
        ("problem", "ok", "nobody_reads"),
        ("problem", "waits", "stalled"),
        ("problem", "not_seen", "wrong_assignment"),
    ],
)
def test_what_is_wrong_is_noticed(what: str, right: Any, wrong: Any) -> None:
    assert judged(now("page", "g", what, right, AT)) == ""
    assert judged(now("page", "g", what, wrong, AT))


def test_offsets_are_those_of_their_moment() -> None:
    for offset, fits in ((480, True), (300, False)):
        assert (judged(of_moment("page", "g", "end", (PLACES[0], offset), AT)) == "") is fits
        assert (judged(of_moment("page", "g", "committed", (PLACES[0], offset - 5), AT)) == "") is fits


def test_what_the_reader_has_not_seen_is_not_decided() -> None:
    gap = [sample for sample in UNDISTURBED if not 20 < sample.begun < 60]
    assert judged(now("page", "g", "members", 3, AT), gap) is None
    assert judged(now("page", "g", "members", 0, AT), gap), "members do not go and come back within a gap"
    assert judged(now("page", "g", "members", 2, 1_000.0)) is None


def test_a_partition_of_a_silent_broker_is_judged_by_what_it_says_later() -> None:
    only = {PLACES[1]: 0}
    paused = [replace(sample, ends=only) if 45 < sample.begun < 80 else sample for sample in UNDISTURBED]
    for offset, fits in ((480, True), (790, True), (300, False), (900, False)):
        assert (judged(of_moment("page", "g", "end", (PLACES[0], offset), AT), paused) == "") is fits


def test_a_group_that_ended_may_be_reported_to_have_ended() -> None:
    assert judged(now("page", "g", "exists", False, AT))
    assert (
        judged(
            now("page", "g", "exists", False, AT),
            [*UNDISTURBED[:40], *(sample(s, state="Dead") for s in range(40, 99))],
        )
        == ""
    )


def test_a_series_that_vanishes_is_wrong_and_one_that_is_unknown_is_not() -> None:
    judge = Judge({"g": UNDISTURBED}, {"g": PLACES})
    line = 'bellwether_lag_records{{group="g"}} {}\nbellwether_lag_timestamp_seconds{{group="g"}} 50.0\n'
    first = list(of_metrics(line.format("10.0"), ["g"], AT))
    assert {claim.what for claim in first} == {"lag", "series"}
    assert [judge.wrong(claim) for claim in first[-1:]] == [""]
    (unknown,) = of_metrics(line.format("NaN"), ["g"], AT)
    assert judge.wrong(unknown) == ""
    (gone,) = of_metrics("", ["g"], AT)
    assert "vanished" in (judge.wrong(gone) or "")


def test_a_group_that_is_left_out_is_reported_not_to_be_there() -> None:
    assert [(claim.what, claim.value) for claim in of_overview("page", [], ["g"], AT)] == [("exists", False)]
