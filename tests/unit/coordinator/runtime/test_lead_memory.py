"""What a process remembers over a restart of the groups in which it was a member."""

from pathlib import Path

import pytest

from bellwether_kafka.coordinator.membership import Event, LeadRemembered, MembershipView
from bellwether_kafka.coordinator.runtime.lead_memory import LeadMemory
from tests.kit.membership import Play

KEPT_S = 3600.0
WRITTEN_S = 60.0


class Group:
    def __init__(self, play: Play) -> None:
        self.play = play
        self.posted: list[Event] = []

    @property
    def membership(self) -> MembershipView:
        return self.play.machine.view

    def post(self, event: Event) -> None:
        self.posted.append(event)


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def lived(path: Path, clock: Clock, **groups: Group) -> LeadMemory:
    memory = LeadMemory(path, clock=clock)
    if memory.refresh(groups):
        memory.write()
    return memory


def test_the_next_process_knows_since_when_the_last_one_is_gone(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "members.json"
    lived(path, clock, led=Group(Play().stable()), alone=Group(Play().stable_alone()), watched=Group(Play()))
    lived(path, clock, other=Group(Play().stable()))  # of another process
    clock.now += 40.0
    after = {name: Group(Play()) for name in ("led", "alone", "watched", "other")}
    LeadMemory(path, clock=clock).remind(after)
    away = LeadRemembered(40.0)
    assert {name: group.posted for name, group in after.items()} == {
        "led": [away], "alone": [away], "watched": [], "other": [away],
    }  # fmt: skip


def test_it_is_written_when_memberships_change_and_once_a_minute(tmp_path: Path) -> None:
    clock, group = Clock(), Group(Play().stable())
    memory = LeadMemory(tmp_path / "members.json", clock=clock)
    assert memory.refresh({"orders": group})
    assert not memory.refresh({"orders": group})
    clock.now += WRITTEN_S
    assert memory.refresh({"orders": group})
    assert memory.refresh({})
    assert not memory.refresh({})


def test_what_is_long_ago_is_forgotten(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "members.json"
    lived(path, clock, led=Group(Play().stable()))
    clock.now += KEPT_S + 1
    lived(path, clock, other=Group(Play().stable()))
    assert "led" not in path.read_text()


@pytest.mark.parametrize("back_s", [2.0, 3_600.0, 1e9])
def test_where_the_clock_was_set_back_it_is_not_known_when_the_last_process_was_there(
    tmp_path: Path, back_s: float
) -> None:
    """Others may have written offsets for an hour since then."""
    clock, path, group = Clock(), tmp_path / "members.json", Group(Play())
    lived(path, clock, led=Group(Play().stable()))
    clock.now -= back_s
    LeadMemory(path, clock=clock).remind({"led": group})
    assert group.posted == []


@pytest.mark.parametrize("text", ["", "[]", '{"led": NaN}', '{"led": 1e999}', "{", '{"led": "soon"}', '{"led": null}'])
def test_a_file_of_others_is_no_memory(tmp_path: Path, text: str) -> None:
    path, group = tmp_path / "members.json", Group(Play())
    path.write_text(text)
    LeadMemory(path).remind({"led": group})
    assert group.posted == []


def test_without_a_folder_nothing_is_remembered() -> None:
    lived(Path("/proc/nowhere/members.json"), Clock(), led=Group(Play().stable()))
    LeadMemory(None).write()
