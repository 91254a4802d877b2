"""The creation of the control topic by brokers that answer everything but that."""

import asyncio
import threading
from collections.abc import Iterator

import pytest
from kafka.protocol.admin.topics import CreateTopicsRequest
from kafka.protocol.metadata import ApiVersionsResponse

from bellwether_kafka.coordinator.control import (
    ControlTopicError,
    ensure_topic,
)
from bellwether_kafka.coordinator.control import topic as control_topic
from tests.kit.answering_brokers import LOOPBACK, Brokers, Size

pytestmark = pytest.mark.embedded


class WithoutController(Brokers):
    """Brokers that never answer CreateTopics, as without a quorum of controllers."""

    def _api_versions(self, *of: object) -> object:
        answer = super()._api_versions(*of)
        entry = ApiVersionsResponse.ApiVersion
        answer.api_keys.append(entry(api_key=CreateTopicsRequest.API_KEY, min_version=0, max_version=4))
        return answer

    def _answer(self, data: bytes, node: int) -> bytes:
        return b"" if int.from_bytes(data[:2]) == CreateTopicsRequest.API_KEY else super()._answer(data, node)


@pytest.fixture
def bootstrap() -> Iterator[str]:
    brokers, serving, ended = WithoutController(Size(1, 1, 1)), threading.Event(), threading.Event()

    async def run() -> None:
        await brokers.serve()
        serving.set()
        await asyncio.to_thread(ended.wait)
        brokers.close()

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    assert serving.wait(30)
    yield f"{LOOPBACK}:{brokers.ports[0]}"
    ended.set()
    thread.join()


def test_a_controller_that_does_not_answer_is_a_reason_to_try_again(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that reads orders ended by the TimeoutError, and no order was read until the next start."""
    monkeypatch.setattr(control_topic, "METADATA_TIMEOUT_S", 1.0)
    with pytest.raises(ControlTopicError, match="'control' cannot be reached"):
        ensure_topic({"bootstrap.servers": bootstrap}, "control")
