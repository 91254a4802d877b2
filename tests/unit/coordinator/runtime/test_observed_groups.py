"""Groups are found by their patterns, looked at slice by slice, and dropped when they are gone."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from bellwether_kafka.coordinator.groups import Describer
from bellwether_kafka.coordinator.kafka.client import ClusterReader, ClusterUnreachableError
from bellwether_kafka.coordinator.kafka.wire import GroupList, ListedGroup, Transport, TransportError
from bellwether_kafka.coordinator.membership import Failure, Node
from bellwether_kafka.coordinator.runtime.groups_now import statuses
from bellwether_kafka.coordinator.runtime.observed_groups import FoundGroups, ObservedGroups, lister
from bellwether_kafka.coordinator.runtime.selection import ConfiguredSelection, Selected
from bellwether_kafka.coordinator.settings import GroupSettings, load

INTERVAL_S = 10.0
TOGETHER_MIN = 25

NODE = Node(1, "b", 9092)


class Refreshed:
    """In the place of an observer."""

    def __init__(self, selected: Selected, refreshes: list[str]) -> None:
        self.selected = selected
        self._refreshes = refreshes

    async def refresh(self) -> None:
        self._refreshes.append(self.selected.config.group_id)

    def rest(self) -> None:
        self._refreshes.append(f"{self.selected.config.group_id} rests")


class Fleet:
    """Observed groups over a list of groups that the test changes."""

    def __init__(self, folder: Path, *entries: str, cpu_s: float = 0.0) -> None:
        self.folder = folder
        self.listed: list[ListedGroup] = []
        self.known_elsewhere: set[str] = set()  # from elsewhere
        self.missing = ""
        self.refreshes: list[str] = []
        self.gone: list[str] = []
        self.computed_s = 0.0
        self._cpu_s = cpu_s

        def make(selected: Selected) -> Any:
            return Refreshed(selected, self.refreshes)

        shared = Describer(cast("Transport", None))
        self.groups = ObservedGroups(
            self.selection(*entries),
            make,
            self._list,
            shared,
            [self.gone.append],
            due=lambda group: group not in self.known_elsewhere,
            clock=lambda: 0.0,
            cpu=self._cpu,
        )

    def selection(self, *entries: str) -> ConfiguredSelection:
        file = self.folder / "bellwether.toml"
        file.write_text("\n".join(f"[[groups]]\n{entry}" for entry in entries))
        return ConfiguredSelection(load(file, environ={"BELLWETHER_KAFKA_BOOTSTRAP_SERVERS": "b:9092"}), None)

    def refreshed_groups(self, *names: str, missing: str = "", **types: str) -> list[str]:
        """After one list of these groups."""
        self.listed = [ListedGroup(name, types.get(name, "consumer")) for name in names]
        self.missing = missing
        asyncio.run(self.groups.discover())
        return sorted(self.groups.observers)

    async def _list(self) -> FoundGroups:
        return FoundGroups({group.group_id: (group, NODE) for group in self.listed}, self.missing)

    def _cpu(self) -> float:
        self.computed_s += self._cpu_s
        return self.computed_s


def events(lines: Sequence[Any], event: str) -> list[Any]:
    return [line for line in lines if line["event"] == event]


def test_groups_come_and_go(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 'match = "team-*"', 'name = "orders"')
    assert fleet.refreshed_groups("team-a", "other") == ["orders", "team-a"]
    assert fleet.refreshed_groups("team-a", "team-b") == ["orders", "team-a", "team-b"]
    assert fleet.refreshed_groups("team-b") == ["orders", "team-a", "team-b"], (
        "its new coordinator node may not list it yet"
    )
    assert fleet.refreshed_groups("team-b") == ["orders", "team-b"]
    assert fleet.gone == ["team-a"]
    assert fleet.refreshed_groups("team-a", "team-b") == ["orders", "team-a", "team-b"]


async def test_what_is_known_from_elsewhere_is_not_refreshed(tmp_path: Path) -> None:
    async def refreshes(fleet: Fleet) -> list[str]:
        for group in ("a", "b"):
            fleet.groups._refresh(group)
        await asyncio.sleep(0)
        return sorted(fleet.refreshes)

    fleet = Fleet(tmp_path, 'name = "a"', 'name = "b"')
    fleet.known_elsewhere = {"a"}
    assert await refreshes(fleet) == ["a rests", "b"]


def test_nothing_is_dropped_by_a_list_that_is_not_full(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 'match = "*"')
    fleet.refreshed_groups("a", "b")
    with capture_logs() as lines:
        for _ in range(3):
            assert fleet.refreshed_groups("a", missing="broker 2 does not list its groups (no answer)") == ["a", "b"]
    (line,) = events(lines, "groups_not_listed")
    assert line["reason"] == "broker 2 does not list its groups (no answer)"


def test_only_groups_with_an_assignment_of_partitions_are_taken(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 'match = "*"')
    assert fleet.refreshed_groups("a", "c", "s", "sh", "simple", c="connect", s="streams", sh="share", simple="") == [
        "a",
        "s",
        "simple",
    ]


def test_a_group_that_is_led_is_not_observed_as_well(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 'match = "*"', 'name = "led"\nmode = "lead"', 'name = "own"\npolicy = "rack-first"')
    assert fleet.refreshed_groups("led", "own", "a") == ["a", "own"]


def test_a_pattern_that_matches_nothing_is_one_sentence_once(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 'match = "team-*"', 'match = "x*"')
    with capture_logs() as lines:
        fleet.refreshed_groups("x1")
        fleet.refreshed_groups("x1")
        fleet.refreshed_groups("team-a", "x1")
    (line,) = events(lines, "pattern_matches_nothing")
    assert line["reason"] == (
        "No group fits the pattern team-* yet; groups are looked for every 10 s, and brokers list only those that"
        " Bellwether may DESCRIBE."
    )


def test_a_group_of_two_equally_specific_patterns_is_an_error_and_is_not_observed(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 'match = "team-*"', 'match = "/^team-/"')
    with capture_logs() as lines:
        assert fleet.refreshed_groups("team-a") == fleet.refreshed_groups("team-a") == []
    (line,) = events(lines, "group_not_selected")
    assert line["log_level"] == "error"
    assert line["reason"].startswith("Group team-a: the patterns team-* and /^team-/ are equally specific")


def test_the_settings_of_the_most_specific_pattern_are_the_ones_of_the_group(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 'match = "*"', 'match = "team-*"\npolicy = "rack-first"')
    fleet.refreshed_groups("a", "team-a")
    observers = {name: cast("Refreshed", observer) for name, observer in fleet.groups.observers.items()}
    assert [observers[name].selected.by for name in ("a", "team-a")] == ["*", "team-*"]
    assert [observers[name].selected.policy.name for name in ("a", "team-a")] == ["kafka", "rack-first"]


def test_other_settings_touch_only_the_groups_that_they_are_about(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 'match = "*"', 'name = "orders"')
    fleet.refreshed_groups("a", "team-a")
    before = dict(fleet.groups.observers)
    fleet.groups.follow(
        fleet.selection('match = "*"', 'match = "team-*"\npolicy = "rack-first"', 'name = "orders"', 'name = "new"')
    )
    assert fleet.refreshed_groups("a", "team-a") == ["a", "new", "orders", "team-a"]
    after = fleet.groups.observers
    assert [name for name in before if after[name] is before[name]] == ["orders", "a"]
    fleet.groups.follow(fleet.selection('name = "new"'))
    assert sorted(fleet.groups.observers) == ["new"]
    assert sorted(fleet.gone) == ["a", "orders", "team-a", "team-a"]


def test_a_named_group_that_a_pattern_selects_from_now_on_goes_on(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 'name = "orders"')
    fleet.groups.follow(fleet.selection('match = "*"'))
    assert fleet.refreshed_groups("orders") == ["orders"]
    fleet.groups.follow(fleet.selection('name = "orders"'))
    assert sorted(fleet.groups.observers) == ["orders"]


async def run_for(fleet: Fleet, rebalances: int, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of so many rebalances."""
    pauses: list[float] = []

    class AtOnce:
        def __init__(self, seconds: float) -> None:
            pauses.append(seconds)

        async def __aenter__(self) -> None:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            if len(pauses) >= limit:
                fleet.groups.stop()
            raise TimeoutError

        async def __aexit__(self, *_: object) -> None: ...

    limit = rebalances
    monkeypatch.setattr("bellwether_kafka.coordinator.runtime.observed_groups.asyncio.timeout", AtOnce)
    assert await fleet.groups.run() == 0
    return pauses


