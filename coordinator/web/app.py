"""What HTTP answers, as an ASGI application: metrics, probes, decisions and a read-only page. GET and HEAD only.

Anybody who can reach the port can learn what groups, topics and clients are called and can do nothing. The page comes
with its own script and style and asks nobody else for anything.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from importlib.resources import files
from typing import Any
from urllib.parse import unquote

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from bellwether_kafka.coordinator.membership import Role
from bellwether_kafka.coordinator.web.observed import Present
from bellwether_kafka.coordinator.web.picture import Picture
from bellwether_kafka.coordinator.web.rounds import Rounds

PLAIN, JSON = "text/plain; charset=utf-8", "application/json"
GROUP_PATH = "/api/groups/"
PAGE = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
}
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
class RoleStatus:
    """Why this process does not lead a group that it is to lead; the texts are empty while it leads. `since_ms` is when
    that began, in milliseconds since 1970; `next_attempt_ms` is None where no attempt is due."""

    reason: str
    detail: str
    remedy: str
    since_ms: int
    next_attempt_ms: int | None


def role_status(role: Role, epoch_s: float) -> RoleStatus:
    """`epoch_s` is when the role's clock stood at 0, in seconds since 1970."""
    due = role.next_attempt
    return RoleStatus(
        role.reason.value if role.reason is not None else "",
        role.detail,
        role.remedy,
        int((role.since + epoch_s) * 1000),
        int((due + epoch_s) * 1000) if due is not None else None,
    )


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """One configured group, as the page lists it. `role` is None for groups that are only observed."""

    group: str
    mode: str
    state: str
    leading: bool
    role: RoleStatus | None
    generation: int
    members: int


@dataclass(frozen=True, slots=True)
class Answer:
    status: HTTPStatus
    kind: str
    body: bytes


class Web:
    """Reads, never acts. `ready` says why the service is not ready, None if it is; it and `groups` answer at once.
    `pictures` are those of `rounds` unless given; `observed` has what groups show that are only looked at.

    Alive means that the event loop turns: a leader that waits in JoinGroup is alive, and may be not ready.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        ready: Callable[[], str | None],
        groups: Callable[[], Sequence[GroupStatus]] = tuple,
        rounds: Rounds | None = None,
        pictures: Callable[[str], Picture | None] | None = None,
        observed: Callable[[str], Present | None] = lambda _: None,
    ) -> None:
        self._registry = registry
        self._ready = ready
        self._groups = groups
        self._rounds = rounds or Rounds()
        self._picture = pictures or self._rounds.picture
        self._observed = observed

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answers one request; its body is not read."""
        accept = dict(scope["headers"]).get(b"accept", b"").decode("latin-1")
        answer = self.answer(scope["method"], scope["path"], accept)
        headers = [(b"content-type", answer.kind.encode()), (b"content-length", str(len(answer.body)).encode())]
        if answer.status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers.append((b"allow", b"GET, HEAD"))
        await send({"type": "http.response.start", "status": answer.status.value, "headers": [*headers, *HEADERS]})
        body = b"" if scope["method"] == "HEAD" else answer.body
        await send({"type": "http.response.body", "body": body})

    def answer(self, method: str, path: str, accept: str = "") -> Answer:
        """What a request gets."""
        if method not in ("GET", "HEAD"):
            return Answer(HTTPStatus.METHOD_NOT_ALLOWED, PLAIN, b"Only GET and HEAD.\n")
        if path in PAGE:
            name, kind = PAGE[path]
            return Answer(HTTPStatus.OK, kind, files(__package__).joinpath("page", name).read_bytes())
        if path.startswith(GROUP_PATH):
            return self._group(unquote(path.removeprefix(GROUP_PATH)))
        match path:
            case "/metrics":
                return self._metrics(accept)
            case "/livez":
                return Answer(HTTPStatus.OK, PLAIN, b"ok\n")
            case "/readyz":
                reason = self._ready()
                status = HTTPStatus.OK if reason is None else HTTPStatus.SERVICE_UNAVAILABLE
                return Answer(status, PLAIN, f"{reason or 'ok'}\n".encode())
            case "/decisions":
                return _json([asdict(line) for line in self._rounds.lines()])
            case "/api/groups":
                return _json([asdict(group) for group in self._groups()])
        known = b"There are /, /metrics, /livez, /readyz, /decisions, /api/groups and /api/groups/NAME.\n"
        return Answer(HTTPStatus.NOT_FOUND, PLAIN, known)

    def _metrics(self, accept: str) -> Answer:
        try:
            encode, kind = choose_encoder(accept)
        except (TypeError, ValueError):  # a version that is no version: as for those who accept anything
            encode, kind = choose_encoder("")
        return Answer(HTTPStatus.OK, kind, encode(self._registry))

    def _group(self, name: str) -> Answer:
        shown = self._picture(name) or self._observed(name)
        if shown is None:
            text = b"No round of this group has been led by this process yet, nor has it observed the group.\n"
            return Answer(HTTPStatus.NOT_FOUND, PLAIN, text)
        return _json(asdict(shown))


def _json(value: object) -> Answer:
    return Answer(HTTPStatus.OK, JSON, json.dumps(value, separators=(",", ":")).encode())
