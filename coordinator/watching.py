"""What each watch of the process needs: turns that an error does not end, and troubles that are logged once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn


async def every(pause_s: float, turn: Callable[[], Awaitable[object]], log: Any, failed: str) -> NoReturn:
    """Takes a turn after each pause, until cancelled. One that raises is logged under the event `failed`."""
    while True:
        await asyncio.sleep(pause_s)
        try:
            await turn()
        except Exception:
            log.exception(failed)


class Troubles:
    """The present trouble of each subject, such as a group. `write` gets what to log, by `log.warning` for example."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def __contains__(self, subject: str) -> bool:
        return subject in self._reasons

    def report(self, write: Callable[..., object], event: str, reason: str, *, of: str = "", **fields: object) -> None:
        """Logs a reason that is not the last one of its subject. "": there is no trouble any more."""
        if reason and self._reasons.get(of) != reason:
            write(event, reason=reason, **fields)
        if reason:
            self._reasons[of] = reason
        else:
            self._reasons.pop(of, None)