async def test_a_few_groups_are_refreshed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(tmp_path, 'match = "*"')
    fleet.listed = [ListedGroup(name, "consumer") for name in ("a", "b", "c")]
    assert await run_for(fleet, 2, monkeypatch) == [INTERVAL_S, INTERVAL_S]
    assert fleet.refreshes == ["a", "b", "c"] * 2


async def test_where_nobody_is_yet_the_next_list_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await run_for(Fleet(tmp_path, 'match = "*"'), 2, monkeypatch) == [INTERVAL_S, INTERVAL_S]


async def test_refreshes_at_many_groups_are_spread_over_the_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(tmp_path, 'match = "*"')
    names = [f"group-{number:03}" for number in range(4 * TOGETHER_MIN)]
    fleet.listed = [ListedGroup(name, "consumer") for name in names]
    assert await run_for(fleet, 4, monkeypatch) == [2.5, 5.0, 7.5, 10.0]
    assert fleet.refreshes == names


async def test_refreshes_that_cost_too_much_are_made_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(tmp_path, 'match = "*"', cpu_s=4.0)
    fleet.listed = [ListedGroup(f"group-{number:03}", "consumer") for number in range(TOGETHER_MIN)]
    with capture_logs() as lines:
        assert await run_for(fleet, 4, monkeypatch) == [INTERVAL_S, INTERVAL_S, 20.0, 20.0], (
            "first looks are no measure"
        )
    (line,) = events(lines, "refreshes_paced")
    assert (line["interval_s"], line["computed_s"]) == (20, 4.0)


