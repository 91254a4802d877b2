"""One connection to a broker, on the event loop: frames, requests in flight by correlation id, a deadline for each, the
versions of this broker, and its logins. kafka-python encodes and decodes; it opens and reads no socket.
"""

import asyncio
import io
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from kafka import errors as kafka_errors
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from kafka.version import __version__

from bellwether_kafka.coordinator.kafka.wire.logins import Login, Logins
from bellwether_kafka.coordinator.kafka.wire.outside_calls import OutsideCalls

SIZE_BYTES = 4  # of the length before each frame, and of the correlation id that begins it
LARGE_BYTES = 100_000  # a larger answer is decoded in a thread, so that it delays no heartbeat
LOGIN_S = 5.0  # for a later login, once its token or ticket is available
PREPARE_S = 30.0  # for getting that; the connection is used meanwhile
AGAIN_S = 2.0
RENEW_SHARES = (0.85, 0.95)  # of a session, drawn at random, so that connections do not log in all at once
LIFETIME_S_MIN = 1.0
UNSUPPORTED_VERSION = 35
THROTTLED_BY_CLIENTS_FROM = (2, 0)  # KIP-219: older brokers delay the answer themselves

DELETE_GROUPS, DELETE_GROUPS_OF_4_4 = 42, 3  # the number of a request, and its newest version in 4.4

T = TypeVar("T")


def release_of(versions: BrokerVersionData | None) -> tuple[int, ...]:
    """Returns the release of a broker that supports these versions of requests; () if they are not known. The library
    knows none after 4.3."""
    if versions is None:
        return ()
    _, newest = versions.api_versions.get(DELETE_GROUPS, (0, 0))
    return (4, 4) if newest >= DELETE_GROUPS_OF_4_4 else tuple(versions.broker_version)


def unsent(error: Exception) -> Exception:
    """Returns the error of a request that was not sent, because its connection had ended by this one. That an answer
    cannot be read is only said of the request's own: a group is given up for it."""
    is_of_answer = isinstance(error, kafka_errors.KafkaProtocolError)
    return kafka_errors.KafkaConnectionError(str(error)) if is_of_answer else error


@dataclass(frozen=True, slots=True)
class Sent:
    """A request on its way. `response` is the library's class of its answer; `read` makes a value of that."""

    response: Any
    read: Callable[[Any], Any]
    answer: "asyncio.Future[Any]"
    timer: asyncio.TimerHandle


