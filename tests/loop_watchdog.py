"""Sees calls that may wait for another system, and long work, on the thread of the memberships, which sends heartbeats
(ARCHITECTURE.md, "Nothing may touch the heartbeat")."""

import asyncio
import gc
import json
import ssl
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any

# How its name begins. It is written down here, as the runtime takes seconds to import and every test would.
MEMBERSHIP = "bellwether-membership"
LOOKUPS = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")
EVENTS = (*LOOKUPS, "subprocess.Popen", "os.system", "open", "socket.connect")
FILES = ("load_cert_chain", "load_verify_locations", "load_default_certs", "set_default_verify_paths")
METHODS: tuple[tuple[Any, str], ...] = (
    *((ssl.SSLContext, name) for name in FILES),
    (time, "sleep"),
    (json.JSONEncoder, "iterencode"),
    (json.JSONEncoder, "encode"),
    (json.JSONDecoder, "decode"),
)
PROGRAM = (".py", ".pyc", ".json", ".so")  # modules, and the schemas that kafka-python reads once
CALLBACK_S = 0.1  # of CPU time: other threads and programs do not count

_received: Callable[[str], None]
_seen: list[str] = []
_collecting = threading.local()


def install(received: Callable[[str], None] = _seen.append) -> None:
    """Once for a process; it cannot be undone. `heard` takes each call with where it came from."""
    global _received  # noqa: PLW0603 - as the hooks, it is the process'
    _received = received
    sys.addaudithook(_receive)
    for owner, name in METHODS:
        setattr(owner, name, _reported(name, getattr(owner, name)))
    gc.callbacks.append(_collects)
    run = asyncio.Handle._run  # type: ignore[attr-defined]  # where every callback of a loop passes
    setattr(asyncio.Handle, "_run", _timed(run))  # noqa: B010 - mypy would see a method assigned


def taken() -> list[str]:
    """The calls since the last time this was asked, where `install` was given no other place for them."""
    blocked = _seen.copy()
    _seen.clear()
    return blocked


def _watched() -> bool:
    return threading.current_thread().name.startswith(MEMBERSHIP)


def _receive(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in EVENTS or not _watched():
        return
    if event == "socket.connect" and arguments[0].gettimeout() == 0:
        return  # it does not block
    if event == "open" and (not isinstance(arguments[0], str) or arguments[0].endswith(PROGRAM)):
        return
    _report(f"{event}{arguments[:2]}")


def _reported(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def called(*arguments: Any, **more: Any) -> Any:
        if _watched():
            _report(name)
        return call(*arguments, **more)

    return called


def _timed(run: Callable[[Any], None]) -> Callable[[Any], None]:
    @wraps(run)
    def timed(handle: Any) -> None:
        if not _watched():
            return run(handle)
        began = _worked_s()
        run(handle)
        if (took_s := _worked_s() - began) > CALLBACK_S:
            _report(f"a callback of {took_s:.2f} s: {handle!r}")
        return None

    return timed


def _worked_s() -> float:
    """Returns the CPU seconds of this thread without garbage collections, which mostly visit the objects of tests."""
    return time.thread_time() - getattr(_collecting, "took_s", 0.0)


def _collects(phase: str, _: object) -> None:
    if phase == "start":
        _collecting.began = time.thread_time()
    else:
        _collecting.took_s = getattr(_collecting, "took_s", 0.0) + time.thread_time() - _collecting.began


def _report(what: str) -> None:
    _received(f"{what} on {threading.current_thread().name}\n" + "".join(traceback.format_stack(limit=8)[:-2]))
