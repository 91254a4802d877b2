"""`python -m tests.measure.readers`: how late timers on the loop of the memberships are, and on the one that starts the
HTTP server, while many read its largest page and many connections say nothing, beside those of a bare loop on the same
machine; the slowest probe.
"""

import argparse
import asyncio
import multiprocessing
import sys
import time
from contextlib import suppress
from multiprocessing.connection import Connection

from rich.console import Console

from bellwether_kafka.coordinator.runtime.loop_watch import LoopWatch, spare_collections
from bellwether_kafka.coordinator.runtime.membership_loop import membership_loop
from bellwether_kafka.coordinator.web import HttpServer
from tests.unit.coordinator.web.large import LARGE, application

HEARTBEAT_S = 0.25
PAUSE_S = 0.05
PROBE_PAUSE_S = 0.2


async def lateness(until: float) -> float:
    """The largest of a timer, in seconds."""
    worst = 0.0
    while (began := time.monotonic()) < until:
        await asyncio.sleep(HEARTBEAT_S)
        worst = max(worst, time.monotonic() - began - HEARTBEAT_S)
    return worst


def bare(until: float, to: Connection) -> None:
    to.send(asyncio.run(lateness(until)))


async def read(port: int, until: float) -> int:
    """One reader, which asks again as soon as it has its answer; how many it got."""
    got = 0
    while time.monotonic() < until:
        with suppress(OSError, asyncio.IncompleteReadError, IndexError, TimeoutError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                while time.monotonic() < until:
                    writer.write(f"GET /api/groups/{LARGE} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), max(0.1, until - time.monotonic()))
                    await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
                    got += head.startswith(b"HTTP/1.1 200")
                    if not head.startswith(b"HTTP/1.1 200"):
                        await asyncio.sleep(PAUSE_S)
            finally:
                writer.close()
        await asyncio.sleep(PAUSE_S)
    return got


async def be_silent(port: int, until: float) -> int:
    while time.monotonic() < until:
        with suppress(OSError, TimeoutError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.wait_for(reader.read(), max(0.1, until - time.monotonic()))
            writer.close()
        await asyncio.sleep(PAUSE_S)
    return 0


def crowd(port: int, readers: int, silent: int, until: float, to: Connection) -> None:
    async def all_of_them() -> int:
        reading = [read(port, until) for _ in range(readers)]
        return sum(await asyncio.gather(*reading, *(be_silent(port, until) for _ in range(silent))))

    to.send(asyncio.run(all_of_them()))


def probes(port: int, until: float, to: Connection) -> None:
    async def probe() -> tuple[int, int, float]:
        asked, failed, slowest = 0, 0, 0.0
        while time.monotonic() < until:
            began, asked = time.monotonic(), asked + 1
            try:
                async with asyncio.timeout(10):
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                    failed += not (await reader.read()).startswith(b"HTTP/1.1 200")
                    writer.close()
            except (OSError, TimeoutError):
                failed += 1
            slowest = max(slowest, time.monotonic() - began)
            await asyncio.sleep(PROBE_PAUSE_S)
        return asked, failed, slowest

    to.send(asyncio.run(probe()))


async def measure(readers: int, silent: int, seconds: float) -> tuple[float, float, float, int, tuple[int, int, float]]:
    """(lateness of the memberships' loop, of this one, of a bare loop, answers, (probes, failed ones, the slowest))."""
    server = HttpServer(application())
    spare_collections()
    port = int((await server.start("127.0.0.1:0")).rpartition(":")[2])
    start, until = multiprocessing.get_context("spawn"), time.monotonic() + seconds
    ends = []
    for work, arguments in ((bare, (until,)), (crowd, (port, readers, silent, until)), (probes, (port, until))):
        mine, other = start.Pipe()
        start.Process(target=work, args=(*arguments, other), daemon=True).start()
        ends.append(mine)
    await asyncio.sleep(3.0)  # the programs start
    async with membership_loop(LoopWatch().run()) as loop:
        of_memberships = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(lateness(until), loop))
        beside = await lateness(until)
        late = await of_memberships
    without, answers, probed = [await asyncio.to_thread(end.recv) for end in ends]
    await server.stop()
    return late, beside, without, answers, probed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.measure.readers", description=__doc__)
    parser.add_argument("--readers", type=int, default=200)
    parser.add_argument("--silent", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    late, beside, without, answers, probed = asyncio.run(measure(options.readers, options.silent, options.seconds))
    console = Console(soft_wrap=True, highlight=False)
    console.print(f"{options.readers} readers, {options.silent} silent connections, {options.seconds:.0f} s")
    console.print(f"  largest lateness of the loop of the memberships: {late * 1e3:.0f} ms,")
    console.print(f"    of the one beside it: {beside * 1e3:.0f} ms, of a bare loop: {without * 1e3:.0f} ms")
    console.print(f"  probes: {probed[0]}, failed: {probed[1]}, slowest: {probed[2] * 1e3:.0f} ms; answers: {answers}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
