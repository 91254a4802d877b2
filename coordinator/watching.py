"""What each watch of the process needs: turns that an error does not end, and troubles that are logged once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

from structlog.typing import FilteringBoundLogger

Write = Callable[..., object]  # such as `log.warning`: gets an event, and fields


async def every(
    pause_s: float, turn: Callable[[], Awaitable[object]], log: FilteringBoundLogger, failed: str
) -> NoReturn:
    """Takes a turn after each pause, until cancelled. One that raises is logged under the event `failed`."""
    while True:
        await asyncio.sleep(pause_s)
        try:
            await turn()
        except Exception:
            log.exception(failed)


class Troubles:
    """The present trouble of each subject, such as a group."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def __contains__(self, subject: str) -> bool:
        return subject in self._reasons

    def report(self, write: Write, event: str, reason: str, *, of: str = "", **fields: object) -> None:
        """Logs a reason that is not the last one of its subject. "": there is no trouble any more."""
        if not reason:
            self.over(of)
        elif self._reasons.get(of) != reason:
            write(event, reason=reason, **fields)
            self._reasons[of] = reason

    def over(self, of: str = "") -> None:
        """The subject has no trouble any more."""
        self._reasons.pop(of, None)
