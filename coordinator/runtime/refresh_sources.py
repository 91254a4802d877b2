"""The sources that observers of groups read from. They are opened for the first observer: a process that only leads
does not need them."""

from collections.abc import Mapping

from bellwether_kafka.coordinator.kafka import client, wire
from bellwether_kafka.coordinator.observation import SharedGroups, SharedOffsets, Sources
from bellwether_kafka.coordinator.runtime.outside import Outside


class RefreshSources:
    """The sources of one process. `properties` are librdkafka's."""

    def __init__(self, transport: wire.Transport, properties: Mapping[str, str], outside: Outside) -> None:
        self.shared = SharedGroups(transport)
        self._transport = transport
        self._properties = properties
        self._outside = outside
        self._opened: tuple[client.SharedReader, SharedOffsets] | None = None

    @property
    def reader(self) -> client.SharedReader:
        return self._open()[0]

    @property
    def sources(self) -> Sources:
        reader, offsets = self._open()
        return Sources(self._transport, reader, offsets, self.shared)

    def close(self) -> None:
        if self._opened is not None:
            reader, offsets = self._opened
            offsets.close()
            reader.close()

    def _open(self) -> tuple[client.SharedReader, SharedOffsets]:
        if self._opened is None:
            reader = self._outside.shared_cluster(self._properties)
            self._opened = reader, self._outside.shared_offsets(reader, self._transport, self.shared)
        return self._opened
