"""Kafka's streams_static_membership_test.py: static instances are bounced, and no rebalance follows."""

import re

from tests.lab.kafka.systests.programs import FailedError, Program
from tests.lab.kafka.systests.scene import ONE_STEP, TESTS, Application, Scene

TOPIC = "inputTopic"
THREADS = 3
BOUNCES = 3
RUNNING = "REBALANCING -> RUNNING"
STOPPED = "Static membership test closed"
GENERATION = re.compile(r"Successfully joined group with generation Generation\{generationId=(\d+),")
APPLICATION = Application(
    "StaticMemberTestClient",
    f"{TESTS}.StaticMemberTestClient",
    {
        "num.stream.threads": str(THREADS),
        "session.timeout.ms": "60000",
        "group.instance.id": "rehearsal",
        "input.topic": TOPIC,
        **ONE_STEP,
    },
)


def rolling_bounces(scene: Scene) -> None:
    scene.topics({TOPIC: 18})
    scene.lead(APPLICATION)
    names = ("consumer-A", "consumer-B", "consumer-C")
    processors = [scene.instance(APPLICATION, name, **{"group.instance.id": name}) for name in names]
    producer = scene.produce(TOPIC, acks="1")
    for processor in processors:
        processor.start()
        processor.wait_for(RUNNING)
    processing(processors)
    for _ in range(BOUNCES):
        for processor in processors:
            processor.mark()
            processor.stop()
            processor.wait_for(STOPPED)
            processor.start()
            processor.wait_for(RUNNING)
    one_generation(processors)
    processing(processors)
    for processor in processors:
        processor.stop()
        processor.wait_for(STOPPED)
    producer.stop()


def processing(processors: list[Program]) -> None:
    for processor in processors:
        processor.mark()
        processor.wait_for("PROCESSED")


def one_generation(processors: list[Program]) -> None:
    """That all joins after the first start were to the same generation. Raises FailedError."""
    seen: set[int] = set()
    for processor in processors:
        joined = [int(number) for number in GENERATION.findall(processor.text("log"))]
        if len(joined) < BOUNCES * THREADS:
            raise FailedError(f"{processor.name} joined {len(joined)} times in {BOUNCES} bounces")
        seen |= set(joined[-BOUNCES * THREADS :])
    if len(seen) > 1:
        raise FailedError(f"bounces of static members led to generations {sorted(seen)}")
