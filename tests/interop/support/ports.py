"""Ports on loopback that nothing else takes while a test has them."""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

LOOPBACK = "127.0.0.1"


# Below the range from which Linux takes ports of outgoing connections, so that a stopped node gets its port back.
PORTS = range(20_000, 32_000)


class PortLease:
    """A loopback port nobody listens on, reserved between processes by a lock that dies with this process."""

    def __init__(self) -> None:
        leases = Path(tempfile.gettempdir()) / f"bellwether-ports-{os.getuid()}"
        leases.mkdir(exist_ok=True)
        for port in random.SystemRandom().sample(PORTS, k=500):
            handle = (leases / str(port)).open("w")
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                handle.close()
                continue
            if _bindable(port):
                self.port = port
                self._handle = handle
                return
            handle.close()
        raise RuntimeError("no free loopback port")

    def release(self) -> None:
        self._handle.close()


def _bindable(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
