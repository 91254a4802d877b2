"""The weights of the configured topic, as commands read them: when a plan needs them, and in bounded time."""

import asyncio
import time
from collections.abc import Mapping

from bellwether_kafka.assignors.shared import Weights
from bellwether_kafka.coordinator.cli.output import echo
from bellwether_kafka.coordinator.settings import WeightSettings
from bellwether_kafka.coordinator.telemetry import WeightReader

TIMEOUT_S = 15.0  # longer than the reader waits for brokers that do not answer
IDLE_S = 2.0


class WeightsUnreadError(Exception):
    """The topic of weights cannot be read; the text is the reason."""


class TopicWeights:
    """Reads the topic with the first call of `read` and returns the newest weights with each. No weights if the topic
    cannot be read, as for a running Bellwether, with one warning on standard error. `close` ends the reading."""

    def __init__(self, properties: Mapping[str, str], config: WeightSettings) -> None:
        self._properties = properties
        self._config = existing(config)
        self._reader: WeightReader | None = None
        self._reading = asyncio.Lock()

    async def read(self) -> Weights:
        async with self._reading:
            return await asyncio.to_thread(self._read)

    def _read(self) -> Weights:
        if self._reader is None:
            self._reader = WeightReader(self._properties, self._config)
            self._reader.start()
            try:
                settle(self._reader)
            except WeightsUnreadError as error:
                warn_unread(self._config, error)
        return self._reader.usable()

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()


def existing(config: WeightSettings) -> WeightSettings:
    """Returns the settings of a reader that creates no topic."""
    return config.model_copy(update={"create_topic": False})


def settle(reader: WeightReader) -> None:
    """Returns once nothing new has arrived for a while. Raises WeightsUnreadError."""
    deadline, count, since = time.monotonic() + TIMEOUT_S, -1, time.monotonic()
    while time.monotonic() < deadline and (count <= 0 or time.monotonic() - since < IDLE_S):
        if reader.trouble:
            raise WeightsUnreadError(reader.trouble)
        now = reader.describe(0)["known"]
        if now != count:
            count, since = now, time.monotonic()
        time.sleep(0.1)


def warn_unread(config: WeightSettings, error: WeightsUnreadError) -> None:
    echo(f"Weights are left out: the topic {config.topic} cannot be read: {error}.", err=True)
