"""Sees calls that may wait for another system on the two threads that send heartbeats, and long work on that of the
memberships (ARCHITECTURE.md, "Nothing may touch the heartbeat")."""

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

# How names of threads begin. They are written down here, as the runtime takes seconds to import and every test would.
IO, MEMBERSHIP = ("kafka-io-",), ("bellwether-membership",)
BOTH = IO + MEMBERSHIP
EVENTS = {
    **dict.fromkeys(("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"), BOTH),
    **dict.fromkeys(("subprocess.Popen", "os.system", "open"), BOTH),
    "socket.connect": MEMBERSHIP,
}
METHODS: dict[tuple[Any, str], tuple[str, ...]] = {
    **dict.fromkeys(((ssl.SSLContext, "load_cert_chain"), (ssl.SSLContext, "load_verify_locations")), BOTH),
    **dict.fromkeys(((ssl.SSLContext, "load_default_certs"), (ssl.SSLContext, "set_default_verify_paths")), BOTH),
    (time, "sleep"): BOTH,
    (json.JSONEncoder, "iterencode"): MEMBERSHIP,
    (json.JSONEncoder, "encode"): MEMBERSHIP,
    (json.JSONDecoder, "decode"): MEMBERSHIP,
}
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
    for (owner, name), threads in METHODS.items():
        setattr(owner, name, _reported(name, getattr(owner, name), threads))
    gc.callbacks.append(_collects)
    run = asyncio.Handle._run  # type: ignore[attr-defined]  # where every callback of a loop passes
    setattr(asyncio.Handle, "_run", _timed(run))  # noqa: B010 - mypy would see a method assigned


def taken() -> list[str]:
    """The calls since the last time this was asked, where `install` was given no other place for them."""
    blocked = _seen.copy()
    _seen.clear()
    return blocked


def _on(threads: tuple[str, ...]) -> bool:
    return threading.current_thread().name.startswith(threads)


def _receive(event: str, arguments: tuple[Any, ...]) -> None:
    threads = EVENTS.get(event)
    if threads is None or not _on(threads):
        return
    if event == "open" and (not isinstance(arguments[0], str) or arguments[0].endswith(PROGRAM)):
        return
    _report(f"{event}{arguments[:2]}")


def _reported(name: str, call: Callable[..., Any], threads: tuple[str, ...]) -> Callable[..., Any]:
    @wraps(call)
    def called(*arguments: Any, **more: Any) -> Any:
        if _on(threads):
            _report(name)
        return call(*arguments, **more)

    return called


def _timed(run: Callable[[Any], None]) -> Callable[[Any], None]:
    @wraps(run)
    def timed(handle: Any) -> None:
        if not _on(MEMBERSHIP):
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
