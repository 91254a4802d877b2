"""Topologies that change: a named repartition topic through a rolling change (streams_named_repartition_topic_test.py),
and an optimized topology after a reset (streams_optimized_test.py)."""

from dataclasses import replace

from tests.lab.kafka.systests.programs import Program
from tests.lab.kafka.systests.scene import ONE_STEP, SHORT_SESSIONS, TESTS, Application, Scene
from tests.lab.kafka.systests.topologies import reset

NAMED = Application(
    "StreamsNamedRepartitionTest",
    f"{TESTS}.StreamsNamedRepartitionTest",
    {
        "input.topic": "inputTopic",
        "aggregation.topic": "aggregationTopic",
        "add.operations": "false",
        **ONE_STEP,
        **SHORT_SESSIONS,
    },
)
STOPPED_NAMED = "NAMED_REPARTITION_TEST Streams Stopped"
OPTIMIZED = Application(
    "StreamsOptimizedTest",
    f"{TESTS}.StreamsOptimizedTest",
    {
        "topology.optimization": "none",
        "input.topic": "inputTopic",
        "aggregation.topic": "aggregationTopic",
        "reduce.topic": "reduceTopic",
        "join.topic": "joinTopic",
        **ONE_STEP,
        **SHORT_SESSIONS,
    },
)
STOPPED_OPTIMIZED = "OPTIMIZE_TEST Streams Stopped"
OPERATIONS = ("AGGREGATED", "REDUCED", "JOINED")


def named(scene: Scene) -> None:
    """The added operations stand before the repartition topic, so that subtopologies and topics stay what they are."""
    scene.topics({"inputTopic": 6, "aggregationTopic": 6})
    scene.lead(NAMED)
    processors = [scene.instance(NAMED, f"processor{number}") for number in (1, 2, 3)]
    producer = scene.produce("inputTopic", acks="1")
    for processor in processors:
        processor.start()
        processor.wait_for("REBALANCING -> RUNNING")
    processing(processors, ("AGGREGATED",))
    for number, processor in enumerate(processors, start=1):
        _stop(processor, STOPPED_NAMED)
        processors[number - 1] = changed = scene.instance(NAMED, f"processor{number}", **{"add.operations": "true"})
        changed.start()
        changed.wait_for("UPDATED Topology")
    processing(processors, ("AGGREGATED",))
    for processor in processors:
        _stop(processor, STOPPED_NAMED)
    producer.stop()


def optimized(scene: Scene) -> None:
    """All instances stop, the application is reset, and comes back with one repartition topic instead of four.
    Bellwether gets the file of the new topology when all are down, as its documents say."""
    scene.topics({"inputTopic": 6, "aggregationTopic": 6, "reduceTopic": 6, "joinTopic": 6})
    changed = replace(OPTIMIZED, properties={**OPTIMIZED.properties, "topology.optimization": "all"})
    scene.prepare(changed)
    scene.lead(OPTIMIZED, leave_on_stop=True)
    processors = [scene.instance(OPTIMIZED, f"processor{number}") for number in (1, 2, 3)]
    producer = scene.produce("inputTopic", acks="1")
    for processor in processors:
        processor.start()
        processor.wait_for("REBALANCING -> RUNNING with REPARTITION TOPIC COUNT=4", 120)
    processing(processors, ("|".join(OPERATIONS),))
    for processor in processors:
        _stop(processor, STOPPED_OPTIMIZED)
    scene.stop_leading()
    reset(scene, OPTIMIZED.application_id, "inputTopic")
    scene.lead(changed)
    processors = [scene.instance(changed, f"processor{number}") for number in (1, 2, 3)]
    for processor in processors:
        processor.start()
        processor.wait_for("REBALANCING -> RUNNING with REPARTITION TOPIC COUNT=1", 120)
    processing(processors, OPERATIONS)
    for processor in processors:
        _stop(processor, STOPPED_OPTIMIZED)
    producer.stop()


def processing(processors: list[Program], patterns: tuple[str, ...]) -> None:
    for processor in processors:
        for pattern in patterns:
            processor.wait_for(pattern)


def _stop(processor: Program, word: str) -> None:
    processor.mark()
    processor.stop()
    processor.wait_for(word)
