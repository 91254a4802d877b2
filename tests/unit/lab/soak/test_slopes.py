"""Lines through samples of the soak: what is growth, what is noise, and what is too short to say."""

import os
import random

from tests.lab.soak.slopes import Sample, sampled, slopes, warm_up_s

HOUR_S = 3_600


def samples(run_s: float, mb_per_hour: float = 0.0, noise_mb: float = 0.5, files: int = 30) -> list[Sample]:
    dice = random.Random(7)
    return [
        Sample(at, 80 + mb_per_hour * at / HOUR_S + dice.uniform(-noise_mb, noise_mb), files, 12)
        for at in range(0, int(run_s), 10)
    ]


def test_what_stays_flat_holds() -> None:
    lines = slopes(samples(HOUR_S), HOUR_S)
    assert [(line.flat, line.judged) for line in lines] == [(True, True)] * 3


def test_memory_that_grows_faster_than_its_limit_is_a_violation() -> None:
    memory, *others = slopes(samples(HOUR_S, mb_per_hour=4), HOUR_S)
    assert not memory.flat
    assert abs(memory.per_hour - 4) < memory.noise_per_hour
    assert all(line.flat for line in others)


def test_a_file_that_is_left_open_every_ten_minutes_is_a_violation() -> None:
    leaking = [Sample(s.at_s, s.resident_mb, s.open_files + int(s.at_s // 600), s.threads) for s in samples(HOUR_S)]
    assert [line.flat for line in slopes(leaking, HOUR_S)] == [True, False, True]


def test_noise_alone_is_no_growth() -> None:
    memory = slopes(samples(HOUR_S / 2, noise_mb=40), HOUR_S / 2)[0]
    assert memory.flat
    assert memory.noise_per_hour > memory.per_hour_max


def test_a_steep_start_is_left_out() -> None:
    run = samples(HOUR_S)
    warm = warm_up_s(HOUR_S)
    starting = [Sample(s.at_s, min(80, 20 + s.at_s), s.open_files, s.threads) if s.at_s < warm else s for s in run]
    assert slopes(starting, HOUR_S)[0].flat


def test_a_short_run_is_shown_and_not_judged() -> None:
    memory = slopes(samples(180, mb_per_hour=500), 180)[0]
    assert memory.per_hour > 100
    assert (memory.judged, memory.flat) == (False, True)
    assert slopes(samples(40), 40) == []


def test_this_process_can_be_sampled() -> None:
    now = sampled(os.getpid(), 0)
    assert now.resident_mb > 1
    assert now.open_files > 0
    assert now.threads > 0
