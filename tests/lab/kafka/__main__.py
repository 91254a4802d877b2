"""Runs Kafka's own unit tests against Bellwether: `make kafka-tests`, or `python -m tests.lab.kafka [CLASS ...]`.

tests/java/kafka-tests weaves Bellwether's answers into classes with the names of Kafka's; differing.yml lists the tests
that come out differently. Ends with 0 if all is as listed, 1 if not, 2 if a JDK or Maven is missing.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from itertools import product

from tests.interop.support.jvm import KAFKA_TESTS, MissingToolError, java
from tests.lab.kafka.run import run
from tests.lab.kafka.screen import Result, draw
from tests.lab.kafka.verdicts import ahead, listed, troubles

CONSUMER = "org.apache.kafka.clients.consumer"
STREAMS = "org.apache.kafka.streams.processor.internals"
BEHIND_HIGH_AVAILABILITY = (
    f"{STREAMS}.assignment.HighAvailabilityTaskAssignorTest",
    f"{STREAMS}.assignment.TaskAssignorConvergenceTest",
    f"{STREAMS}.StreamsPartitionAssignorTest",
    f"{STREAMS}.HighAvailabilityStreamsPartitionAssignorTest",
    f"{STREAMS}.RackAwarenessStreamsPartitionAssignorTest",
)
CLASSES = {
    "kafka": (
        f"{CONSUMER}.RangeAssignorTest",
        f"{CONSUMER}.RoundRobinAssignorTest",
        f"{CONSUMER}.CooperativeStickyAssignorTest",
        f"{CONSUMER}.StickyAssignorTest",
        *BEHIND_HIGH_AVAILABILITY,
        f"{STREAMS}.assignment.FallbackPriorTaskAssignorTest",
        f"{STREAMS}.assignment.LegacyStickyTaskAssignorTest",
        f"{STREAMS}.assignment.CustomStickyTaskAssignorTest",
        f"{STREAMS}.assignment.ClientTagAwareStandbyTaskAssignorTest",
        f"{STREAMS}.assignment.RackAwareTaskAssignorTest",
        f"{STREAMS}.assignment.TaskMovementTest",
        f"{STREAMS}.assignment.TaskAssignmentUtilsTest",
        f"{STREAMS}.assignment.AssignmentInfoTest",
        f"{STREAMS}.assignment.SubscriptionInfoTest",
    ),
    "streams-ha": BEHIND_HIGH_AVAILABILITY,
}


def simple(name: str) -> str:
    return name.rpartition(".")[2]


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.kafka", description=__doc__)
    parser.add_argument("classes", nargs="*", metavar="CLASS", help="simple names; all without any")
    parser.add_argument("--release", choices=KAFKA_TESTS, help="one release of Kafka instead of all")
    parser.add_argument("--policy", choices=CLASSES, help="one policy instead of all")
    chosen = parser.parse_args(words)
    releases = [chosen.release] if chosen.release else [*KAFKA_TESTS]
    policies = [chosen.policy] if chosen.policy else [*CLASSES]
    results: list[Result] = []
    for release, policy in product(releases, policies):
        classes = [name for name in CLASSES[policy] if not chosen.classes or simple(name) in chosen.classes]
        if not classes:
            continue
        began, reported = time.monotonic(), listed(policy, release)
        try:
            ran = run(java(KAFKA_TESTS[release]), classes, policy, ahead(reported))
        except MissingToolError as missing:
            print(f"Kafka's unit tests were not run: {missing}.", file=sys.stderr)
            return 2
        results.append(Result(release, policy, tuple(map(simple, classes)), ran, reported))
        draw(results[-1], time.monotonic() - began)
    failures = [trouble for result in results for trouble in reported_of(result)]
    for trouble in failures:
        print(f"NOT AS LISTED: {trouble}")
    return 1 if failures else 0


def reported_of(result: Result) -> list[str]:
    failures = troubles(result.ran, result.reported, frozenset(result.classes))
    return [f"{result.release}, {result.policy}: {trouble}" for trouble in failures]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
