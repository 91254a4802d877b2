"""The memory of a hand-back: as a record, in a file, and what a process makes of it that starts again."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bellwether_kafka.coordinator.control import (
    Controller,
    ControlSettings,
    HandBackFile,
    HandedBack,
    NoTopic,
    OnRecord,
    Orders,
    OrderSource,
    Record,
    RecordError,
    decode,
    encode,
    renewed,
    state_file,
    state_folder,
)
from bellwether_kafka.coordinator.membership import HandBackRemembered, State, StepAsideWanted
from tests.kit.membership import ME, Play, member
from tests.kit.runtime import Group, until

LIMIT_MS = 86_400_000

NOW_MS = 1_800_000_000_000
BROKERS = "a.test:9092,b.test:9092"
KEPT = HandedBack("orders", NOW_MS, NOW_MS + LIMIT_MS, "task 1_0 does not run", "d1g35t")


# ---- the record ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", [KEPT, replace(KEPT, waits=False), replace(KEPT, topology="")])
def test_a_record_comes_back_as_it_was_written(record: HandedBack) -> None:
    key, value = encode(record)
    assert key == b"handed_back/orders"
    assert decode(key, value) == record


@pytest.mark.parametrize("field", [{"target": ""}, {"at_ms": -1}, {"expires_ms": "x"}, {"reason": ""}, {"topology": 1}])
def test_a_record_that_makes_no_sense_is_refused(field: dict[str, object]) -> None:
    with pytest.raises(RecordError):
        decode(b"handed_back/orders", json.dumps({**KEPT.to_json(), **field}).encode())


def test_a_record_counts_for_a_day() -> None:
    orders = Orders()
    orders.apply(KEPT.key, KEPT)
    assert orders.handed_back("orders", NOW_MS + LIMIT_MS - 1) == KEPT
    assert orders.handed_back("orders", NOW_MS + LIMIT_MS) is None
    assert orders.handed_back("payments", NOW_MS) is None


def test_what_is_remembered_anew() -> None:
    first = renewed(None, "orders", "x" * 2000, "d", NOW_MS, waits=True)
    assert first is not None
    assert (first.expires_ms - first.at_ms, len(first.reason), first.waits) == (LIMIT_MS, 1000, True)
    assert renewed(first, "orders", "again", "d", NOW_MS + 1, waits=True) is None
    led = renewed(first, "orders", "", "d", NOW_MS + 5, waits=False)
    assert led == replace(first, waits=False), "the limit runs from the hand-back on"
    assert renewed(None, "orders", "", "d", NOW_MS, waits=False) is None


# ---- the file --------------------------------------------------------------------------------------------------------


def file_of(folder: Path, brokers: str = BROKERS) -> HandBackFile:
    return HandBackFile(state_file("handed-back", brokers, folder))


def test_a_file_keeps_records_of_several_groups_and_of_several_processes(tmp_path: Path) -> None:
    other = replace(KEPT, target="payments")
    file_of(tmp_path / "new" / "folder").write(KEPT)
    file_of(tmp_path / "new" / "folder", "B.test:9092, a.test:9092").write(other)
    assert file_of(tmp_path / "new" / "folder").read() == (KEPT, other)
    assert file_of(tmp_path / "new" / "folder", "elsewhere.test:9092").read() == ()
    assert len(list((tmp_path / "new" / "folder").iterdir())) == 1, "what it was written to first is gone"


@pytest.mark.parametrize("text", ["", "nonsense", "[1]", "null", '{"x": 1}', '{"\\ud800": {}}', "[" * 100_000])
def test_a_file_that_cannot_be_read_holds_nothing_and_is_written_anew(text: str, tmp_path: Path) -> None:
    file = file_of(tmp_path)
    file.write(KEPT)
    next(tmp_path.iterdir()).write_text(text)
    assert file.read() == ()
    file.write(KEPT)
    assert file.read() == (KEPT,)


def test_what_cannot_be_read_is_not_written_over(tmp_path: Path) -> None:
    """It may have the records of other groups, whose limits would be lost."""
    file = file_of(tmp_path)
    file.write(KEPT)
    path = next(tmp_path.iterdir())
    path.unlink()
    os.mkfifo(path)
    with capture_logs() as logs:
        assert file.read() == ()
        file.write(KEPT)
    assert [entry["event"] for entry in logs] == ["hand_backs_not_read", "hand_back_not_kept"]
    assert list(tmp_path.iterdir()) == [path]
    assert path.is_fifo()


def test_one_record_that_makes_no_sense_spoils_no_other(tmp_path: Path) -> None:
    file = file_of(tmp_path)
    file.write(KEPT)
    path = next(tmp_path.iterdir())
    path.write_text(json.dumps({**json.loads(path.read_text()), "handed_back/x": {"v": 1}, "leave/y": 3}))
    assert file.read() == (KEPT,)


def test_a_folder_that_cannot_be_made_is_a_log_line(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with capture_logs() as logs:
        file_of(tmp_path / "taken" / "below").write(KEPT)
    assert [entry["event"] for entry in logs] == ["hand_back_not_kept"]


def test_the_folder_of_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may run under a number that no user has."""
    monkeypatch.setenv("XDG_STATE_HOME", "/var/state")
    assert state_folder() == Path("/var/state/bellwether")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])
    assert state_folder().name == "bellwether"


# ---- a process that starts again -------------------------------------------------------------------------------------


