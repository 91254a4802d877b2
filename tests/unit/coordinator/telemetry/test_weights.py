"""Weights from the compacted topic: taken, replaced, dropped; what is no weight is counted and never used."""

import json
import os
import struct
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from structlog.testing import capture_logs

from bellwether_kafka.coordinator.cli.cost import weights_in_words
from bellwether_kafka.coordinator.settings import WeightSettings
from bellwether_kafka.coordinator.telemetry import WeightReader, weight_reader
from bellwether_kafka.coordinator.telemetry.weight_reader import key_of
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.brokers import EmbeddedCluster
from tests.kit.plans import SCHEMAS, WEIGHED_AT_MS, weight_record
from tests.paths import DOCS
from tests.patience import PATIENCE

FIND_COORDINATOR, GROUP_AUTHORIZATION_FAILED = 10, 30
PUBLISHED = DOCS / "reference" / "schemas"


def reader(age_ms_max: int = 1_000) -> WeightReader:
    properties = {"bootstrap.servers": "127.0.0.1:1"}
    return WeightReader(
        properties, WeightSettings(topic="weights", age_ms_max=age_ms_max), wall_clock=lambda: WEIGHED_AT_MS / 1000
    )


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30 * PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_last_word_on_a_partition_counts_and_a_tombstone_ends_it() -> None:
    weights = reader()
    first, second = TopicPartition("a-b", 1), TopicPartition("t", 2)
    weights.take(key_of(first), weight_record(first, 5.0))
    weights.take(key_of(first), weight_record(first, 7.0))
    weights.take(key_of(second), weight_record(second, 1.0))
    assert dict(weights.usable().of) == {first: 7.0, second: 1.0}
    weights.take(key_of(first), None)
    weights.take(b"\xff", None)
    assert dict(weights.usable().of) == {second: 1.0}


@pytest.mark.parametrize("text", [None, b"", b"many", b"\xff", b"nan", b"inf", b"-1"])
def test_the_error_of_a_weight_is_in_a_header_and_need_not_be(text: bytes | None) -> None:
    weights, first, second = reader(), TopicPartition("t", 0), TopicPartition("t", 1)
    weights.take(key_of(first), weight_record(first, 5.0), [("other", b"2"), ("standard-error", b"0.25")])
    weights.take(key_of(second), weight_record(second, 7.0), [("standard-error", text)])
    assert dict(weights.usable().of) == {first: 5.0, second: 7.0}
    assert dict(weights.usable().errors) == {first: 0.25}
    weights.take(key_of(first), weight_record(first, 5.0))
    assert not weights.usable().errors, "a later record has none"


def test_weights_age_out_and_absurd_ones_are_not_used() -> None:
    weights = reader(age_ms_max=1_000)
    for p, (value, at_ms) in enumerate(
        [(1.0, WEIGHED_AT_MS - 2_000), (-1.0, WEIGHED_AT_MS), (1.0, WEIGHED_AT_MS + 10**7), (2.0, WEIGHED_AT_MS)]
    ):
        partition = TopicPartition("t", p)
        weights.take(key_of(partition), weight_record(partition, value, at_ms))
    assert dict(weights.usable().of) == {TopicPartition("t", 3): 2.0}
    shown = weights.describe()
    assert (shown["known"], shown["used"]) == (4, 1)
    assert shown["refused"] == {"absurd": 1, "from the future": 1, "old": 1}
    assert shown["heaviest"] == [{"partition": "t-3", "bytes_per_s": 2.0}]


def test_a_refusal_is_logged_when_it_begins_and_when_it_ends() -> None:
    weights, partition = reader(age_ms_max=1_000), TopicPartition("t", 0)
    with capture_logs() as logs:
        weights.usable()
        weights.take(key_of(partition), weight_record(partition, 1.0, WEIGHED_AT_MS - 2_000))
        weights.usable()
        weights.usable()
        weights.take(key_of(partition), weight_record(partition, 1.0, WEIGHED_AT_MS))
        weights.usable()
    assert [(line["event"], line["log_level"]) for line in logs] == [
        ("weights_refused", "warning"),
        ("weights_refused", "info"),
    ]


