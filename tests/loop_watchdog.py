"""Sees calls on the I/O thread that may wait for another system: names, files, programs, certificates.

Heartbeats of all groups wait for that thread (ARCHITECTURE.md, "Nothing may touch the heartbeat").
"""

import ssl
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any

WATCHED = ("kafka-io-",)  # names of threads
EVENTS = frozenset(
    {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "subprocess.Popen", "os.system", "open"}
)
METHODS = ("load_cert_chain", "load_verify_locations", "load_default_certs", "set_default_verify_paths")
PROGRAM = (".py", ".pyc", ".json", ".so")  # modules, and the schemas that kafka-python reads once

_seen: list[str] = []


def install() -> None:
    """Once for a process; it cannot be undone."""
    sys.addaudithook(_hear)
    for name in METHODS:
        setattr(ssl.SSLContext, name, _reported(name, getattr(ssl.SSLContext, name)))
    time.sleep = _reported("sleep", time.sleep)


def taken() -> list[str]:
    """The calls since the last time this was asked, each with where it came from."""
    found = _seen.copy()
    _seen.clear()
    return found


def watched() -> bool:
    return threading.current_thread().name.startswith(WATCHED)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in EVENTS or not watched():
        return
    if event == "open" and (not isinstance(arguments[0], str) or arguments[0].endswith(PROGRAM)):
        return
    _report(f"{event}{arguments[:2]}")


def _reported(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def called(*arguments: Any, **more: Any) -> Any:
        if watched():
            _report(name)
        return call(*arguments, **more)

    return called


def _report(what: str) -> None:
    _seen.append(f"{what} on {threading.current_thread().name}\n" + "".join(traceback.format_stack(limit=8)[:-2]))
