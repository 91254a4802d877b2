"""Every command with `--output json` on real brokers, for groups in every condition."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock, partitions_of, wait_settled
from tests.interop.support.raw import RawMember, describe
from tests.unit.coordinator.cli.every_command import ARGUMENTS, PRINTING, judge, printed, write_files

pytestmark = pytest.mark.broker

TOPIC = "scripted-orders"
SUBSCRIPTION = ConsumerProtocolSubscription(version=1, topics=(TOPIC,)).encode()
PATIENCE_MS = 1_200_000  # a group waits this long for the leader that never sends its plan


@pytest.fixture(scope="module")
def groups(kafka: KafkaCluster) -> Iterator[dict[str, str]]:
    """By condition, a group that stays in it; the topics that commands read are there."""
    kafka.create_topic(TOPIC, 3)
    for topic in ("bellwether-control", "bellwether.weights", "bellwether.events"):
        kafka.ensure_topic(topic)
    with ExitStack() as stack:
        flock = stack.enter_context(Flock(kafka.bootstrap))
        stable = flock.member("confluent", "scripted-stable", [TOPIC], ["range"])
        converted = flock.member("java", "scripted-converted", [TOPIC], [], protocol="consumer")
        for member in (stable, converted):
            wait_settled([member], partitions_of({TOPIC: 3}))
        yield {"stable": stable.group, "converted": converted.group, "missing": "scripted-missing"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("condition", ["stable", "converted", "missing", "rebalancing"])
def test_standard_output_is_a_document_or_empty(
    condition: str,
    groups: dict[str, str],
    kafka: KafkaCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("bellwether_kafka.coordinator.cli.topic_weights.TIMEOUT_S", 0.5)
    write_files(tmp_path)
    with ExitStack() as stack:
        group = groups.get(condition, "scripted-rebalancing")
        if condition == "rebalancing":
            member = stack.enter_context(
                RawMember(
                    kafka.bootstrap,
                    group,
                    [("range", SUBSCRIPTION)],
                    session_ms=PATIENCE_MS,
                    rebalance_ms=PATIENCE_MS,
                )
            )
            member._join()
        for name in PRINTING:
            if "{group}" in ARGUMENTS[name] or condition == "stable":
                judge(name, printed(name, group, TOPIC, kafka.bootstrap, tmp_path), missing=condition == "missing")
        assert capfd.readouterr().out == "", "written past sys.stdout"
        if condition == "rebalancing":
            assert describe(kafka.bootstrap, group).state == "CompletingRebalance", "it has been that all along"
