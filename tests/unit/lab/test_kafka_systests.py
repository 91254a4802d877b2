"""How the run of Kafka's system tests judges what came out."""

from pathlib import Path

import pytest

from tests.lab.kafka.systests.programs import FailedError, Program
from tests.lab.kafka.systests.scenarios import SCENARIOS
from tests.lab.kafka.systests.scene import own_of
from tests.lab.kafka.systests.standby_replicas import never_back
from tests.lab.kafka.systests.topologies import complete


def logged(folder: Path, *lines: str) -> Program:
    (folder / "one.log").write_text("\n".join(lines))
    return Program("one", (), folder, 0.0)


def test_scenarios_have_names_of_their_own_and_steps_or_a_reason() -> None:
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)
    assert all((scenario.steps is None) is bool(scenario.missing) for scenario in SCENARIOS)


def test_settings_that_must_be_the_applications_own_are_taken_from_its_properties() -> None:
    properties = {"num.standby.replicas": "2", "processing.guarantee": "exactly_once_v2", "acks": "all"}
    assert own_of(properties) == {"num.standby.replicas": 2, "processing.guarantee": "exactly_once_v2"}


def test_a_topology_file_is_complete_without_lines_to_write() -> None:
    line = "# for a key-value store write, instead of NAME, `- {Name: NAME, TopicConfigs: {cleanup.policy: compact}}`"
    assert not complete(f"{line}\nApplicationId: app\n")
    assert complete("# all stores are taken to be logged\nApplicationId: app\n- {TopicConfigs: {cleanup.policy: x}}\n")


def test_offsets_that_go_back_are_a_failure(tmp_path: Path) -> None:
    never_back(logged(tmp_path, "Writing checkpoint: {a-0=5, b-1=2} for task 0_0", "Assigning and seeking {a-0=5}"))
    with pytest.raises(FailedError, match="a-0 went back from 5 to 4"):
        never_back(logged(tmp_path, "Writing checkpoint: {a-0=5}", "Writing checkpoint: {a-0=4}"))
