"""Two short ones: an exception while an instance starts must not keep it from ending
(streams_shutdown_deadlock_test.py), and Streams works with older brokers (streams_broker_compatibility_test.py)."""

from tests.lab.kafka.systests.programs import FailedError
from tests.lab.kafka.systests.scene import ONE_STEP, SHORT_SESSIONS, TESTS, Application, Scene

DEADLOCK = Application("shouldNotDeadlock", f"{TESTS}.StreamsSmokeTest", arguments=("close-deadlock-test",))
SOURCE, SINK = "brokerCompatibilitySourceTopic", "brokerCompatibilitySinkTopic"


def shutdown_deadlock(scene: Scene) -> None:
    scene.topics({"source": 1})
    scene.lead(DEADLOCK)
    program = scene.instance(DEADLOCK, "driver")
    program.start()
    program.wait_for_end(60)


def compatible(scene: Scene, guarantee: str) -> None:
    properties = {"replication.factor": "1", **ONE_STEP, **SHORT_SESSIONS}
    app = Application(
        "kafka-streams-system-test-broker-compatibility",
        f"{TESTS}.BrokerCompatibilityTest",
        properties,
        (guarantee,),
        settings={"processing.guarantee": guarantee},
    )
    scene.topics({SOURCE: 1, SINK: 1})
    scene.lead(app)
    processor = scene.instance(app, "processor1")
    processor.start()
    if processor.wait_for_end(90):
        raise FailedError(f"the instance ended with an error:\n{processor.tail(25)}")
    scene.consumed(SINK, 1, 30)
