"""Kafka's streams_standby_replica_test.py: three instances with one standby replica each come and go in every order;
tasks and replicas stay even, nothing is lost, and no replica is restored from further back than it was written."""

import re

from tests.lab.kafka.systests.programs import FailedError, Program
from tests.lab.kafka.systests.scene import TESTS, Application, Scene

SOURCE = "standbyTaskSource1"
SINKS = ("standbyTaskSink1", "standbyTaskSink2")
MESSAGES = 60_000  # Kafka: 300,000 at 15,000 a second
THROUGHPUT = 3_000
LEGACY = "org.apache.kafka.streams.processor.internals.assignment.LegacyStickyTaskAssignor"
CLIENT = {
    "consumer.max.poll.interval.ms": "50000",
    "producer.retries": "2",
    "producer.request.timeout.ms": "15000",
    "producer.max.block.ms": "30000",
}
INTERNALS = "org.apache.kafka.streams.processor.internals"
OFFSETS = re.compile(r"(?:Assigning and seeking|Writing checkpoint).*\{(.*)\}")


def extra(**configs: str) -> str:
    """The argument of these programs: properties with commas between. `configs` have underscores for points."""
    reported = {**CLIENT, **{name.replace("__", "."): value for name, value in configs.items()}}
    return ",".join(f"{name}={value}" for name, value in reported.items())


APPLICATION = Application(
    "kafka-streams-standby-tasks",
    f"{TESTS}.StreamsStandByReplicaTest",
    {"application.id": "kafka-streams-standby-tasks"},
    arguments=(
        extra(sourceTopic=SOURCE, sinkTopic1=SINKS[0], sinkTopic2=SINKS[1], internal__task__assignor__class=LEGACY),
    ),
    # Java's assignor of this test does not look at lags.
    settings={"num.standby.replicas": 1, "acceptable.recovery.lag": 9223372036854775807},
    java_policy="sticky",
    debug=(f"{INTERNALS}.StoreChangelogReader", f"{INTERNALS}.ProcessorStateManager"),
)
ALL, HALF, THIRD = (
    "ACTIVE_TASKS:6 STANDBY_TASKS:0",
    "ACTIVE_TASKS:3 STANDBY_TASKS:3",
    "ACTIVE_TASKS:2 STANDBY_TASKS:[1-3]",
)


def replicas(scene: Scene) -> None:
    scene.topics({SOURCE: 6, SINKS[0]: 1, SINKS[1]: 1})
    scene.lead(APPLICATION)
    producer = scene.produce(SOURCE, throughput=THROUGHPUT, max_messages=str(MESSAGES), acks="-1", repeating_keys="6")
    first, second, third = (scene.instance(APPLICATION, f"processor{number}") for number in (1, 2, 3))
    first.start()
    shown(first, ALL)
    second.start()
    shown(first, HALF)
    shown(second, HALF)
    third.start()
    for processor in (first, second, third):
        shown(processor, THIRD)
    first.stop()
    shown(second, HALF, 2)
    shown(third, HALF)
    second.stop()
    shown(third, ALL)
    first.start()
    shown(first, HALF)
    shown(third, HALF, 2)
    second.start()
    shown(first, THIRD)
    shown(second, THIRD)
    shown(third, THIRD, 2)
    third.stop()
    shown(first, HALF, 2)
    shown(second, HALF)
    first.stop()
    shown(second, ALL)
    third.start()
    shown(third, HALF)
    shown(second, HALF, 2)
    first.start()
    shown(first, THIRD)
    shown(second, THIRD, 2)
    shown(third, THIRD)
    for sink in SINKS:
        scene.consumed(sink, MESSAGES)
    producer.wait_for_end(60)
    for processor in (first, second, third):
        processor.stop()
    for processor in (first, second, third):
        never_back(processor)


def shown(processor: Program, pattern: str, times: int = 1) -> None:
    """Until it has shown this so often, all its starts together."""
    processor.wait(lambda: processor.count(pattern) >= times, 60, f"{pattern!r} {times} times of {processor.name}")


def never_back(processor: Program) -> None:
    """That no offset of a changelog is less than one before it, in checkpoints and restorations. Raises FailedError."""
    last: dict[str, int] = {}
    for offsets in OFFSETS.findall(processor.text("log")):
        for topic, _, offset in (pair.partition("=") for pair in offsets.split(", ") if "=" in pair):
            if offset.isdigit() and int(offset) < last.get(topic, -1):
                raise FailedError(f"{processor.name}: {topic} went back from {last[topic]} to {offset}")
            last[topic] = int(offset) if offset.isdigit() else last.get(topic, -1)
