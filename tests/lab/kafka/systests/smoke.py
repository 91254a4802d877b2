"""Kafka's smoke test of Streams: twenty thousand records through nearly every operator, and each result verified, while
instances are stopped or killed (streams_smoke_test.py) or brokers fail (streams_broker_bounce_test.py)."""

import re

from tests.lab.kafka.systests.programs import FailedError, Program
from tests.lab.kafka.systests.scene import ONE_STEP, SHORT_SESSIONS, TESTS, Application, Scene

NAMES = (
    *("echo", "data", "min", "min-suppressed", "min-raw", "max", "sum", "sws-raw", "sws-suppressed"),
    *("dif", "cnt", "avg", "wcnt", "tagg", "fk"),
)
DRIVER = Application("driver", f"{TESTS}.StreamsSmokeTest", arguments=("run",))
RUNNING = "REBALANCING -> RUNNING"
VERIFIED = "Result Verification"
BOUNCES = 5
BEFORE_FAILURE_S = 40.0  # Kafka's tests wait for 120 s, when all is produced


def application(guarantee: str) -> Application:
    properties = {
        "processing.guarantee": guarantee,
        "num.stream.threads": "3",
        "replication.factor": "3",
        "num.standby.replicas": "2",
        "buffered.records.per.partition": "100",
        "commit.interval.ms": "1000",
        "auto.offset.reset": "earliest",
        "acks": "all",
        **ONE_STEP,
        **SHORT_SESSIONS,
    }
    return Application("SmokeTest", f"{TESTS}.StreamsSmokeTest", properties, ("process",))


def bounced(scene: Scene, guarantee: str, *, crash: bool) -> None:
    """Three instances, one after another: each is gone before the next starts."""
    app = application(guarantee)
    scene.topics(dict.fromkeys(NAMES, 5))
    scene.lead(app)
    driver = scene.instance(DRIVER, "driver")
    for number in (1, 2, 3):
        processor = scene.instance(app, f"processor{number}")
        processor.start()
        processor.wait_for(RUNNING, 60 if number == 1 else 120)
        if number == 1:
            driver.start()
        processor.wait_for("processed", 30)
        if number < 3:
            still_working(driver)
            processor.stop(clean=not crash)
    driver.wait_for_end(480)
    processor.stop()
    wanted = "SUCCESS|PROCESSED-MORE-THAN-GENERATED" if crash and guarantee == "at_least_once" else "SUCCESS"
    verified(driver, wanted)


def still_working(driver: Program) -> None:
    if driver.count(VERIFIED):
        raise FailedError("all was processed before the instance could be stopped, which proves nothing")


def verified(driver: Program, wanted: str) -> None:
    if not driver.count(wanted):
        raise FailedError(f"the driver did not say {wanted}:\n{driver.tail(25)}")


def brokers_fail(scene: Scene, failure: str) -> None:
    """One instance of three threads; the leader of a topic is shut down or bounced five times, in order or hard."""
    app = application("at_least_once")
    scene.topics(dict.fromkeys(NAMES, 3), replicas=3, **{"min.insync.replicas": "2"})
    scene.lead(app)
    driver = scene.instance(DRIVER, "driver")
    processor = scene.instance(app, "processor1")
    driver.start()
    processor.start()
    scene.sleep(BEFORE_FAILURE_S)
    still_working(driver)
    for _ in range(BOUNCES if failure.endswith("bounce") else 1):
        node = leader_of(scene, "data")
        end = scene.cluster.stop_node if failure.startswith("clean") else scene.cluster.kill_node
        end(node)
        if failure.endswith("bounce"):
            scene.cluster.start_node(node)
    driver.wait_for_end(480)
    processor.stop()
    verified(processor, "SMOKE-TEST-CLIENT-CLOSED")
    verified(driver, "ALL-RECORDS-DELIVERED|PROCESSED-MORE-THAN-GENERATED")
    if re.search("SMOKE-TEST-CLIENT-EXCEPTION", processor.text()):
        raise FailedError(f"the instance met an exception:\n{processor.tail(25)}")


def leader_of(scene: Scene, topic: str) -> int:
    """The node id of the leader of its first partition."""
    return int(scene.cluster.admin.list_topics(topic, timeout=20).topics[topic].partitions[0].leader)
