"""Kafka's streams_upgrade_test.py: an application of 3.9 that is upgraded in two rolling bounces, and version probing,
by which instances learn that others are not as new as they are."""

import re

from tests.interop.support.jvm import SYSTEM_TESTS, SYSTEM_TESTS_39
from tests.lab.kafka.systests.programs import FailedError, Program
from tests.lab.kafka.systests.scene import ONE_STEP, SHORT_SESSIONS, TESTS, Application, Scene

TOPICS = {"echo": 5, "data": 5, "fk": 5, "fk-result": 5}
DRIVER = Application("driver", f"{TESTS}.StreamsSmokeTest", arguments=("run", "for-ever"))
PROPERTIES = {**ONE_STEP, **SHORT_SESSIONS}
JOINED = {**PROPERTIES, "test.run_fk_join": "true"}
PROCESSED, PROCESSED_FK = "processed [0-9]* records from topic=data", "processed [0-9]* records from topic=fk"
CLOSED = "UPGRADE-TEST-CLIENT-CLOSED"
LOGGED = ("org.apache.kafka.clients.consumer.ConsumerConfig",)
BEFORE = Application("StreamsUpgradeTest", f"{TESTS}.StreamsUpgradeTest", JOINED, debug=LOGGED, release=SYSTEM_TESTS_39)
AFTER = Application("StreamsUpgradeTest", f"{TESTS}.StreamsUpgradeTest", JOINED, debug=LOGGED, release=SYSTEM_TESTS)
PROBING = Application("StreamsUpgradeTest", f"{TESTS}.StreamsUpgradeTest", PROPERTIES, debug=LOGGED)
PROBED = r"Sent a version \d+ subscription and got version \d+ assignment back \(successful version probing\)"
ALL_UPGRADED = r"successful version probing and end of rolling upgrade"
FOLLOW_UP = "Triggering the followup rebalance scheduled for"
FUTURE_ASSIGNOR = r"FutureStreamsPartitionAssignor"
GENERATION = re.compile(r"Successfully joined group with generation Generation\{generationId=(\d+),")
TOO_OLD = "TaskAssignmentException: unable to decode subscription data"


def upgraded(scene: Scene) -> None:
    """First bounce: the new release with upgrade.from; second bounce: without."""
    scene.topics(TOPICS)
    scene.lead(BEFORE)
    driver = scene.instance(DRIVER, "driver")
    driver.start()
    names = ("processor1", "processor2", "processor3")
    processors = _started(scene, BEFORE, names, (PROCESSED, PROCESSED_FK))
    for upgrade_from in ({"upgrade.from": "3.9"}, {}):
        for number, name in enumerate(names):
            others = [processor for processor in processors if processor is not processors[number]]
            _bounce(processors[number], others)
            processors[number] = scene.instance(AFTER, name, **upgrade_from)
            _come_back(processors[number], others, (PROCESSED, PROCESSED_FK))
    _end(driver, processors)


def probed(scene: Scene) -> None:
    """Instances are replaced by some that claim a newer version of the protocol. With a leader that knows that version
    the last one of them would end the probing; Bellwether is none, so the last one is answered as the others are."""
    scene.topics(TOPICS)
    scene.lead(PROBING)
    driver = scene.instance(DRIVER, "driver")
    driver.start()
    names = ("processor1", "processor2", "processor3")
    processors = _started(scene, PROBING, names, (PROCESSED,))
    for number, name in enumerate(names):
        others = [processor for processor in processors if processor is not processors[number]]
        for other in others:
            other.mark()
        processors[number].stop()
        _message(processors[number], CLOSED)
        future = scene.instance(PROBING, name, **{"test.future.metadata": "any_value"})
        processors[number] = future
        future.start()
        future.wait_for(FUTURE_ASSIGNOR, kind="log")
        if number < len(names) - 1 or scene.own:
            future.wait_for(PROBED, kind="log")
            future.wait_for(FOLLOW_UP, kind="log")
        else:
            for other in others:
                other.wait_for(ALL_UPGRADED, kind="log")
                other.wait_for(FOLLOW_UP, kind="log")
        _same_generation(processors)
        if number < len(names) - 1 and any(processor.count(ALL_UPGRADED, kind="log") for processor in processors):
            raise FailedError("an instance ended its probing before all were upgraded")
    _end(driver, processors)


def _started(scene: Scene, app: Application, names: tuple[str, ...], patterns: tuple[str, ...]) -> list[Program]:
    """One instance after another; each time all process."""
    running: list[Program] = []
    for name in names:
        fresh = scene.instance(app, name)
        for process in running:
            process.mark()
        fresh.start()
        for process in running:
            process.wait_for(PROCESSED)
        for pattern in patterns:
            fresh.wait_for(pattern)
        running.append(fresh)
    return running


def _bounce(processor: Program, others: list[Program]) -> None:
    for other in others:
        other.mark()
    processor.stop()
    _message(processor, CLOSED)
    for other in others:
        other.wait_for(PROCESSED)


def _come_back(processor: Program, others: list[Program], patterns: tuple[str, ...]) -> None:
    for other in others:
        other.mark()
    processor.start()
    for other in others:
        other.wait_for(PROCESSED)
        if other.count(TOO_OLD, kind="log"):
            raise FailedError(f"{other.name} could not decode a subscription:\n{other.tail()}")
    for pattern in patterns:
        processor.wait_for(pattern)


def _message(processor: Program, words: str) -> None:
    if not processor.count(words):
        raise FailedError(f"{processor.name} did not say {words}:\n{processor.tail()}")


def _same_generation(processors: list[Program]) -> None:
    """Until all are in the same generation, after the rebalances that probing causes."""

    def newest(program: Program) -> int:
        return max(map(int, GENERATION.findall(program.text("log"))), default=-1)

    processors[0].wait(lambda: len({newest(processor) for processor in processors}) == 1, 50, "all in one generation")


def _end(driver: Program, processors: list[Program]) -> None:
    driver.kill()
    for processor in processors:
        processor.stop()
        _message(processor, CLOSED)