class Topic:
    """Where records are kept, as a compacted topic keeps them. `read` ends the reading."""

    topic = "control"

    def __init__(self, *records: Record) -> None:
        self.records = {record.key: record for record in records}
        self._on_record: OnRecord = lambda _key, _record: None
        self._caught_up: Callable[[], None] = lambda: None

    def start(
        self, on_record: OnRecord, on_caught_up: Callable[[], None], on_refused: Callable[[], None], _: object
    ) -> None:
        self._on_record, self._caught_up, self.refuse = on_record, on_caught_up, on_refused

    def read(self) -> None:
        for record in list(self.records.values()):
            self._on_record(record.key, decode(*encode(record)))
        self._caught_up()

    def write(self, record: Record) -> None:
        self.records[record.key] = record

    def withdraw(self, key: str) -> None:
        self.records.pop(key, None)

    async def close(self) -> None: ...

    @property
    def kept(self) -> HandedBack | None:
        record = self.records.get(KEPT.key)
        return record if isinstance(record, HandedBack) else None


class Process:
    """A controller with one group, on a clock that only the test moves."""

    def __init__(self, topic: OrderSource, group: Group, at_ms: int = NOW_MS, file: HandBackFile | None = None) -> None:
        self.group = group
        settings = ControlSettings(topic.topic, "pod-1")
        self.controller = Controller(
            topic,
            settings,
            {"orders": group},
            hand_backs=file,
            heartbeat_s=0.01,
            wall_clock=lambda: at_ms / 1000,
        )

    async def start(self) -> "Process":
        self.running = asyncio.create_task(self.controller.run())
        await asyncio.sleep(0.02)
        return self

    async def stop(self) -> None:
        self.running.cancel()
        await self.controller.close()


def group(digest: str = "d1g35t") -> Group:
    new_group = Group(standby=False)
    new_group.digest = digest
    return new_group


def leading() -> Group:
    configured = group()
    configured.machine = Play().joining().joined(member(ME), member("a")).planned().synced().machine
    return configured


def run(scenario: Awaitable[None]) -> None:
    async def whole() -> None:
        await scenario

    asyncio.run(whole())


def remembered(of: Group) -> list[HandBackRemembered]:
    return [event for event in of.posted if isinstance(event, HandBackRemembered)]


def test_a_restarted_process_remembers_what_the_topic_has() -> None:
    async def scenario() -> None:
        topic = Topic()
        process = await Process(topic, first := leading()).start()
        topic.read()
        first.post(StepAsideWanted("task 1_0 does not run"))
        process.controller.hand_back("orders", waits=True)
        await process.stop()
        assert topic.kept == KEPT
        second = await Process(topic, again := group(), NOW_MS + 60_000).start()
        topic.read()
        await until(lambda: bool(remembered(again)))
        assert remembered(again) == [HandBackRemembered(60.0, "task 1_0 does not run", waits=True)]
        await second.stop()

    run(scenario())


def test_a_process_that_led_before_it_read_the_topic_leaves_and_keeps_the_memory() -> None:
    async def scenario() -> None:
        topic = Topic(KEPT)
        process = await Process(topic, led_group := leading()).start()
        process.controller.hand_back("orders", waits=False)
        assert topic.kept == KEPT
        topic.read()
        process.controller.hand_back("orders", waits=False)
        assert topic.kept == KEPT, "what was read has not reached the group"
        await until(lambda: led_group.membership.state is State.LEAVING)
        await process.stop()

    run(scenario())


def test_a_lead_that_was_proven_ends_the_wait_and_not_the_limit() -> None:
    async def scenario() -> None:
        topic = Topic(KEPT)
        process = await Process(topic, configured := group()).start()
        topic.read()
        await until(lambda: bool(remembered(configured)))
        process.controller.hand_back("orders", waits=False)
        assert topic.kept == replace(KEPT, waits=False)
        await process.stop()

    run(scenario())


def test_another_topology_does_not_wait_and_is_limited() -> None:
    async def scenario() -> None:
        topic = Topic(KEPT)
        process = await Process(topic, configured := group("another"), NOW_MS + 5_000).start()
        topic.read()
        await until(lambda: bool(remembered(configured)))
        assert remembered(configured) == [HandBackRemembered(5.0, KEPT.reason, waits=False)]
        await process.stop()

    run(scenario())


@pytest.mark.parametrize("refused", [False, True], ids=["no topic", "a topic without a right to it"])
def test_without_a_topic_the_file_remembers(tmp_path: Path, refused: bool) -> None:
    """A process whose topic is refused was as good as new after each restart."""

    async def started(led: Group, at_ms: int = NOW_MS) -> Process:
        source = Topic() if refused else NoTopic()
        process = await Process(source, led, at_ms, file_of(tmp_path)).start()
        if isinstance(source, Topic):
            source.refuse()
        return process

    async def scenario() -> None:
        process = await started(first := leading())
        first.post(StepAsideWanted("task 1_0 does not run"))
        process.controller.hand_back("orders", waits=True)
        await process.stop()
        second = await started(again := group(), NOW_MS + 60_000)
        await until(lambda: bool(remembered(again)))
        assert remembered(again) == [HandBackRemembered(60.0, "task 1_0 does not run", waits=True)]
        await second.stop()

    run(scenario())


def test_what_the_topic_has_counts_more_than_the_file(tmp_path: Path) -> None:
    """Another instance may have led the group since."""

    async def scenario() -> None:
        file_of(tmp_path).write(KEPT)
        topic = Topic(replace(KEPT, waits=False))
        process = await Process(topic, configured := group(), NOW_MS + 5_000, file_of(tmp_path)).start()
        topic.read()
        await until(lambda: bool(remembered(configured)))
        assert [each.waits for each in remembered(configured)] == [False]
        await process.stop()

    run(scenario())
