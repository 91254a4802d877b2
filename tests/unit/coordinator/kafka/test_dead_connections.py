"""A connection that the network has forgotten: nobody closes it, and what is sent on it arrives nowhere.

The story runs in a network namespace of its own, in which an address can be taken away; where none can be made, the
tests are skipped.
"""

import asyncio
import os
import subprocess
import sys
import time

import pytest

from bellwether_kafka.coordinator.kafka.transport import Transport
from bellwether_kafka.coordinator.membership.commands import Join
from bellwether_kafka.coordinator.membership.events import Node, RequestFailed
from tests.unit.coordinator.kafka.test_transport import Mute

ALONE = ("unshare", "--map-root-user", "--net")
ADDRESS = "10.1.1.1"
JOIN_TIMEOUT_MS = 305_000  # as long as a rebalance may take
ENDED_WITHIN_S = 60.0  # the kernel gives up after about 20 s


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("sent", ["before", "after"])
def test_a_join_on_a_dead_connection_fails_long_before_its_time_is_over(sent: str) -> None:
    if subprocess.run([*ALONE, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("no network namespace can be made here")
    done = subprocess.run(
        [*ALONE, sys.executable, "-m", __spec__.name, sent], check=False, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < ENDED_WITHIN_S


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


async def story(sent: str) -> float:
    """Seconds until the request fails that was sent before the address went, or after."""
    ip("link", "set", "lo", "up")
    ip("address", "add", f"{ADDRESS}/32", "dev", "lo")
    broker = Mute(ADDRESS)
    node = Node(1, *broker.address)
    transport = Transport({"bootstrap.servers": f"{node.host}:{node.port}", "bellwether.api.version": "2.3"})
    await transport.start(5_000)
    join = Join(1, node, "g", JOIN_TIMEOUT_MS, "", None, (), "", 1, 1)
    pending = asyncio.create_task(transport.request(join))
    await asyncio.sleep(1)
    ip("address", "del", f"{ADDRESS}/32", "dev", "lo")
    began = time.monotonic()
    if sent == "after":
        pending.cancel()
        pending = asyncio.create_task(transport.request(join))
    failed = await asyncio.wait_for(pending, ENDED_WITHIN_S)
    assert isinstance(failed, RequestFailed)
    return time.monotonic() - began


if __name__ == "__main__":
    sys.stdout.write(str(asyncio.run(story(sys.argv[1]))))
    sys.stdout.flush()
    os._exit(0)  # without waiting for what is left of the connections
