"""The ASGI application: metrics, probes, decisions and a read-only page. It accepts GET and HEAD only.

A client that can reach the port can read the names of groups, topics and clients, and can change nothing. The page has
its own scripts and styles and loads nothing from other servers.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from importlib.resources import files
from typing import Any, cast

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from bellwether_kafka.coordinator.names import without_kept_secrets
from bellwether_kafka.coordinator.observation import Group, values_of, values_of_group
from bellwether_kafka.coordinator.web.led_rebalances import LedRebalances
from bellwether_kafka.coordinator.web.observed import Present
from bellwether_kafka.coordinator.web.picture import Picture
from bellwether_kafka.coordinator.web.responses import SENT_MAX, BusyError, HttpAnswers

PLAIN, JSON = "text/plain; charset=utf-8", "application/json"
GROUP_PATH, OVERVIEW_PATH = "/api/groups/", "/api/overview/"
SCRIPT = "text/javascript; charset=utf-8"
SCRIPTS = ("page.js", "overview.js", "group.js", "members.js", "parts.js")
PAGE = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    **{f"/{name}": (name, SCRIPT) for name in SCRIPTS},
}
# What /api/groups has of each group: all that needs no answer of a broker.
OF_PROCESS = (*("group", "mode", "state", "leading", "role", "generation", "members", "emptying", "applied_plan"),)
NO_GROUP = b"This process has no group of that name.\n"
NO_PAGE = (
    b"There are /, /metrics, /livez, /readyz, /decisions, /api/overview, /api/overview/NAME, /api/groups and"
    b" /api/groups/NAME.\n"
)
HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'"),
)

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: HTTPStatus
    kind: str
    body: bytes


READS = ("GET", "HEAD")
METRICS_PATH = "/metrics"
PROBES = ("/livez", "/readyz")
CHUNK_BYTES = 262_144  # of a body; the next chunk is sent when the client has taken this one
SENT_BYTES_PER_S = 40_000_000  # to all clients together, because sending also uses the processor
BUSY = HttpAnswer(HTTPStatus.SERVICE_UNAVAILABLE, PLAIN, b"Too many requests wait; ask again.\n")


class Web:
    """The read-only application. `ready` returns why the service is not ready, None if it is; `ready` and `groups` must
    return at once. `pictures` returns the picture of a led group, by default that of `rebalances`; `observed` returns
    what an observed group has; `overview` returns the row of one group, or for "" those of all, the worst first.

    `stuck` returns why the process is not alive, None if it is; `remark` what is wrong although it is ready. A leader
    that waits in JoinGroup is alive, but may not be ready. The server's thread answers probes at once; all other
    answers are made in another thread.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        ready: Callable[[], str | None],
        groups: Callable[[], Sequence[Group]] = tuple,
        rebalances: LedRebalances | None = None,
        pictures: Callable[[str], Picture | None] | None = None,
        observed: Callable[[str], Present | None] = lambda _: None,
        overview: Callable[[str], Sequence[Group]] = lambda _: (),
        stuck: Callable[[], str | None] = lambda: None,
        remark: Callable[[], str] = str,
    ) -> None:
        self._registry = registry
        self._ready = ready
        self._groups = groups
        self._rebalances = rebalances or LedRebalances()
        self._picture = pictures or self._rebalances.picture
        self._observed = observed
        self._overview = overview
        self._stuck = stuck
        self._remark = remark
        self._answers = HttpAnswers()

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answers one request; its body is not read."""
        method, path = scope["method"], scope["path"]
        if method not in READS or path in PROBES:
            await _send(scope, send, self.answer(method, path))
            return
        accept = dict(scope["headers"]).get(b"accept", b"").decode("latin-1") if path == METRICS_PATH else ""
        try:
            async with self._answers:
                made = await self._answers.of((path, accept), lambda: self.answer("GET", path, accept))
                answer = cast("HttpAnswer", made)
                await _send(scope, send, answer)
                await asyncio.sleep(len(answer.body) * SENT_MAX / SENT_BYTES_PER_S)
        except BusyError:
            await _send(scope, send, BUSY)

    def answer(self, method: str, path: str, accept: str = "") -> HttpAnswer:
        """Returns the answer to a request. Secrets are removed: reasons may contain them in errors of libraries."""
        answer = self._answer(method, path, accept)
        return replace(answer, body=without_kept_secrets(answer.body))

    def _answer(self, method: str, path: str, accept: str) -> HttpAnswer:
        if method not in READS:
            return HttpAnswer(HTTPStatus.METHOD_NOT_ALLOWED, PLAIN, b"Only GET and HEAD.\n")
        if path in PAGE:
            name, kind = PAGE[path]
            return HttpAnswer(HTTPStatus.OK, kind, files(__package__).joinpath("page", name).read_bytes())
        if path.startswith(GROUP_PATH):
            return self._group(path.removeprefix(GROUP_PATH))
        if path.startswith(OVERVIEW_PATH):
            return self._rows(path.removeprefix(OVERVIEW_PATH))
        match path:
            case "/metrics":
                return self._metrics(accept)
            case "/livez":
                return _probe(self._stuck())
            case "/readyz":
                return _probe(self._ready(), self._remark())
            case "/decisions":
                return _json(self._rebalances.lines())
            case "/api/groups":
                return _json([{name: getattr(group, name) for name in OF_PROCESS} for group in self._groups()])
            case "/api/overview":
                return self._rows("")
        return HttpAnswer(HTTPStatus.NOT_FOUND, PLAIN, NO_PAGE)

    def _metrics(self, accept: str) -> HttpAnswer:
        try:
            encode, kind = choose_encoder(accept)
        except (TypeError, ValueError):  # the header has an invalid version: the default format is sent
            encode, kind = choose_encoder("")
        return HttpAnswer(HTTPStatus.OK, kind, encode(self._registry))

    def _rows(self, group: str) -> HttpAnswer:
        rows = [values_of_group(each) for each in self._overview(group)]
        return _json(rows) if rows or not group else HttpAnswer(HTTPStatus.NOT_FOUND, PLAIN, NO_GROUP)

    def _group(self, name: str) -> HttpAnswer:
        shown = self._picture(name) or self._observed(name)
        if shown is None:
            text = b"This process leads or observes no such group, or brokers have not shown it yet.\n"
            return HttpAnswer(HTTPStatus.NOT_FOUND, PLAIN, text)
        return _json(shown)


def _probe(trouble: str | None, remark: str = "") -> HttpAnswer:
    status = HTTPStatus.OK if trouble is None else HTTPStatus.SERVICE_UNAVAILABLE
    passes = f"ok, but {remark}" if remark else "ok"
    return HttpAnswer(status, PLAIN, f"{trouble or passes}\n".encode())


async def _send(scope: Scope, send: Send, answer: HttpAnswer) -> None:
    headers = [(b"content-type", answer.kind.encode()), (b"content-length", str(len(answer.body)).encode())]
    if answer.status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers.append((b"allow", b"GET, HEAD"))
    await send({"type": "http.response.start", "status": answer.status.value, "headers": [*headers, *HEADERS]})
    body = b"" if scope["method"] == "HEAD" else answer.body
    for at in range(0, len(body) - CHUNK_BYTES, CHUNK_BYTES):
        await send({"type": "http.response.body", "body": body[at : at + CHUNK_BYTES], "more_body": True})
        await asyncio.sleep(0)  # lets other connections run, and notices a closed one
    rest = max(0, (len(body) - 1) // CHUNK_BYTES * CHUNK_BYTES)
    await send({"type": "http.response.body", "body": body[rest:]})


def _json(value: object) -> HttpAnswer:
    """Returns JSON values and frozen dataclasses as an answer. `asdict` is not used, because its copies of nested
    values would take most of the time."""
    return HttpAnswer(HTTPStatus.OK, JSON, json.dumps(value, default=values_of, separators=(",", ":")).encode())
