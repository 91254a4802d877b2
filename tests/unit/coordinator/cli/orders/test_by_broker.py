"""What an order's command reads of a group from brokers that answer one call, both or neither."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from bellwether_kafka.coordinator.cli.options import settings_for
from bellwether_kafka.coordinator.cli.orders.service import unfollowed_by_broker
from bellwether_kafka.coordinator.kafka import wire
from bellwether_kafka.coordinator.kafka.wire import BrokerGroup, TransportError, UnreachableError
from bellwether_kafka.coordinator.membership import Failure
from tests.kit.commands import CONVERTED

GROUP = "converted"
MISSING = BrokerGroup(GROUP, "consumer", 69)
STREAMS = BrokerGroup(GROUP, "streams", 0, state="Stable")
UNSUPPORTED = TransportError(Failure.UNSUPPORTED, "no such call")
TIMED_OUT = TransportError(Failure.TIMED_OUT, "no answer in time")


def unfollowed(
    monkeypatch: pytest.MonkeyPatch,
    consumer: BrokerGroup | TransportError,
    streams: BrokerGroup | TransportError,
    *,
    unreachable: UnreachableError | None = None,
    is_served: Callable[[], bool] = bool,
) -> str:
    """The sentence about a group whose brokers give these answers to the calls of both protocols."""
    answers = {"consumer": consumer, "streams": streams}

    class Brokers:
        def __init__(self, _properties: Mapping[str, str]) -> None:
            pass

        async def start(self, _timeout_ms: int) -> None:
            if unreachable is not None:
                raise unreachable

        async def describe_by_broker(self, _group_id: str, protocol: wire.BrokerProtocol) -> BrokerGroup:
            answer = answers[protocol]
            if isinstance(answer, TransportError):
                raise answer
            return answer

        async def close(self) -> None:
            pass

    monkeypatch.setattr(wire, "Transport", Brokers)
    settings, _ = settings_for("127.0.0.1:9092", None, GROUP)
    return unfollowed_by_broker(settings, GROUP, is_served)


@pytest.mark.parametrize("failure", [UNSUPPORTED, TIMED_OUT], ids=["unsupported", "timed out"])
def test_a_failed_call_for_streams_groups_does_not_hide_a_consumer_group(
    monkeypatch: pytest.MonkeyPatch, failure: TransportError
) -> None:
    message = unfollowed(monkeypatch, consumer=CONVERTED, streams=failure)
    assert message.startswith("The broker of 'converted' assigns with uniform, which follows no orders;")


def test_a_failed_call_for_consumer_groups_does_not_hide_a_streams_group(monkeypatch: pytest.MonkeyPatch) -> None:
    message = unfollowed(monkeypatch, consumer=TIMED_OUT, streams=STREAMS)
    assert message.startswith("The broker of 'converted' places its tasks (group.protocol=streams)")


def test_a_group_without_members_is_refused_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its members name an assignor that follows orders, but the command asked for another one."""
    message = unfollowed(monkeypatch, consumer=replace(CONVERTED, members=()), streams=MISSING)
    assert message.startswith("'converted' has no member now")


@pytest.mark.parametrize(
    ("consumer", "streams"),
    [(UNSUPPORTED, UNSUPPORTED), (MISSING, UNSUPPORTED), (MISSING, MISSING)],
    ids=["a broker before 4.0", "a classic group on 4.0", "a classic group"],
)
def test_nothing_is_refused_where_the_broker_describes_no_such_group(
    monkeypatch: pytest.MonkeyPatch, consumer: BrokerGroup | TransportError, streams: BrokerGroup | TransportError
) -> None:
    assert unfollowed(monkeypatch, consumer=consumer, streams=streams) == ""


def test_nothing_is_refused_where_no_broker_can_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = UnreachableError(Failure.TIMED_OUT, "no answer in time")
    assert unfollowed(monkeypatch, consumer=CONVERTED, streams=MISSING, unreachable=silent) == ""


def test_only_a_group_whose_assignor_asks_bellwether_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def is_served() -> bool:
        asked.append("served")
        return True

    assert unfollowed(monkeypatch, consumer=CONVERTED, streams=MISSING, is_served=is_served)
    assert asked == []
    by_plan = replace(CONVERTED, assignor="bellwether-rack-first")
    assert unfollowed(monkeypatch, consumer=by_plan, streams=MISSING, is_served=is_served) == ""
    assert asked == ["served"]
