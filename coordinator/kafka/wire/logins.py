"""SASL logins as state machines of the library, whose steps run outside of the loop: a token may have to be requested,
a GSSAPI step may query a KDC, and SCRAM computes for as many iterations as the broker demands.

A login on an open connection (KIP-368) delays everything sent on it, heartbeats included. So it begins only when its
token or ticket is available.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from kafka import errors as kafka_errors
from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider

from bellwether_kafka.coordinator.kafka.wire.kerberos import log_in
from bellwether_kafka.coordinator.kafka.wire.outside_calls import OutsideCalls
from bellwether_kafka.coordinator.kafka.wire.tokens import Token, TokenKeeper

STEPS_MAX = 16
FIRST_S = 30.0  # for the first ticket and the first token of a process


class FixedToken(AbstractTokenProvider):  # type: ignore[misc]  # the library has no types
    """A token that was already obtained, in the form kafka-python expects."""

    def __init__(self, token: Token) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token.value

    def extensions(self) -> dict[str, str]:
        return dict(self._token.extensions)


class Login:
    """One login. `first` are the first bytes for the broker."""

    def __init__(self, calls: OutsideCalls, mechanism: Any) -> None:
        self._calls = calls
        self._mechanism = mechanism
        self.first: bytes = mechanism.auth_bytes()

    async def next(self, received: bytes, until: float) -> bytes | None:
        """Returns the bytes that answer those of the broker, or None if the login is complete. Raises what the
        mechanism raises."""
        return await self._calls.result(lambda: self._step(received), until)

    def _step(self, received: bytes) -> bytes | None:
        self._mechanism.receive(received)
        if not self._mechanism.is_done():
            sent: bytes = self._mechanism.auth_bytes()
            return sent
        if not self._mechanism.is_authenticated():
            raise kafka_errors.SaslAuthenticationFailedError("the broker does not prove that it has the password")
        return None


class Logins:
    """Makes logins by the keyword arguments of the library's mechanisms. For one event loop."""

    def __init__(
        self, config: Mapping[str, Any], keeper: TokenKeeper | None = None, keytab: tuple[str, str] | None = None
    ) -> None:
        self.mechanism: str = config["sasl_mechanism"]
        self._config = config
        self._keeper = keeper
        self._keytab = keytab
        self._steps = OutsideCalls("login", STEPS_MAX)
        self._tokens = OutsideCalls("token", 1)
        self._requested: asyncio.Future[Token] | None = None

    async def prepare(self) -> None:
        """Gets the ticket or token that the first login needs. Raises KerberosError, TokenError, or
        KafkaTimeoutError."""
        until = asyncio.get_running_loop().time() + FIRST_S
        if self._keytab is not None:
            keytab = self._keytab
            await self._steps.result(lambda: log_in(*keytab), until)
        if self._keeper is not None:
            await self._token(self._keeper, until)

    async def begun(self, host: str, until: float) -> Login:
        """Starts a login at the broker of this name. Raises what the mechanism raises, TokenError, or
        KafkaTimeoutError."""
        config = dict(self._config)
        if self._keeper is not None:
            config["sasl_oauth_token_provider"] = FixedToken(await self._token(self._keeper, until))
        made = get_sasl_mechanism(self.mechanism)
        return await self._steps.result(lambda: Login(self._steps, made(host=host, **config)), until)

    async def _token(self, keeper: TokenKeeper, until: float) -> Token:
        """Returns a token. All connections that wait share one request."""
        if self._requested is None or self._requested.done():
            self._requested = self._tokens.begin(keeper.token)
        return await self._tokens.by(until, self._requested)
