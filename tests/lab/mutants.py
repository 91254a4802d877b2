"""Do the tests notice when the code is wrong? Each of many small changes to it should fail a test.

    python -m tests.lab.mutants --sample 300 --seed 1 [protocol assignors/shared ...]

One run of the tests records which functions each test calls: unit tests of all folders, vectors, properties, and the
simulation with 20 seeds. Then each mutant meets the tests that call its function, those of its own directory first,
then other unit tests, then the rest, in a forked process where the changed source is what Python imports: no file is
written. Survivors are printed; equivalent_mutants.toml lists those that no test could notice, each with the reason.

mutmut (3.8) and cosmic-ray (8.7) do not fit: mutmut takes the name of a module from the path of its file, which is not
its name where packages are reached through symlinks, and leaves decorated functions alone; cosmic-ray edits files in
place and starts the tests anew for each mutant. Neither draws a sample.
"""

import argparse
import functools
import gc
import hashlib
import importlib
import json
import multiprocessing
import os
import random
import resource
import signal
import sys
import threading
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

import pytest

from tests.lab.mutations import MODULE, Mutant, mutants_of

ROOT = Path(__file__).resolve().parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.toml")
# Where mutants are drawn from: all folders of the product but `pipeline`, whose jobs are tested with Spark.
PARTS = ("protocol", "assignors", "coordinator")
# The tests of rings 0 and 1, in shares of about the same work, each of which is recorded in a process of its own.
SURVEYS = (
    ("tests/unit/coordinator",),
    ("tests/unit", "tests/vectors", "tests/properties", "tests/simulation", "--ignore=tests/unit/coordinator"),
)
SIMULATED_SEEDS = 20
RECORDED = ROOT / ".cache" / "mutants.json"  # which tests call what, until a file of the product or the tests changes
QUIET = (
    *("-x", "-q", "--tb=no", "--no-header", "--no-summary", "-p", "no:cacheprovider"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # hypothesis is imported already
)
# What the product and its tests import from others, before the first fork.
THIRD_PARTIES = ("numpy", "hypothesis", "kafka", "pydantic_settings", "structlog", "yaml", "fastavro")
# A mutant that hangs is noticed, too: it gets so many times as long as the code as it is.
PATIENCE = 5
LEAST_S = 30.0
LEAST_PERCENT = 85  # must be noticed or be equivalent
FAILED_MAX = 5  # tests that are too slow while each call is recorded
FATES = ("killed", "hung", "equivalent", "survived")
MEMORY_BYTES = 4 << 30
ANY = ""
FORK = multiprocessing.get_context("fork")

Equivalent = tuple[str, str, str, str]  # file, function, line before, line after
EVERYTHING = ("", MODULE)
Called = dict[tuple[str, str], dict[str, float]]  # (path, function): what calls it, and how long that takes


def main() -> int:
    options = _options()
    for name in THIRD_PARTIES:
        importlib.import_module(name)
    os.environ["BELLWETHER_SIM_SEEDS"] = str(SIMULATED_SEEDS)
    called = _called()
    paths = sorted(str(file.relative_to(ROOT)) for part in options.parts for file in (ROOT / part).rglob("*.py"))
    mutants = [mutant for path in paths for mutant in mutants_of(ROOT, path)]
    drawn = random.Random(options.seed).sample(mutants, min(options.sample, len(mutants)))
    equivalent = _equivalents()
    stale = [entry for entry in equivalent - _met(equivalent, mutants) if _is_stale(entry[0], paths)]
    for path, function, before, after in stale:
        print(f"listed as equivalent, but not there any more: {path} {function}: {before} {after}")
    tally: dict[str, Counter[str]] = defaultdict(Counter)
    trials = [(mutant, callers_of(mutant.path, mutant.function, called)) for mutant in drawn]
    with _forked(os.cpu_count()) as pool:
        for mutant, result in zip(drawn, pool.map(_outcome, trials), strict=True):
            outcome = "equivalent" if result == "survived" and _met(equivalent, [mutant]) else result
            tally[str(Path(mutant.path).parent)][outcome] += 1
            if outcome == "survived":
                print(mutant, flush=True)
    return int(_report(tally, len(mutants), options) or bool(stale))


def _forked(workers: int | None) -> ProcessPoolExecutor:
    """Processes that, unlike those of a Pool, may have children: some tests start processes."""
    return ProcessPoolExecutor(workers, mp_context=FORK)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Small changes to the code that no test notices.")
    parser.add_argument("parts", nargs="*", default=list(PARTS), help="directories of the product")
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def _equivalents() -> set[Equivalent]:
    """Where an entry names no `after`, any line may be there. None counts without a reason."""
    entries = tomllib.loads(EQUIVALENT.read_text("utf-8"))["mutant"]
    return {(e["file"], e["function"], e["before"], e.get("after", ANY)) for e in entries if e["reason"]}


def _met(equivalent: set[Equivalent], mutants: Iterable[Mutant]) -> set[Equivalent]:
    """The entries that some of these mutants are."""
    each = ((m.path, m.function, m.before, after) for m in mutants for after in (m.after, ANY))
    return equivalent.intersection(each)


def _is_stale(path: str, paths: Sequence[str]) -> bool:
    """An entry without a mutant, where its file was read or is gone."""
    return path in paths or not (ROOT / path).exists()


def _report(tally: dict[str, Counter[str]], total: int, options: argparse.Namespace) -> int:
    everything = sum(tally.values(), Counter())
    for name, fates in [*sorted(tally.items()), ("all", everything)]:
        drawn = fates.total()
        good = 100 * (drawn - fates["survived"]) / drawn
        counts = ", ".join(f"{fates[outcome]} {outcome}" for outcome in FATES)
        print(f"{name:<32} {good:5.1f} % of {drawn:4}: {counts}")
    print(f"{everything.total()} drawn from {total} with seed {options.seed}")
    return int(100 * (everything.total() - everything["survived"]) < LEAST_PERCENT * everything.total())


class _Survey:
    """Which functions of the product each test calls."""

    def __init__(self) -> None:
        self.calls: Called = defaultdict(dict)
        self.failed: dict[str, str] = {}
        self._real_path = functools.lru_cache(maxsize=None)(_path_in_product)

    def pytest_collection_finish(self) -> None:
        caches = [c for c in gc.get_objects() if isinstance(c, functools._lru_cache_wrapper)]
        self.caches = [cache for cache in caches if cache.__module__.startswith("bellwether_kafka.")]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed[report.nodeid] = report.longreprtext.splitlines()[-1]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        for cache in self.caches:  # else only the first test would seem to call these functions
            cache.cache_clear()
        codes: set[CodeType] = set()
        begin = time.perf_counter()
        profile: Callable[..., None] = lambda frame, _event, _argument: codes.add(frame.f_code)  # noqa: E731
        threading.setprofile(profile)
        sys.setprofile(profile)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            taken_s = time.perf_counter() - begin
            self.calls[EVERYTHING][item.nodeid] = taken_s
            for code in codes:
                path = self._real_path(code.co_filename)
                if path:
                    self.calls[path, code.co_qualname.split(".<locals>")[0]][item.nodeid] = taken_s


def _path_in_product(file: str) -> str:
    path = Path(file).resolve()
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) and "tests" not in path.parts else ""