async def test_a_refresh_that_still_waits_is_not_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(tmp_path, 'name = "a"')

    class Slow(Refreshed):
        async def refresh(self) -> None:
            await super().refresh()
            await asyncio.Event().wait()

    fleet.groups.observers["a"] = cast("Any", Slow(fleet.selection('name = "a"').named["a"], fleet.refreshes))
    await run_for(fleet, 3, monkeypatch)
    assert fleet.refreshes == ["a"]


class Nodes:
    """Brokers that list groups, in the place of transport and reader."""

    def __init__(self, *answers: GroupList | Exception) -> None:
        self.answers = dict(enumerate(answers))

    async def nodes(self) -> tuple[Node, ...]:
        if not self.answers:
            raise ClusterUnreachableError("No broker answered.")
        return tuple(Node(number, "b", 9092) for number in self.answers)

    async def ask(self, request: Any) -> GroupList:
        answer = self.answers[request.node.node_id]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def listed_groups(self) -> FoundGroups:
        reader, transport = cast("ClusterReader", self), cast("Transport", self)
        return asyncio.run(lister(transport, lambda: reader)())


def test_all_nodes_are_asked_for_their_groups() -> None:
    a, b = ListedGroup("a", "consumer"), ListedGroup("b", "consumer")
    groups = Nodes(GroupList(0, (a,)), GroupList(0, (b,))).listed_groups()
    assert groups == FoundGroups({"a": (a, Node(0, "b", 9092)), "b": (b, Node(1, "b", 9092))})


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (TransportError(Failure.TIMED_OUT, "no answer"), "broker 1 does not list its groups (no answer)"),
        (GroupList(14, ()), "broker 1 does not list all of its groups (COORDINATOR_LOAD_IN_PROGRESS)"),
    ],
)
def test_a_list_that_is_not_full_says_why(answer: GroupList | Exception, message: str) -> None:
    a = ListedGroup("a", "consumer")
    groups = Nodes(GroupList(0, (a,)), answer).listed_groups()
    assert (list(groups.groups), groups.missing) == (["a"], message)


def test_brokers_that_are_not_there_list_nothing() -> None:
    assert Nodes().listed_groups() == FoundGroups({}, "No broker answered.")


def test_the_page_lists_configured_groups_and_behind_them_those_that_were_found(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 'match = "*"', 'name = "named"')
    fleet.refreshed_groups("b", "a", "named")
    observed = {name: SimpleNamespace(last=None) for name in fleet.groups.observers}
    service = cast("Any", SimpleNamespace(runners={}, observed=observed, watched=observed.get))
    named = [GroupSettings(name="named")]
    assert [(status.group, status.mode) for status in statuses(named, service)] == [
        ("named", "observe"),
        ("a", "observe"),
        ("b", "observe"),
    ]