def test_what_is_clamped_is_reported_for_the_topics_that_a_group_reads() -> None:
    weights = reader()
    sizes = {TopicPartition("t", p): size for p, size in enumerate([100.0, 100.0, 0.0, 10.0**9])}
    for partition, size in {**sizes, TopicPartition("other", 0): 5.0}.items():
        weights.take(key_of(partition), weight_record(partition, size, WEIGHED_AT_MS - 500))
    shown = weights.describe(topics={"t"})
    assert (shown["known"], shown["used"], shown["clamped"]) == (4, 4, 2)
    lines = weights_in_words({**shown, "refused": {"old": 3}})
    assert lines[0] == "weights from weights: 4 of 4 are used, 0 to 0 s old"
    assert [line.split()[0] for line in lines[1:]] == ["2", "3"]
    assert weights.describe(topics={"nobody's"})["clamped"] == 0


def test_records_that_are_no_weights_are_counted_by_reason() -> None:
    weights = reader()
    partition = TopicPartition("t", 0)
    good = weight_record(partition, 1.0)
    weights.take(b"t-0", b"junk")
    weights.take(b"t-0", good[:-1])
    weights.take(b"t-1", good)
    weights.take(b"t-0", good[:2] + bytes(8) + good[10:])
    change = {"group": "g", "generation": 1, "changed_at_ms": 0, "change": "left", "member": "m", "member_id": "m"}
    weights.take(b"t-0", SCHEMAS.encode("membership", {**change, "instance_id": None, "rack": None}))
    assert weights.usable().of == {}
    assert weights.refused == {
        "not an event": 1,
        "malformed": 1,
        "wrong key": 1,
        "unknown schema": 1,
        "not a weight": 1,
    }


EMPTY = 0xC15D213AA4D7A795


def crc_64_avro(data: bytes) -> bytes:
    """The fingerprint of a schema, as the Avro specification defines it, little endian."""
    remainders = []
    for remainder in range(256):
        for _ in range(8):
            remainder = remainder >> 1 ^ (EMPTY if remainder & 1 else 0)  # noqa: PLW2901 - eight times itself
        remainders.append(remainder)
    crc = EMPTY
    for byte in data:
        crc = crc >> 8 ^ remainders[(crc ^ byte) & 0xFF]
    return crc.to_bytes(8, "little")


def whole(number: int) -> bytes:
    """A whole number in Avro: zigzag, seven bits in each byte."""
    left, out = number << 1 ^ number >> 63, bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


WRITE: dict[str, Callable[[Any], bytes]] = {
    "string": lambda text: whole(len(text.encode())) + text.encode(),
    "int": whole,
    "long": whole,
    "double": lambda number: struct.pack("<d", number),
}


def test_a_weight_that_is_written_by_the_published_schema_alone_is_read() -> None:
    schema = json.loads((PUBLISHED / "weight.avsc").read_text(encoding="utf-8"))
    fields = ",".join(f'{{"name":"{f["name"]}","type":"{f["type"]}"}}' for f in schema["fields"])
    canonical = f'{{"name":"{schema["namespace"]}.{schema["name"]}","type":"record","fields":[{fields}]}}'
    example = json.loads((PUBLISHED / "weight-record.json").read_text(encoding="utf-8"))
    value = b"\xc3\x01" + crc_64_avro(canonical.encode())
    assert value.hex() == example["header"]
    value += b"".join(WRITE[field["type"]](example["value"][field["name"]]) for field in schema["fields"])
    assert value.hex() == example["bytes"]
    weights = WeightReader(
        {"bootstrap.servers": "127.0.0.1:1"},
        WeightSettings(topic="weights"),
        wall_clock=lambda: example["value"]["estimated_at_ms"] / 1000,
    )
    weights.take(example["key"].encode(), value)
    assert weights.usable().of == {TopicPartition("orders", 3): 1234.5}
    assert not weights.refused


