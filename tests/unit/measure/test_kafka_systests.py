"""How the run of Kafka's system tests judges and shows what came out."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kafka.systests.programs import FailedError, Program
from tests.kafka.systests.results import Outcome, keep, page
from tests.kafka.systests.scenarios import SCENARIOS
from tests.kafka.systests.scene import ours_of
from tests.kafka.systests.standby_replicas import never_back
from tests.kafka.systests.topologies import complete

OUTCOME = Outcome("smoke-eos-kill", "kafka", "", 101.4, 7, rounds=6, led=6, file="text", load=1.5)


def logged(folder: Path, *lines: str) -> Program:
    (folder / "one.log").write_text("\n".join(lines))
    return Program("one", (), folder, 0.0)


def test_a_page_has_a_row_for_each_leader_and_the_first_line_of_a_failure() -> None:
    failed = replace(OUTCOME, leader="streams-ha", failure="never saw 'SUCCESS'\nsome log", led=5)
    text = page([OUTCOME, failed], SCENARIOS)
    assert "| `smoke-eos-kill` | kafka | passed | 101 | 7 | 5 | 6 of 6 | text | 1.5 |" in text
    assert "| `smoke-eos-kill` | streams-ha | **failed** | 101 | 7 | 5 | 5 of 6 | text | 1.5 |" in text
    assert "- `smoke-eos-kill`, streams-ha: never saw 'SUCCESS'\n" in text
    assert "some log" not in text


def test_a_page_says_which_generations_others_led() -> None:
    text = page([replace(OUTCOME, led=5, others="2 (1 members); set_back: left twice")], SCENARIOS)
    assert "## Generations that others led\n\n- `smoke-eos-kill`, kafka: 2 (1 members); set_back: left twice\n" in text


def test_a_page_names_what_was_not_run_and_what_cannot_be() -> None:
    text = page([OUTCOME], SCENARIOS)
    assert "| `smoke-eos-kill` | java | not run yet |" in text
    assert "| `static-membership` | kafka | not run yet |" in text
    assert "| `eos` | | cannot be run: " in text


def test_what_is_kept_is_the_newest_of_each_scenario_and_leader(tmp_path: Path) -> None:
    kept, shown, lock = (tmp_path / name for name in ("kept.json", "page.md", "lock"))
    failed = replace(OUTCOME, failure="never saw 'SUCCESS'\nsome log")
    for fresh in ([failed, replace(failed, leader="java")], [OUTCOME]):
        keep(fresh, SCENARIOS, kept=kept, shown=shown, lock=lock)
    verdicts = {row["leader"]: row["failure"] for row in json.loads(kept.read_text())}
    assert verdicts == {"kafka": "", "java": "never saw 'SUCCESS'"}
    assert "| `smoke-eos-kill` | java | **failed** |" in shown.read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"kept.json", "page.md", "lock"}


def test_scenarios_have_names_of_their_own_and_steps_or_a_reason() -> None:
    assert len({one.name for one in SCENARIOS}) == len(SCENARIOS)
    assert all((one.steps is None) is bool(one.missing) for one in SCENARIOS)


def test_settings_that_must_be_the_applications_own_are_taken_from_its_properties() -> None:
    properties = {"num.standby.replicas": "2", "processing.guarantee": "exactly_once_v2", "acks": "all"}
    assert ours_of(properties) == {"num.standby.replicas": 2, "processing.guarantee": "exactly_once_v2"}


def test_a_topology_file_is_complete_without_lines_to_write() -> None:
    line = "# for a key-value store write, instead of NAME, `- {Name: NAME, TopicConfigs: {cleanup.policy: compact}}`"
    assert not complete(f"{line}\nApplicationId: app\n")
    assert complete("# all stores are taken to be logged\nApplicationId: app\n- {TopicConfigs: {cleanup.policy: x}}\n")


def test_offsets_that_go_back_are_a_failure(tmp_path: Path) -> None:
    never_back(logged(tmp_path, "Writing checkpoint: {a-0=5, b-1=2} for task 0_0", "Assigning and seeking {a-0=5}"))
    with pytest.raises(FailedError, match="a-0 went back from 5 to 4"):
        never_back(logged(tmp_path, "Writing checkpoint: {a-0=5}", "Writing checkpoint: {a-0=4}"))
