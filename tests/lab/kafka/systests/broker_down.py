"""Kafka's streams_broker_down_resilience_test.py: the only broker is down for longer than every timeout, from the
start, while instances are stopped, or while they are killed and started again."""

from tests.lab.kafka.systests.programs import Program
from tests.lab.kafka.systests.scene import RUNNING, TESTS, Application, Scene
from tests.lab.kafka.systests.standby_replicas import LEGACY, extra

SOURCE, SINK = "streamsResilienceSource", "streamsResilienceSink"
MESSAGES = 10_000
KEYS = "100"  # records without keys fill one batch after another, and so few batches may leave out a partition
DOWN_S = 70.0  # over twice producer.retries * request.timeout.ms
PROCESSED = "processed [0-9]* messages"
CONNECTED = "Discovered group coordinator"
UNAVAILABLE = "Node may not be available"
SHUT_DOWN = "Complete shutdown of streams resilience test app now"
NODE = 1


def application(name: str = "kafka-streams-resilience", assignor: str = "") -> Application:
    configs = {"application__id": name} | ({"internal__task__assignor__class": assignor} if assignor else {})
    return Application(
        name,
        f"{TESTS}.StreamsBrokerDownResilienceTest",
        arguments=(extra(**configs),),
        java_policy="sticky" if assignor else "kafka",
    )


def remains_down(scene: Scene) -> None:
    app = application()
    _topics(scene)
    scene.lead(app)
    processor = scene.instance(app, "processor1")
    processor.start()
    processor.wait_for("StreamsTest instance started")
    scene.produced(SOURCE, 5, acks="-1")
    scene.consumed(SINK, 5)
    scene.cluster.stop_node(NODE)
    scene.sleep(DOWN_S)
    processor.mark()
    scene.cluster.start_node(NODE)
    processor.wait_for(CONNECTED, 120, kind="log")
    scene.produced(SOURCE, 5, 120, acks="-1")
    scene.consumed(SINK, 10, 120)


def down_at_start(scene: Scene) -> None:
    app = application("starting_wo_broker_id")
    _topics(scene)
    scene.lead(app)
    scene.cluster.stop_node(NODE)
    processors = [scene.instance(app, f"processor{number}") for number in (1, 2, 3)]
    for processor in processors:
        processor.start()
    for processor in processors:
        processor.wait_for(UNAVAILABLE, kind="log", times=10)
    _back(scene, processors)
    _all_run(processors)
    _all_work(scene, processors, MESSAGES)


def scaled_in_while_down(scene: Scene) -> None:
    app = application("shutdown_with_broker_down", LEGACY)
    processors = _three(scene, app)
    _all_work(scene, processors, MESSAGES)
    scene.cluster.stop_node(NODE)
    for processor in processors[:2]:
        processor.mark()
        processor.stop()
        processor.wait_for(SHUT_DOWN)
    _back(scene, processors[2:])
    scene.produced(SOURCE, MESSAGES, 120, acks="-1")
    scene.consumed(SINK, 2 * MESSAGES, 120)


def killed_while_down(scene: Scene) -> None:
    app = application("failover_with_broker_down", LEGACY)
    processors = _three(scene, app)
    _all_work(scene, processors, MESSAGES)
    scene.cluster.stop_node(NODE)
    for processor in processors:
        processor.kill()
        processor.start()
    _back(scene, processors)
    _all_run(processors)
    _all_work(scene, processors, 2 * MESSAGES)


def _topics(scene: Scene) -> None:
    scene.topics({SOURCE: 3, SINK: 1})


def _three(scene: Scene, app: Application) -> list[Program]:
    _topics(scene)
    scene.lead(app)
    processors = [scene.instance(app, f"processor{number}") for number in (1, 2, 3)]
    for processor in processors:
        processor.start()
    _all_run(processors)
    return processors


def _all_run(processors: list[Program]) -> None:
    """Kafka's test waits for the third instance alone; here the first may be the last, and find nothing left to do."""
    for processor in processors:
        processor.wait_for(RUNNING, 120, kind="log")


def _back(scene: Scene, processors: list[Program]) -> None:
    """The broker starts, and every instance finds it."""
    for processor in processors:
        processor.mark()
    scene.cluster.start_node(NODE)
    for processor in processors:
        processor.wait_for(CONNECTED, 120, kind="log")


def _all_work(scene: Scene, processors: list[Program], total: int) -> None:
    """More messages; each instance processes some, and in the end the sink has so many in total."""
    for processor in processors:
        processor.mark()
    scene.produced(SOURCE, MESSAGES, 120, acks="-1", repeating_keys=KEYS)
    for processor in processors:
        processor.wait_for(PROCESSED, 120)
    scene.consumed(SINK, total, 120)
