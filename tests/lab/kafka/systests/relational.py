"""Kafka's streams_relational_smoke_test.py: a foreign-key join and an aggregation, verified record by record."""

from tests.lab.kafka.systests.programs import FailedError
from tests.lab.kafka.systests.scene import Application, Scene

TOPICS = {"in-article": 3, "in-comment": 5, "out-augmented-article": 3, "out-augmented-comment": 5}
STARTED = "Streams has started"
COMPLETE = "Smoke test complete"


def application(guarantee: str) -> Application:
    return Application(
        "RelationalSmokeTest",
        "bellwether.Relational",
        arguments=("application", "{bootstrap}", "RelationalSmokeTest", "{name}", guarantee, "{state}"),
        bare=True,
        settings={"processing.guarantee": guarantee},
    )


# A third of the records of Kafka's own main; the verification is Kafka's.
DRIVER = Application("driver", "bellwether.Relational", arguments=("driver", "{bootstrap}"), bare=True)


def relational(scene: Scene, guarantee: str, *, crash: bool) -> None:
    app = application(guarantee)
    scene.topics(TOPICS)
    scene.lead(app)
    first, second, third = (scene.instance(app, f"processor{number}") for number in (1, 2, 3))
    driver = scene.instance(DRIVER, "driver")
    first.start()
    second.start()
    first.wait_for(STARTED, kind="log")
    second.wait_for(STARTED, kind="log")
    driver.start()
    scene.consumed("out-augmented-comment", 1, 90)  # Kafka's test waits for its driver to see one, when all is produced
    first.stop(clean=not crash)
    third.start()
    third.wait_for(STARTED, kind="log")
    second.stop(clean=not crash)
    driver.wait_for_end(600)
    if not driver.count(f"{COMPLETE}: passed"):
        raise FailedError(f"the driver did not say that it passed:\n{driver.tail(25)}")
    third.kill()
