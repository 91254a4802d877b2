"""kafka-python's connection manager with connections that Bellwether names; `transport` alone uses it."""

from types import SimpleNamespace
from typing import Any

from kafka import errors as kafka_errors
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl.oauth import AbstractTokenProvider

from bellwether_kafka.coordinator.kafka.group_messages import GROUP_KEY_TYPE
from bellwether_kafka.coordinator.kafka.tokens import TokenKeeper
from bellwether_kafka.coordinator.membership import Node


class Connections(KafkaConnectionManager):  # type: ignore[misc]  # the library has no types
    """For the IO thread only."""

    def __init__(self, net: Any, **config: Any) -> None:
        super().__init__(net, **config)
        self._works = 0  # the bootstrap server that worked last for a first attempt
        self._behind: dict[str, Node] = {}

    async def any_broker(self, attempt: int = 0) -> Any:
        """A connection to the first bootstrap server that works, beginning `attempt` places after the one that did
        last."""
        brokers = self.cluster.bootstrap_brokers()
        error: Exception = kafka_errors.KafkaConnectionError("bootstrap.servers names no broker")
        for offset in range(len(brokers)):
            at = (self._works + attempt + offset) % len(brokers)
            try:
                connection = await self._opened(brokers[at].node_id)
            except Exception as failed:  # noqa: BLE001 - whatever TLS, SASL and the library raise: try the next
                error = failed
                continue
            if attempt == 0:
                self._works = at
            return connection
        raise error

    def named(self, key: str, node: Node) -> Any:
        """The connection of this name, opened anew if the node behind it has changed."""
        if self._behind.get(key) != node:
            self.drop(key)
            self._behind[key] = node
            # The only door through which the library lets a node in that it did not learn from Metadata.
            found = SimpleNamespace(node_id=key, host=node.host, port=node.port, error_code=0)
            self.cluster.add_coordinator(found, GROUP_KEY_TYPE, key, synthesize_node_id=False)
        return self._opened(key)

    def drop(self, key: str) -> None:
        self._behind.pop(key, None)
        self.close(node_id=key)
        self._conns.pop(key, None)
        self.reset_backoff(key)

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        """The library drops what it has read when the same read finds the end of the stream. But that is how a broker
        says why it refuses a login: one answer, then it closes. So the end is reported by the next read."""
        transport = await super()._build_transport(node, timeout_at=timeout_at)
        receive = transport._sock_recv  # noqa: SLF001 - the only place where both are known

        def last_words_first() -> tuple[bytes, Exception | None]:
            data, error = receive()
            return data, None if data else error

        transport._sock_recv = last_words_first  # noqa: SLF001 - as above
        return transport

    def _opened(self, key: str) -> Any:
        # The library remembers a refused login for ever; credentials can be put right, and it backs off anyway.
        self._auth_failures.pop(key, None)
        return self.get_connection(key, refresh_metadata_on_err=False)


class Tokens(AbstractTokenProvider):  # type: ignore[misc]  # the library has no types
    """Bellwether's tokens as kafka-python asks for them, on the IO thread: at each login, and later ones too
    (KIP-368)."""

    def __init__(self, keeper: TokenKeeper) -> None:
        super().__init__()
        self._keeper = keeper

    def token(self) -> str:
        return self._keeper.token().value

    def extensions(self) -> dict[str, str]:
        return dict(self._keeper.token().extensions)