@pytest.mark.embedded
def test_weights_are_read_while_certificate_files_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first time they are there."""
    file, answers, calls = tmp_path / "ca.pem", threading.Event(), count()
    file.touch()
    stat = Path.stat

    def hanging(path: Path, **more: Any) -> os.stat_result:
        if path == file and next(calls):
            answers.wait(60 * PATIENCE)
        return stat(path, **more)

    with EmbeddedCluster(brokers=1) as brokers:
        brokers.create_topic("weights", 1)
        properties = brokers.properties | {"ssl.ca.location": str(file)}
        read = WeightReader(properties, WeightSettings(topic="weights", create_topic=False))
        monkeypatch.setattr(Path, "stat", hanging)
        read.start()
        producer = Producer({"bootstrap.servers": brokers.bootstrap})
        for number in (1, 2, 3):
            producer.produce("weights", b"no weight", b"orders-0")
            producer.flush(30)
            until(lambda number=number: read.refused.total() == number)  # type: ignore[misc]  # default
        assert next(calls) > 1
        answers.set()
        read.close()


@pytest.mark.embedded
def test_weights_are_sorted_by_the_thread_that_reads_them_and_not_for_each_plan() -> None:
    """A broker waits for 20 ms, and the weights of a cluster with 20,000 partitions took longer."""
    partition = TopicPartition("orders", 0)
    with EmbeddedCluster(brokers=1) as brokers:
        brokers.create_topic("weights", 1)
        read = WeightReader(brokers.properties, WeightSettings(topic="weights", create_topic=False))
        read.start()
        producer = Producer({"bootstrap.servers": brokers.bootstrap})
        for rate in (5.0, 7.0):
            producer.produce("weights", weight_record(partition, rate, int(time.time() * 1000)), key_of(partition))
            producer.flush(30)
            until(lambda rate=rate: read.usable().of == {partition: rate})  # type: ignore[misc]  # default
        assert read.usable() is read.usable()
        read.close()


def test_what_was_sorted_by_a_thread_that_is_silent_is_sorted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    weights, partition = reader(), TopicPartition("t", 1)
    weights._sort_again(changed=True)
    weights.take(key_of(partition), weight_record(partition, 5.0))
    assert not weights.usable().of
    monkeypatch.setattr(weight_reader, "SORTED_S_MAX", 0.0)
    assert weights.usable().of == {partition: 5.0}


@pytest.mark.embedded
def test_weights_are_read_without_any_right_to_a_group() -> None:
    """librdkafka looks for the node of the group that it wants of every consumer, and is refused."""
    with EmbeddedCluster(brokers=1) as brokers:
        brokers.create_topic("weights", 1)
        brokers.push_errors(FIND_COORDINATOR, *[GROUP_AUTHORIZATION_FAILED] * 1_000)
        producer = Producer({"bootstrap.servers": brokers.bootstrap})
        producer.produce("weights", b"no weight", b"orders-0")
        producer.flush(30)
        read = WeightReader(brokers.properties, WeightSettings(topic="weights", create_topic=False))
        read.start()
        until(lambda: bool(read.refused.total()))
        read.close()
    assert read.refused.total() == 1


@pytest.mark.embedded
def test_a_topic_that_could_not_be_created_at_the_start_is_created_later(monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedCluster(brokers=1) as brokers:
        brokers.create_topic("weights", 1)
        brokers.set_topic_error("weights", KafkaError.UNKNOWN_TOPIC_OR_PART)
        attempts: list[str] = []

        def create(_properties: object, topic: str, *_: object) -> str:
            attempts.append(topic)
            if len(attempts) > 1:
                brokers.set_topic_error("weights", 0)
            return ""

        monkeypatch.setattr(weight_reader, "create_topic", create)
        monkeypatch.setattr(weight_reader, "CREATE_TOPIC_S", 0.1)
        monkeypatch.setattr(weight_reader, "RETRY_S", 0.2)
        read = WeightReader(brokers.properties, WeightSettings(topic="weights"))
        read.start()
        until(lambda: len(attempts) > 1 and not read.trouble)
        read.close()
