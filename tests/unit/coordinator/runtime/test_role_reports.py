"""What a process says of its roles: logged once per change, also after an error of Bellwether, and again while nobody
leads."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.kafka.wire import AnyCommitted, TransportError
from bellwether_kafka.coordinator.membership import Failure, NotLeading, Role
from bellwether_kafka.coordinator.runtime import GroupsConfig, Service, until_answered
from bellwether_kafka.coordinator.runtime.group_runner import GroupRunner
from bellwether_kafka.coordinator.runtime.groups_now import kept_out, not_ready
from bellwether_kafka.coordinator.runtime.loop_watch import LoopWatch
from bellwether_kafka.coordinator.runtime.membership_driver import MembershipDriver, membership_loop
from bellwether_kafka.coordinator.runtime.role_reports import QUIET, log_role, remind
from tests.unit.coordinator.runtime.alone import BrokersOfOne, remembering

EXIT_BUG = 1

EXIT_FENCED = 3

R = NotLeading
FENCED = Role(R.FENCED, "another process", 5.0)
CONFIG = membership.MembershipConfig("orders", instance_id="bellwether", heartbeat_interval_ms=10, subscribes=True)


class Brokers(BrokersOfOne):
    """The fourth heartbeat and those after it are answered with `error`."""

    instance_id = "bellwether"

    def __init__(self, error: membership.Code) -> None:
        self.error = error
        self.heartbeats = 0

    def _answer(self, command: membership.Request) -> membership.Answer:
        if not isinstance(command, membership.Heartbeat):
            return super()._answer(command)
        self.heartbeats += 1
        return membership.HeartbeatAnswer(0, self.error if self.heartbeats > 3 else 0)

    async def any_committed(self, group_id: str) -> AnyCommitted:
        return AnyCommitted(True)

    def abandon(self, group_id: str) -> None:
        """Nothing is parked here."""


class Restarted(Brokers):
    """Bellwether's membership is all that the group has left. Of its offsets these answers are given, then the
    heartbeats end it."""

    def __init__(self, *offsets: AnyCommitted | TransportError) -> None:
        super().__init__(membership.Code.FENCED_INSTANCE_ID)
        self.offsets = list(offsets)

    def _answer(self, command: membership.Request) -> membership.Answer:
        if isinstance(command, membership.Describe):
            own = membership.DescribedMember("me", "bellwether")
            return membership.DescribeAnswer(0, 0, "Stable", "consumer", "range", (own,))
        if isinstance(command, membership.Heartbeat) and self.offsets:
            return membership.HeartbeatAnswer(0, 0)
        return super()._answer(command)

    async def any_committed(self, group_id: str) -> AnyCommitted:
        answer = self.offsets.pop(0)
        if isinstance(answer, TransportError):
            raise answer
        return answer


async def not_relieved(group_id: str, reason: str) -> bool:
    return False


Change = Callable[[MembershipDriver], None]


async def ended(
    reported: list[Role], brokers: Brokers, change: Change = lambda _: None
) -> tuple[GroupRunner[Any], int]:
    """A runner at its end, and its exit code. `change` is made to what drives its membership."""

    def receive(_: str, role: Role) -> None:
        reported.append(role)

    nothing = cast("Any", SimpleNamespace(forget=lambda *_: None, delivered=lambda _: None))
    async with asyncio.timeout(60), membership_loop(LoopWatch().run()) as loop:
        driver = remembering(MembershipDriver(CONFIG, brokers, loop))
        change(driver)
        hearing = (), (), (receive,)
        runner = GroupRunner[Any](driver, cast("Any", brokers), nothing, nothing, *hearing, not_relieved)
        return runner, await runner.run()


async def test_a_change_is_reported_once_and_the_end_in_the_words_of_the_log() -> None:
    reported: list[Role] = []
    with capture_logs() as lines:
        process, code = await ended(reported, Brokers(membership.Code.FENCED_INSTANCE_ID))
    assert code == EXIT_FENCED
    assert [role.reason for role in reported] == [R.STARTING, R.JOINING, R.EMPTY, R.FENCED]
    assert process.role == reported[-1]
    (line,) = [line for line in lines if line["event"] == "group_given_up"]
    assert (line["reason"], line["detail"]) == ("fenced", process.role.detail)


@pytest.mark.parametrize(
    ("offsets", "reasons"),
    [
        ([AnyCommitted(True)], [R.UNKNOWN_GROUP, R.EMPTY]),
        ([AnyCommitted(False)], [R.UNKNOWN_GROUP]),
        ([TransportError(Failure.TIMED_OUT, "silent"), AnyCommitted(True)], [R.UNKNOWN_GROUP, R.EMPTY]),
        ([AnyCommitted(False, 16), AnyCommitted(True)], [R.UNKNOWN_GROUP, R.EMPTY]),
    ],
)
async def test_the_offsets_of_a_group_that_seems_unknown_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, offsets: list[AnyCommitted | TransportError], reasons: list[NotLeading]
) -> None:
    monkeypatch.setattr(until_answered, "OFFSETS_AGAIN_S", 0.01)
    reported: list[Role] = []
    brokers = Restarted(*offsets)
    with capture_logs():
        assert (await ended(reported, brokers))[1] == EXIT_FENCED
    assert [role.reason for role in reported] == [R.STARTING, R.JOINING, *reasons, R.FENCED]
    assert brokers.offsets == []


async def test_after_an_error_of_bellwether_the_role_is_not_what_the_membership_last_reported() -> None:
    reported: list[Role] = []
    brokers = Brokers(membership.Code.NONE)

    def break_it(driver: MembershipDriver) -> None:
        handle = driver.machine.handle

        def broken(event: membership.Event, now: float) -> Any:
            if brokers.heartbeats > 3:
                raise RuntimeError("a bug")
            return handle(event, now)

        driver.machine.handle = broken  # type: ignore[method-assign]

    with capture_logs():
        process, code = await ended(reported, brokers, break_it)
    assert code == EXIT_BUG
    assert [role.reason for role in reported] == [R.STARTING, R.JOINING, R.EMPTY, R.FAILED]
    assert process.role.reason is R.FAILED
    assert process.role.remedy


@pytest.mark.parametrize("reason", list(R))
def test_what_needs_a_member_is_a_warning(reason: NotLeading) -> None:
    with capture_logs() as lines:
        log_role("orders", Role(reason, "a detail"))
    (line,) = lines
    assert line["log_level"] == ("info" if reason in QUIET else "warning")
    assert (line["reason"], line["detail"], line["leading"]) == (reason.value, "a detail", False)
    assert line["remedy"]


def test_a_lead_is_logged_without_a_reason() -> None:
    with capture_logs() as lines:
        log_role("orders", Role(None, ""))
    assert lines == [{"event": "role", "log_level": "info", "group": "orders", "leading": True}]


@pytest.mark.slow
async def test_a_group_that_is_not_led_is_mentioned_again_and_again() -> None:
    roles = {"led": Role(None, ""), "lost": FENCED}
    with capture_logs() as lines, pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await remind(lambda: roles, lambda: 65.0, interval_s=0.01)
    assert len(lines) > 1
    assert {(line["event"], line["group"], line["reason"], line["for_s"]) for line in lines} == {
        ("still_not_leading", "lost", "fenced", 60)
    }


@pytest.fixture
def service() -> Service:
    return Service(GroupsConfig(properties={}))


def runner(*, fatal: bool = False, reason: NotLeading | None = None, detail: str = "") -> Any:
    return SimpleNamespace(fatal=membership.Fatal("fenced", 3) if fatal else None, role=Role(reason, detail))


def test_a_process_that_reaches_no_broker_yet_says_why(service: Service) -> None:
    assert not_ready(service) == "not connected yet"
    service.connecting.trouble = "No broker can be reached at bootstrap.servers (b:1)."
    assert not_ready(service) == "not connected yet: No broker can be reached at bootstrap.servers (b:1)."


def test_one_group_of_several_that_is_out_leaves_the_process_ready_and_is_named(service: Service) -> None:
    for out in (runner(fatal=True), runner(reason=NotLeading.DENIED, detail="no READ on Group 'a'")):
        service.runners = {"a": out, "b": runner()}
        assert not_ready(service) is None
        assert list(kept_out(service)) == ["a"]


def test_a_process_that_is_out_of_all_its_groups_is_not_ready(service: Service) -> None:
    denied = runner(reason=NotLeading.DENIED, detail="no READ on Group 'a'")
    service.runners = {"b": runner(fatal=True), "a": denied}
    assert not_ready(service) == "denied: no READ on Group 'a'; b: given up: fenced"
    service._observed = cast("Any", SimpleNamespace(observers={"c": None}))
    assert not_ready(service) is None


def test_a_group_that_waits_for_its_members_is_no_obstacle(service: Service) -> None:
    for reason in (NotLeading.EMPTY, NotLeading.MEMBER_LEADS, NotLeading.SET_BACK):
        service.runners = {"a": runner(reason=reason)}
        assert not_ready(service) is None
        assert kept_out(service) == {}