class Connection(asyncio.Protocol):
    """A connection that is being opened, is open, or is closed for good. `host` is the broker's name in the settings or
    in its answers, which GSSAPI needs; with `logins`, each session begins with one. `versions`: those of a pinned
    release; they become the broker's. `logged_in`: how often. For one event loop."""

    def __init__(
        self,
        host: str,
        *,
        client_id: str,
        bytes_max: int,
        versions: BrokerVersionData | None,
        logins: Logins | None,
        decoding: OutsideCalls,
    ) -> None:
        self.host = host
        self.versions: Any = versions  # None only until the broker has told them
        self.logged_in = 0
        self.greeted = False  # whether it has been open
        self.error: Exception | None = None  # why it is closed
        self.ended: Callable[[Exception | None], object] = lambda _: None  # called once; None: it was dropped
        self._client_id = client_id
        self._bytes_max = bytes_max
        self._logins = logins
        self._decoding = decoding
        self._loop = asyncio.get_running_loop()
        self._stream: asyncio.Transport | None = None
        self._closed = self._loop.create_future()  # when the socket is
        self._received = bytearray()
        self._next_id = 0
        self._in_flight: dict[int, Sent] = {}
        self._none_in_flight = asyncio.Event()
        self._open = asyncio.Event()  # for requests: not before the first login, nor during a later one; closed, it is
        self._throttled_until = 0.0
        self._used_at = self._loop.time()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs a coroutine that ends with this connection."""
        task = self._loop.create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def idle_s(self) -> float:
        """Returns for how long nothing was sent or received, 0 with a request on its way."""
        return 0.0 if self._in_flight or not self._open.is_set() else self._loop.time() - self._used_at

    async def opened(self) -> None:
        """Returns once requests can be sent. Raises what has closed the connection."""
        await self._open.wait()
        if self.error is not None:
            raise self.error.with_traceback(None)

    async def send(self, message: Any, timeout_ms: int, read: Callable[[Any], T]) -> T:
        """Sends one of the library's requests and returns its answer, read. An answer that does not come in time closes
        the connection: all that follows on it would wait too. Raises what has closed it, and what `read` raises."""
        until = self._loop.time() + timeout_ms / 1000
        if not self._open.is_set() or self.error is not None or self._throttled_until > self._loop.time():
            await self._usable(until)
        value: T = await self._exchange(message, until, read)
        return value

    async def _usable(self, until: float) -> None:
        try:
            async with asyncio.timeout_at(until):
                await self.opened()
                while (wait_s := self._throttled_until - self._loop.time()) > 0:
                    await asyncio.sleep(wait_s)
                    await self.opened()  # a login may have begun meanwhile
        except TimeoutError:
            raise kafka_errors.KafkaTimeoutError(f"no request could be sent to {self.host} in time") from None
        except kafka_errors.KafkaProtocolError as error:
            raise unsent(error) from None

    def _exchange(
        self, message: Any, until: float, read: Callable[[Any], Any] = lambda response: response
    ) -> "asyncio.Future[Any]":
        if self.error is not None or self._stream is None:
            raise self.error or kafka_errors.KafkaConnectionError("not connected")
        if message.API_VERSION is None:
            message.API_VERSION = self.versions.api_version(message)
        self._next_id = number = (self._next_id + 1) % 2**31
        message.with_header(correlation_id=number, client_id=self._client_id)
        encoded = message.encode(framed=True, header=True)
        answer = self._loop.create_future()
        timer = self._loop.call_at(until, self._late, number)
        self._in_flight[number] = Sent(message.header.get_response_class(), read, answer, timer)
        self._none_in_flight.clear()
        self._used_at = self._loop.time()
        self._stream.write(encoded)
        return answer

    def _late(self, number: int) -> None:
        if number in self._in_flight:
            self.close(kafka_errors.RequestTimedOutError("Request timed out"))

    # ---- what the loop calls ---------------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self._stream = transport
        if self.error is not None:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        self._used_at = self._loop.time()
        self._received += data
        while len(self._received) >= SIZE_BYTES and self.error is None:
            size = int.from_bytes(self._received[:SIZE_BYTES], signed=True)
            if not SIZE_BYTES <= size <= self._bytes_max:
                self.close(kafka_errors.InvalidReceiveError(f"{size} is no length of an answer"))
                return
            if len(self._received) < SIZE_BYTES + size:
                return
            with memoryview(self._received) as received:
                frame = bytes(received[SIZE_BYTES : SIZE_BYTES + size])
            del self._received[: SIZE_BYTES + size]
            self._take(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        why = "the connection was closed" if exc is None else str(exc) or type(exc).__name__
        self.close(kafka_errors.KafkaConnectionError(why))
        if not self._closed.done():
            self._closed.set_result(None)

    def _take(self, frame: bytes) -> None:
        number = int.from_bytes(frame[:SIZE_BYTES], signed=True)
        sent = self._in_flight.pop(number, None)
        if sent is None:
            self.close(kafka_errors.CorrelationIdError(f"an answer to request {number}, which was not sent"))
            return
        sent.timer.cancel()
        if not self._in_flight:
            self._none_in_flight.set()
        if len(frame) < LARGE_BYTES:
            self._settle(sent, lambda: _decoded(sent, frame))
            return
        decoding = self._decoding.begin(lambda: _decoded(sent, frame))
        decoding.add_done_callback(lambda done: self._settle(sent, done.result))

    def _settle(self, sent: Sent, outcome: Callable[[], tuple[int, Any]]) -> None:
        try:
            throttle_ms, value = outcome()
        except Exception as error:  # noqa: BLE001 - the sender of the request raises it
            if isinstance(error, kafka_errors.KafkaProtocolError):
                self.close(error)
            if not sent.answer.done():
                sent.answer.set_exception(error)
            return
        # The first answer may have one too, before it tells the versions.
        if throttle_ms > 0 and (not self.versions or self.versions.broker_version >= THROTTLED_BY_CLIENTS_FROM):
            self._throttled_until = max(self._throttled_until, self._loop.time() + throttle_ms / 1000)
        if not sent.answer.done():
            sent.answer.set_result(value)

    # ---- the beginning, logins, the end ------------------------------------------------------------------------------

    async def greet(self, until: float) -> None:
        """Learns the broker's versions and logs in. Then requests are sent. `until` is in seconds of the loop's
        clock."""
        await self._ask_versions(until)
        if self._logins is not None:
            await self._shake_hands(self._logins, until)
            await self._log_in(self._logins, await self._logins.begun(self.host, until), until)
        self.greeted = True
        self._open.set()

    async def _ask_versions(self, until: float) -> None:
        pinned, version = self.versions, ApiVersionsRequest.max_version
        if pinned is not None:
            version = pinned.api_version(ApiVersionsRequest)
        while True:
            request = ApiVersionsRequest(
                version=version, client_software_name="kafka-python", client_software_version=__version__
            )
            answer = await self._exchange(request, until)
            if answer.error_code != UNSUPPORTED_VERSION or not version:
                break
            offered = {key.api_key: key.max_version for key in answer.api_keys}
            version = min(version - 1, offered.get(request.API_KEY, 0))
        _check(answer.error_code)
        own = BrokerVersionData(api_versions={k.api_key: (k.min_version, k.max_version) for k in answer.api_keys})
        if pinned is None or pinned > own:
            self.versions = own

    async def _shake_hands(self, logins: Logins, until: float) -> None:
        """Tells the broker which mechanism follows, before each login."""
        request = SaslHandshakeRequest(mechanism=logins.mechanism, min_version=1, max_version=1)
        offered = await self._exchange(request, until)
        if logins.mechanism not in (offered.mechanisms or [logins.mechanism]):
            raise kafka_errors.UnsupportedSaslMechanismError(
                f"the broker does not support the SASL mechanism {logins.mechanism}, only {offered.mechanisms}"
            )
        _check(offered.error_code)

    async def _log_in(self, logins: Logins, login: Login, until: float) -> None:
        sent: bytes | None = login.first
        while sent is not None:
            answer = await self._exchange(SaslAuthenticateRequest(sent), until)
            if answer.error_code:
                kind = kafka_errors.for_code(answer.error_code).__name__
                raise kafka_errors.SaslAuthenticationFailedError(f"{kind}: {answer.error_message}")
            sent = await login.next(answer.auth_bytes, until)
        self.logged_in += 1
        lifetime_s = (getattr(answer, "session_lifetime_ms", 0) or 0) / 1000
        if lifetime_s > 0:
            delay_s = max(LIFETIME_S_MIN, lifetime_s) * random.uniform(*RENEW_SHARES)  # noqa: S311 - no secret
            self.start(lambda: self._log_in_again(logins, delay_s))

    async def _log_in_again(self, logins: Logins, delay_s: float) -> None:
        """Gets a token or ticket while the connection is still used. Without one the connection ends with its session.
        Requests that come during the login wait, and it waits for those on their way: a broker expects nothing else in
        between."""
        await asyncio.sleep(delay_s)
        login = await self._prepared(logins)
        if login is None:
            return
        self._open.clear()
        try:
            await self._none_in_flight.wait()
            until = self._loop.time() + LOGIN_S
            await self._shake_hands(logins, until)
            await self._log_in(logins, login, until)
        except Exception as error:  # noqa: BLE001 - whatever the library and the mechanism raise: it ends the connection
            self.close(error)
        else:
            self._open.set()

    async def _prepared(self, logins: Logins) -> Login | None:
        until = self._loop.time() + PREPARE_S
        while self._loop.time() < until:
            try:
                return await logins.begun(self.host, until)
            except Exception:  # noqa: BLE001 - another system's error, whatever it is; retried
                await asyncio.sleep(AGAIN_S)
        return None

    def close(self, error: Exception | None = None) -> None:
        """Ends the connection at once, and all requests on it with this error; None if nobody needs it any more."""
        if self.error is not None:
            return
        self.error = error or kafka_errors.KafkaConnectionError("the connection was closed")
        if self._stream is not None:
            self._stream.abort()
        in_flight, self._in_flight = self._in_flight, {}
        for sent in in_flight.values():
            sent.timer.cancel()
            if not sent.answer.done():
                sent.answer.set_exception(self.error)
        self._open.set()
        current = asyncio.current_task(self._loop)
        for task in self._tasks:
            if task is not current:
                task.cancel()
        self.ended(error)

    async def closed(self) -> None:
        """Closes it, and returns when the socket is closed too."""
        self.close()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._stream is not None:
            await self._closed


def _decoded(sent: Sent, frame: bytes) -> tuple[int, Any]:
    """Returns the milliseconds for which the broker wants no request, and the value. Raises KafkaProtocolError, and
    what `read` raises."""
    try:
        buffer = io.BytesIO(frame)
        sent.response.parse_header(buffer)
        response = sent.response.decode(buffer)
    except Exception:  # noqa: BLE001 - any bytes may come, and the library raises what they lead to
        raise kafka_errors.KafkaProtocolError("an answer cannot be decoded") from None
    try:
        value = sent.read(response)
    except StopIteration:  # which no future takes: its sender would wait for ever
        raise LookupError("the answer lacks something") from None
    return getattr(response, "throttle_time_ms", 0) or 0, value


def _check(code: int) -> None:
    if code:
        error: Exception = kafka_errors.for_code(code)()
        raise error
