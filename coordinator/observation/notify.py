"""Calls observers of events within a process."""

from collections.abc import Callable

import structlog

log = structlog.get_logger(__name__)


def notify(observer: Callable[..., None], *values: object) -> None:
    """Calls an observer. Its errors are logged and not raised: observers must not disturb the code they observe."""
    try:
        observer(*values)
    except Exception:
        log.exception("observer_failed", observer=repr(observer))
