"""Records of the control topic that are small on the wire and large in memory: gone past, in bounded memory."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import Producer

from bellwether_kafka.coordinator.control import InstanceHeartbeat, encode
from tests.kit.brokers import API_VERSION, EmbeddedCluster
from tests.paths import ROOT

pytestmark = pytest.mark.embedded

CODECS = ("gzip", "snappy", "lz4", "zstd")
UNPACKED_BYTES = 64_000_000
MORE_KB_MAX = 24_000  # than without bombs: what an answer may hold, a few times over

PEAK = """
def peak_kb():
    (line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
    return int(line.split()[1])
"""
COMMAND = """
import json, sys
from bellwether_kafka.coordinator.control import read_all
said = []
found = read_all(json.loads(sys.argv[1]), sys.argv[2], 30, said.append)
print(json.dumps([sorted(found), len(said), peak_kb()]))
"""
PROCESS = """
import asyncio, json, sys
from structlog.testing import capture_logs
from bellwether_kafka.coordinator.control import ControlTopic

async def run():
    found, read = set(), asyncio.Event()
    topic = ControlTopic(json.loads(sys.argv[1]), sys.argv[2])
    with capture_logs() as said:
        topic.start(lambda key, _: found.add(key), read.set)
        await asyncio.wait_for(read.wait(), 60)
        await topic.close()
    print(json.dumps([sorted(found), len(said), peak_kb()]))

asyncio.run(run())
"""


@pytest.fixture(scope="module")
def brokers() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1) as cluster:
        write(cluster, "harmless", [])
        write(cluster, "bombs", CODECS)
        yield cluster


def write(brokers: EmbeddedCluster, topic: str, codecs: Sequence[str]) -> None:
    """One bomb of each codec, then a heartbeat."""
    brokers.create_topic(topic, 1)
    for codec in codecs:
        large = {"message.max.bytes": 2 * UNPACKED_BYTES, "compression.codec": codec}
        producer = Producer({"bootstrap.servers": brokers.bootstrap, **large})
        producer.produce(topic, key=b"pause/orders", value=bytes(UNPACKED_BYTES))
        assert producer.flush(60) == 0
    producer = Producer({"bootstrap.servers": brokers.bootstrap})
    key, value = encode(InstanceHeartbeat("pod-1"))
    producer.produce(topic, key=key, value=value)
    assert producer.flush(60) == 0


def read(brokers: EmbeddedCluster, topic: str, how: str) -> tuple[list[str], int, int]:
    """The keys that were read, how many sentences were said, and the most memory that it took in kB."""
    properties = json.dumps({"bootstrap.servers": brokers.bootstrap, **API_VERSION})
    done = subprocess.run(
        [sys.executable, "-c", PEAK + how, properties, topic],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    keys, message, kilobytes = json.loads(done.stdout.splitlines()[-1])
    return keys, message, kilobytes


@pytest.mark.parametrize("how", [COMMAND, PROCESS], ids=["a command", "a process"])
def test_a_bomb_of_any_codec_is_one_sentence_and_what_comes_later_is_read(brokers: EmbeddedCluster, how: str) -> None:
    keys, message, kilobytes = read(brokers, "bombs", how)
    assert (keys, message) == (["beat/pod-1"], len(CODECS))
    assert kilobytes < read(brokers, "harmless", how)[2] + MORE_KB_MAX
