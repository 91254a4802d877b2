"""`bellwether run` with one pattern, before brokers in a process of their own that only answer what observing asks."""

import json
import multiprocessing
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.interop.support.bellwether import COMMAND, clean_environment, toml
from tests.interop.support.ports import LOOPBACK, PortLease
from tests.kit.answering_brokers import Brokers, Size, serve
from tests.paths import ROOT

LIMIT_S = 420.0
SEEN = "bellwether_observed_timestamp_seconds"
Counted = tuple[Mapping[str, int], Mapping[str, int], int]


class Run:
    """Both processes."""

    def __init__(self, link: Connection, process: "subprocess.Popen[bytes]", address: str) -> None:
        self._link = link
        self._process = process
        self._address = address

    @property
    def page(self) -> str:
        return f"http://{self._address}/"

    @property
    def pid(self) -> int:
        return self._process.pid

    def counted(self) -> Counted:
        """Requests and bytes by kind, and how many groups were described."""
        self._link.send(None)
        requests, sizes, described = self._link.recv()
        return requests, sizes, described

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{self._address}{path}", timeout=30) as answer:
            return str(answer.read().decode())

    def seen_at(self) -> dict[str, float]:
        """When each group was described last, seconds since 1970."""
        families = text_string_to_metric_families(self.get("/metrics"))
        return {s.labels["group"]: s.value for family in families for s in family.samples if s.name == SEEN}

    def wait_until_seen(self, groups: int) -> None:
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            assert self._process.poll() is None, "bellwether has ended"
            try:
                if sum(group["state"] == "stable" for group in json.loads(self.get("/api/groups"))) >= groups:
                    return
            except OSError:
                pass
            time.sleep(0.2)
        raise TimeoutError(f"not all of {groups} groups have been seen within {LIMIT_S:.0f} s")


@contextmanager
def brokers(size: Size, kind: type[Brokers] = Brokers) -> Iterator[tuple[Connection, str]]:
    """The link to their process, and their addresses."""
    context = multiprocessing.get_context("spawn")
    link, other = context.Pipe()
    process = context.Process(target=serve, args=(size, other, kind), daemon=True)
    process.start()
    other.close()
    try:
        yield link, ",".join(f"{LOOPBACK}:{port}" for port in link.recv())
    finally:
        link.close()
        process.join(10)


@contextmanager
def running(
    size: Size,
    folder: Path,
    kind: type[Brokers] = Brokers,
    match: str = "team-*",
    *,
    led: Sequence[str] = (),
    **more: str,
) -> Iterator[Run]:
    """`led` are to be led once they are empty; `more` are settings."""
    lease = PortLease()
    address = f"{LOOPBACK}:{lease.port}"
    with brokers(size, kind) as (link, servers), (folder / "log").open("wb") as log:
        entries = [{"match": match}, *({"name": name, "mode": "lead", "adopt": "when-empty"} for name in led)]
        settings = toml({"bootstrap.servers": servers}, entries, http_address=address, **more)
        (folder / "bellwether.toml").write_text(settings)
        command = [*COMMAND, "run", "--config", str(folder / "bellwether.toml")]
        process = subprocess.Popen(command, cwd=ROOT, env=clean_environment(), stdout=log, stderr=log)
        try:
            yield Run(link, process, address)
        except BaseException:
            sys.stderr.write((folder / "log").read_text()[-4000:])
            raise
        finally:
            process.terminate()
            process.wait(30)
            lease.release()
