"""SASL logins whose steps run outside of the I/O thread: a token may have to be requested, a GSSAPI step may query a
KDC, and SCRAM computes for as many iterations as the broker demands.

A re-authentication on an open connection (KIP-368) delays everything sent on it, heartbeats included. So it begins only
when its token or ticket is available.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from kafka import errors as kafka_errors
from kafka.net.connection import KafkaConnection, SaslReauthenticator
from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslBytesRequest, SaslHandshakeRequest

from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.kafka.wire.outside_calls import OutsideCalls
from bellwether_kafka.coordinator.kafka.wire.tokens import Token, TokenKeeper

STEPS_MAX = 16
LOGIN_S = 5.0  # for a re-authentication, once its token or ticket is available
PREPARE_S = 30.0  # for getting that; the connection is used meanwhile
AGAIN_S = 2.0

T = TypeVar("T")


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
    """One login: a mechanism of the library, and the first bytes for the broker."""

    def __init__(self, mechanism: Any, first: bytes) -> None:
        self.mechanism = mechanism
        self.first: bytes | None = first

    def next(self) -> bytes:
        first, self.first = self.first, None
        sent: bytes = self.mechanism.auth_bytes() if first is None else first
        return sent


class Logins:
    """Makes logins. For the I/O thread only."""

    def __init__(self, net: Any, keeper: TokenKeeper | None) -> None:
        self._steps = OutsideCalls(net, "login", STEPS_MAX)
        self._tokens = OutsideCalls(net, "token", 1)
        self._keeper = keeper
        self._requested: Any = None

    async def begun(self, host: str, config: dict[str, Any], until: float) -> Login:
        """Starts a login. Raises what the mechanism raises, TokenError, or KafkaTimeoutError."""
        if self._keeper is not None:
            config = config | {"sasl_oauth_token_provider": FixedToken(await self._token(self._keeper, until))}

        def begin() -> Login:
            mechanism = get_sasl_mechanism(config["sasl_mechanism"])(host=host, **config)
            return Login(mechanism, mechanism.auth_bytes())

        return await self.step(begin, until)

    async def step(self, call: Callable[[], T], until: float) -> T:
        return await self._steps.result(call, until)

    async def _token(self, keeper: TokenKeeper, until: float) -> Token:
        """Returns a token. All connections that wait share one request."""
        if self._requested is None or self._requested.is_done:
            self._requested = self._tokens.begin(keeper.token)
        token: Token = await self._tokens.by(until, self._requested)
        return token


class Connection(KafkaConnection):  # type: ignore[misc]  # the library has no types
    """The library's connection, with logins from `Logins`."""

    def __init__(self, net: Any, logins: Logins, **config: Any) -> None:
        super().__init__(net, **config)
        self.logins = logins
        self.prepared: Login | None = None
        self._reauth = _LaterLogin(self)

    @property
    def sasl_host(self) -> str:
        """The host name from the settings instead of its address, because GSSAPI needs it."""
        host: str = self.transport.host or self.transport.getPeer()[0]
        return host

    async def _sasl_authenticate(self, timeout_at: float | None = None) -> None:
        until = clocks.monotonic() + LOGIN_S if timeout_at is None else timeout_at
        wanted = self.config["sasl_mechanism"]
        offered = await self._send_request(SaslHandshakeRequest(mechanism=wanted, max_version=1), timeout_at=until)
        _check(offered.error_code)
        if wanted not in offered.mechanisms:
            raise kafka_errors.UnsupportedSaslMechanismError(
                f"Kafka broker does not support {wanted} sasl mechanism. Enabled mechanisms: {offered.mechanisms}"
            )
        framed = offered.API_VERSION == 1
        login, self.prepared = self.prepared or await self.logins.begun(self.sasl_host, self.config, until), None
        mechanism, lifetime_ms = login.mechanism, 0
        while not mechanism.is_done() and clocks.monotonic() < until:
            sent = await self.logins.step(login.next, until)
            request = SaslAuthenticateRequest(sent) if framed else SaslBytesRequest(sent)
            answer = await self._send_request(request, timeout_at=until)
            refused = kafka_errors.for_code(answer.error_code)
            if refused is not kafka_errors.NoError:
                raise kafka_errors.SaslAuthenticationFailedError(f"{refused.__name__}: {answer.error_message}")
            if framed:
                lifetime_ms = answer.session_lifetime_ms
            elif mechanism.is_done():
                break  # GSSAPI without frames gets no last answer
            await self.logins.step(_received(mechanism, answer.auth_bytes), until)
        if not mechanism.is_done():
            raise kafka_errors.KafkaTimeoutError("SASL Authentication timed out")
        if not mechanism.is_authenticated():
            raise kafka_errors.SaslAuthenticationFailedError(f"Failed to authenticate via SASL {wanted}")
        if framed:
            self._reauth.session_updated(lifetime_ms)


class _LaterLogin(SaslReauthenticator):  # type: ignore[misc]  # the library has no types
    """Gets a token or ticket while the connection is still used. Without one the connection ends with its session."""

    async def _run(self) -> None:
        self._task = None
        connection = self._conn
        until = clocks.monotonic() + PREPARE_S
        while not connection.closed and clocks.monotonic() < until:
            try:
                config, host = connection.config, connection.sasl_host
                connection.prepared = await connection.logins.begun(host, config, until)
            except Exception:  # noqa: BLE001 - another system's error, whatever it is; retried
                await connection.net.sleep(AGAIN_S)
                continue
            break
        if connection.prepared is not None:
            await super()._run()


def _received(mechanism: Any, sent: bytes) -> Callable[[], None]:
    return lambda: mechanism.receive(sent)


def _check(code: int) -> None:
    error = kafka_errors.for_code(code)
    if error is not kafka_errors.NoError:
        raise error()
