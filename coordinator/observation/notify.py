"""How a process passes values on to those that observe it."""

from collections.abc import Callable

import structlog

log = structlog.get_logger(__name__)


def notify(observer: Callable[..., None], *values: object) -> None:
    """Calls an observer. Its errors are logged and go no further: observers must not disturb what they observe."""
    try:
        observer(*values)
    except Exception:
        log.exception("observer_failed", observer=repr(observer))
