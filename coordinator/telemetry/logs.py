"""Logs: one structlog line per event, as JSON or plain text, without secrets.

Bytes from clients (userData, whole subscriptions) appear as a length and a digest. Kafka properties are hidden unless
they are on a list of harmless ones, so that a new secret property is hidden by default.
"""

import hashlib
import logging
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.names import HIDDEN, SECRETS, for_terminal, without_secrets

TEXT_LENGTH_MAX = 2_000
ITEMS_MAX = 50
DEPTH_MAX = 4
TRACEBACK_LENGTH_MAX = 16_000
TRACEBACKS = ("exception", "stack")
AGAIN_S = 60.0
REPORTED_MAX = 10_000
# Troubles that are met at each refresh or tick until they end, in each of perhaps a thousand groups.
REFRESHED = frozenset(
    {
        *("comparison_failed", "control_record_ignored", "internal_topics_missing", "internal_topics_not_created"),
        *("lags_unknown", "metadata_unknown", "metadata_watch_failed", "offsets_not_found_out", "offsets_unknown"),
        *("order_not_compared", "plan_not_served", "racks_not_compared", "sample_failed", "topology_not_learned"),
    }
)
_DIFFERS = ("timestamp", "generation")  # in lines on the same trouble
_NUMBER = re.compile(r"(?<![\w.-])\d+(?![\w-])")  # not that of a topic such as orders-1
SECRET_WORDS = (*SECRETS, "passwd", "user_data")
SHOWN_PROPERTIES = frozenset(
    {
        "bootstrap.servers",
        "client.id",
        "client.rack",
        "group.id",
        "group.instance.id",
        "sasl.mechanism",
        "sasl.mechanisms",
        "security.protocol",
        "socket.timeout.ms",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
    }
)
# Debug lines of `kafka` and `botocore` contain whole requests with credentials; Bellwether reports their errors itself.
LEVELS_OF_LIBRARIES = {
    "kafka": logging.CRITICAL,
    "botocore": logging.CRITICAL,
    "confluent_kafka": logging.WARNING,
    "asyncio": logging.WARNING,
}


class OnceAMinute:
    """A structlog processor that drops a line of REFRESHED if it equals one of the last AGAIN_S but for numbers in its
    reason. The next line has the number of dropped ones as `repeated`."""

    def __init__(self, clock: Callable[[], float] = clocks.monotonic) -> None:
        self._clock = clock
        self._reported: dict[str, tuple[float, int]] = {}  # when each was last logged, and how many were dropped since
        self._lock = threading.Lock()

    def __call__(self, _: WrappedLogger, __: str, event: EventDict) -> EventDict:
        if event.get("event") not in REFRESHED:
            return event
        kept = {name: value for name, value in event.items() if name not in _DIFFERS}
        line = repr({**kept, "reason": _NUMBER.sub("", str(event.get("reason")))})
        now = self._clock()
        with self._lock:
            at, dropped = self._reported.get(line, (float("-inf"), 0))
            if now < at + AGAIN_S:
                self._reported[line] = at, dropped + 1
                raise structlog.DropEvent
            if len(self._reported) >= REPORTED_MAX:
                self._reported.clear()
            self._reported[line] = now, 0
        return {**event, "repeated": dropped} if dropped else event


def redact(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """A structlog processor that hides secrets, shortens long values and replaces bytes by length and digest."""
    return {key: _clean(key, value, 0) for key, value in event.items()}


def _clean(key: str, value: object, depth: int) -> object:
    name = key.lower()
    if any(word in name for word in SECRET_WORDS) or (_is_property(name) and name not in SHOWN_PROPERTIES):
        return HIDDEN
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes, sha256 {hashlib.sha256(value).hexdigest()[:12]}>"
    if isinstance(value, str):
        return _traceback(value) if depth == 0 and name in TRACEBACKS else _text(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth >= DEPTH_MAX:
        return _text(str(value))
    if isinstance(value, Mapping):
        return {str(k): _clean(str(k), v, depth + 1) for k, v in list(value.items())[:ITEMS_MAX]}
    if isinstance(value, Sequence | set | frozenset):
        return [_clean(key, item, depth + 1) for item in list(value)[:ITEMS_MAX]]
    return value if isinstance(value, BaseException) else _text(str(value))


def _is_property(name: str) -> bool:
    return "." in name and name.replace(".", "").replace("_", "").isalnum()


def _text(value: str) -> str:
    """Returns text without secrets and terminal escapes, shortened: it may come from clients."""
    clean = without_secrets(value)
    shown = clean if len(clean) <= TEXT_LENGTH_MAX else f"{clean[:TEXT_LENGTH_MAX]}... ({len(value)} characters)"
    return for_terminal(shown, lines=True)


def _traceback(value: str) -> str:
    """Returns the end of a traceback, which contains the error."""
    clean = without_secrets(value)
    cut = f"({len(clean)} characters) ..." if len(clean) > TRACEBACK_LENGTH_MAX else ""
    return for_terminal(cut + clean[-TRACEBACK_LENGTH_MAX:], lines=True)


def configure_logs(
    level: Literal["debug", "info", "warning", "error"] = "info",
    style: Literal["auto", "json", "console"] = "auto",
    stream: TextIO | None = None,
) -> None:
    """Configures both structlog and the standard library's logging. "auto" is console on a terminal, else JSON."""
    stream = stream or sys.stderr
    as_json = style == "json" or (style == "auto" and not stream.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.PositionalArgumentsFormatter(),
    ]
    # A traceback is formatted before `redact`, since text added later would not be redacted. The interpreter's format
    # is used, because structlog's renderers would show the values of local variables.
    last: list[Processor] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.format_exc_info,
        redact,
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback),
    ]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=last))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name, least in LEVELS_OF_LIBRARIES.items():
        logging.getLogger(name).setLevel(least)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            OnceAMinute(),
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
