"""The time of a process. On an event loop it is that loop's, so that a simulation, whose loop jumps from timer to
timer, runs the same code; elsewhere it is the machine's, which is what an ordinary loop has, too."""

import asyncio
import time


def monotonic() -> float:
    """Returns seconds that never go back."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:  # a thread without a loop
        return time.monotonic()


def wall() -> float:
    """Returns seconds since the epoch. A loop may have a method `wall`."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return time.time()
    own = getattr(loop, "wall", None)
    return float(own()) if own is not None else time.time()