def _called() -> Called:
    """What was recorded of these very files, or else is recorded now, and takes minutes."""
    files = sorted(file for folder in (*PARTS, "tests") for file in (ROOT / folder).rglob("*.py"))
    state = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    if RECORDED.exists() and (kept := json.loads(RECORDED.read_text("utf-8")))["state"] == state:
        times = [(test, taken_s) for test, taken_s in kept["tests"]]
        return {(path, function): dict(times[n] for n in by) for path, function, by in kept["called"]}
    called: Called = defaultdict(dict)
    with _forked(len(SURVEYS)) as pool:
        for part in pool.map(_survey, SURVEYS):
            for function, tests in part.items():
                called[function] |= tests
    RECORDED.parent.mkdir(exist_ok=True)
    number = {test: n for n, test in enumerate(called[EVERYTHING])}
    by_number = [[*function, [number[test] for test in tests]] for function, tests in called.items()]
    kept = {"state": state, "tests": list(called[EVERYTHING].items()), "called": by_number}
    RECORDED.write_text(json.dumps(kept), "utf-8")
    return called


def _survey(tests: Sequence[str]) -> Called:
    survey = _Survey()
    _be_silent()
    code = pytest.main([option for option in (*QUIET, *tests) if option != "-x"], plugins=[survey])
    failed = survey.failed
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or len(failed) > FAILED_MAX:
        raise SystemExit(f"the tests fail before anything is changed: {failed or repr(code)}")
    for test, why in failed.items():
        print(f"left out, as it fails before anything is changed: {test}: {why}", file=sys.stderr)
    return {called: {t: s for t, s in by.items() if t not in failed} for called, by in survey.calls.items()}


def _be_silent() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)


def callers_of(path: str, function: str, called: Called) -> list[dict[str, float]]:
    """Tests that call a function and the seconds of each, in stages: those beside it, other unit tests, all others.
    What runs when a module is imported may show anywhere."""
    tests = called.get((path, function), called[EVERYTHING])
    folders = (f"tests/unit/{Path(path).parent}/", "tests/unit/", "tests/")
    stages: dict[str, dict[str, float]] = {folder: {} for folder in folders}
    for test, taken_s in tests.items():
        stages[next(folder for folder in folders if test.startswith(folder))][test] = taken_s
    return [stage for stage in stages.values() if stage]


def _outcome(trial: tuple[Mutant, list[dict[str, float]]]) -> str:
    mutant, stages = trial
    return next((outcome for tests in stages if (outcome := _after(mutant, tests)) != "survived"), "survived")


def _after(mutant: Mutant, tests: dict[str, float]) -> str:
    """The fate of a mutant after these tests."""
    child = os.fork()
    if not child:
        try:
            os._exit(_run(mutant, tests))
        finally:
            os._exit(1)
    deadline = time.monotonic() + max(LEAST_S, PATIENCE * sum(tests.values()))
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "killed" if status else "survived"
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hung"


def _run(mutant: Mutant, tests: dict[str, float]) -> int:
    _be_silent()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    changed, original = ROOT / mutant.path, SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
        file = Path(loader.path)
        if file.name == changed.name and file.resolve() == changed:
            return compile(mutant.source, loader.path, "exec")
        return original(loader, name)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]
    return pytest.main([*QUIET, *sorted({test.partition("::")[0] for test in tests})], plugins=[_Only(tests)])


class _Only:
    """These tests, the quickest ones first."""

    def __init__(self, tests: dict[str, float]) -> None:
        self.tests = tests

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self.tests), key=lambda item: self.tests[item.nodeid])


if __name__ == "__main__":
    sys.exit(main())
