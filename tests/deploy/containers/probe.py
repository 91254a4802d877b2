"""Runs in a container beside the composition and shows what the brokers say of its groups, as JSON over HTTP on 8080.

/state: groups, their members, what they have committed and the ends of their topics. /tally: what the application must
have counted, from the records themselves. /late: how many of its counts were written late. Needs confluent-kafka only;
it knows nothing of Bellwether.
"""

import http.server
import json
import os
import struct
import zlib
from collections.abc import Iterator
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

BOOTSTRAP = os.environ.get("BOOTSTRAP_SERVERS", "kafka-1:9092,kafka-2:9092,kafka-3:9092")
LIMIT_S = 10.0
CHANGELOG = "counts-counts-changelog"
# The end of a count in the changelog: how often its key was seen, its highest number, how many came after a higher one.
COUNT = struct.Struct(">qqq")
GROUPS = {"orders-view": "orders", "counts": "clicks"}


def state() -> dict[str, Any]:
    """Of each group: `state`, `members` (client ids), `own` (whether Bellwether is one), `committed` and `ends`. Asked
    with a new client: one that is kept may wait for the broker that was there before."""
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    described = admin.describe_consumer_groups(list(GROUPS), request_timeout=LIMIT_S)
    states = {}
    for group, topic in GROUPS.items():
        reported = described[group].result(LIMIT_S)
        clients = [member.client_id for member in reported.members]
        wanted = ConsumerGroupTopicPartitions(group)
        offsets = next(iter(admin.list_consumer_group_offsets([wanted], request_timeout=LIMIT_S).values())).result(
            LIMIT_S
        )
        committed = {p.partition: p.offset for p in offsets.topic_partitions if p.topic == topic}
        states[group] = {
            "state": reported.state.name,
            "members": sorted(client for client in clients if "bellwether" not in client),
            "own": any("bellwether" in client for client in clients),
            "committed": committed,
            "ends": ends(admin, topic),
        }
    return states


def ends(admin: AdminClient, topic: str) -> dict[int, int]:
    partitions = admin.list_topics(topic, LIMIT_S).topics[topic].partitions
    latest = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in partitions}
    asked = admin.list_offsets(latest, request_timeout=LIMIT_S)
    return {tp.partition: answer.result(LIMIT_S).offset for tp, answer in asked.items()}


def records(topic: str) -> Iterator[Message]:
    """Everything in a topic, one partition after another."""
    consumer = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": "nobody", "enable.auto.commit": False})
    for partition, end in ends(AdminClient({"bootstrap.servers": BOOTSTRAP}), topic).items():
        consumer.assign([TopicPartition(topic, partition, 0)])
        at = 0
        while at < end:
            for message in consumer.consume(1000, 1.0):
                if message.error() is None:
                    at = message.offset() + 1
                    yield message
                elif message.error().code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(message.error())
    consumer.close()


def tally(topic: str) -> dict[str, int]:
    """The sums that the application's stores must hold."""
    numbers: dict[bytes, set[int]] = {}
    highest: dict[bytes, int] = {}
    seen = after_a_higher_one = 0
    for message in records(topic):
        key, number = message.key(), int(message.value())
        seen += 1
        after_a_higher_one += number < highest.get(key, 0) and number not in numbers[key]
        numbers.setdefault(key, set()).add(number)
        highest[key] = max(number, highest.get(key, 0))
    distinct = {key: len(counted) for key, counted in numbers.items()}
    return {
        "keys": len(numbers),
        "seen": seen,
        "distinct": sum(distinct.values()),
        "missing": sum(highest.values()) - sum(distinct.values()),
        "digest": sum(zlib.crc32(key + b"=%d" % count) for key, count in distinct.items()),
        "late": after_a_higher_one,
    }


def late() -> int:
    """How many counts in the changelog are smaller than the one before them: an instance wrote them after another had
    taken its task over. Where that one's copy is restored, records are counted as missing."""
    last: dict[bytes, int] = {}
    late_records = 0
    for message in records(CHANGELOG):
        if message.value() is not None:
            number = COUNT.unpack(message.value()[-COUNT.size :])[1]
            late_records += number < last.get(message.key(), 0)
            last[message.key()] = number
    return late_records


ANSWERS = {"/state": state, "/tally": lambda: tally("clicks"), "/late": late}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        try:
            code, body = 200, json.dumps(ANSWERS[self.path]())
        except Exception as error:  # noqa: BLE001 - each error is an answer
            code, body = 503, str(error)
        self.send_response(code)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Nothing."""


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("", 8080), Handler).serve_forever()
