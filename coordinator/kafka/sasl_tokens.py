"""Our tokens as kafka-python asks for them at each login."""

from kafka.net.sasl.oauth import AbstractTokenProvider

from bellwether_kafka.coordinator.kafka.tokens import TokenKeeper


class Tokens(AbstractTokenProvider):  # type: ignore[misc]  # the library has no types
    """Asked on the IO thread, at a connection's login and at every later one (KIP-368)."""

    def __init__(self, keeper: TokenKeeper) -> None:
        super().__init__()
        self._keeper = keeper

    def token(self) -> str:
        return self._keeper.token().value

    def extensions(self) -> dict[str, str]:
        return dict(self._keeper.token().extensions)
