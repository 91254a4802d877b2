"""The documented examples run, are what the document says, and load from an installed package."""

import re
from pathlib import Path

import numpy as np
import pytest

from bellwether_kafka.assignors.streams import PluginError, PluginHealth, load_task_assignor, run_plugin
from bellwether_kafka.assignors.streams.api import TaskAssignor, from_view
from bellwether_kafka.assignors.streams.application import AssignmentConfigs
from bellwether_kafka.assignors.streams.sending import validate_plan
from tests.paths import DOCS
from tests.unit.assignors.streams.api.api_scenes import Application, Process, to_plan
from tests.unit.assignors.streams.api.example_assignor import StateFirst

DOCUMENT = DOCS / "guides" / "writing-an-assignor.md"
EXAMPLE = Path(__file__).with_name("example_assignor.py")
APP = Application(stateful=(4,), stateless=(2,), racks={f"0_{p}": ("az1", "az2") for p in range(4)})
PROCESSES = (
    Process(1, rack="az1", active=("0_0",)),
    Process(2, rack="az2", threads=2, active=("0_1", "1_1"), standby=("0_2",), lags={"0_2": 5}),
    Process(3, rack="az3", lags={"0_3": 900, "0_2": 6}),
)
CONFIGS = AssignmentConfigs(num_standby_replicas=1, rack_aware_assignment_strategy="min_traffic")


def documented() -> dict[str, TaskAssignor]:
    """Executes every Python block of the document; the assignors in it by name."""
    by_name: dict[str, TaskAssignor] = {}
    for block in re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL):
        names: dict[str, object] = {}
        exec(block, names)  # noqa: S102 - that the code in the document works is what is tested
        classes = [c for c in names.values() if isinstance(c, type) and TaskAssignor in c.__mro__[1:]]
        by_name |= {c.__name__: c() for c in classes}
    return by_name


@pytest.mark.parametrize("name", ["RoundRobin", "KeepAndSpread", "StateFirst"])
def test_every_example_gives_a_valid_plan_at_once(name: str) -> None:
    assignor = {**documented(), "StateFirst": StateFirst()}[name]
    view = APP.view(*PROCESSES)
    run = run_plugin(assignor, view, CONFIGS, PluginHealth(), cluster=APP.cluster(), now_ms=0)
    assert (run.notes, run.health) == ((), PluginHealth())
    assert validate_plan(view, run.plan) == ()


@pytest.mark.parametrize("name", ["KeepAndSpread", "StateFirst"])
def test_the_examples_keep_running_tasks_and_follow_state(name: str) -> None:
    assignor = {**documented(), "StateFirst": StateFirst()}[name]
    view = APP.view(*PROCESSES)
    plan = to_plan(view, assignor.assign(from_view(view, CONFIGS, cluster=APP.cluster())))
    assert plan.active[[0, 1, 5]].tolist() == [0, 1, 1]
    assert plan.active[[2, 3]].tolist() == [1, 2]
    assert np.bincount(plan.standby_task, minlength=6).tolist() == [1, 1, 1, 1, 0, 0]


def test_the_document_uses_the_names_that_exist() -> None:
    text = DOCUMENT.read_text()
    assert set(documented()) == {"RoundRobin", "KeepAndSpread"}
    assert "bellwether.assignors" in text
    assert "keep-and-spread" in text


def test_the_example_is_about_twenty_lines() -> None:
    body = EXAMPLE.read_text().split("class StateFirst")[1].strip().splitlines()
    assert len(body) <= 25


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, points: str, module: str) -> None:
    info = tmp_path / "assignors_of_mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: assignors-of-mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[bellwether.assignors]\n{points}")
    (tmp_path / "bellwether_task_plugin.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)


PLUGIN = """
from bellwether_kafka.plugins import TaskAssignor
class Mine(TaskAssignor):
    def assign(self, application_state):
        raise NotImplementedError
    def configure(self, configs):
        if "zones" not in configs:
            raise ValueError("zones is missing")
        configs["seen"] = True
        self.zones = configs["zones"]
class NoAssignor:
    pass
class Bare:
    def assign(self, application_state):
        raise NotImplementedError
"""


def test_an_assignor_is_loaded_by_name_and_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = "mine = bellwether_task_plugin:Mine\nnone = bellwether_task_plugin:NoAssignor\ngone = no_such_module:X\n"
    points += "bare = bellwether_task_plugin:Bare\n"
    install(tmp_path, monkeypatch, points, PLUGIN)
    settings = {"zones": ["a"]}
    mine = load_task_assignor("mine", settings)
    assert mine.zones == ["a"]  # type: ignore[attr-defined]  # the plug-in's own
    assert settings == {"zones": ["a"]}
    assert callable(load_task_assignor("bare", settings).assign), "there is nothing to configure"
    for name, configs, text in (
        ("mine", {}, r"plug-in 'mine' rejects its settings: ValueError: zones is missing"),
        ("none", {}, "plug-in 'none' is no task assignor: it has no method assign"),
        ("gone", {}, "plug-in 'gone' cannot be loaded: ModuleNotFoundError"),
        ("other", {}, r"there is no policy 'other'.*bare, gone, mine, none"),
    ):
        with pytest.raises(PluginError, match=text):
            load_task_assignor(name, configs)
