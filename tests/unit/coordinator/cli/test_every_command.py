"""Every command with `--output json`, on embedded brokers whose groups are in every condition."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from bellwether_kafka.coordinator import kafka
from bellwether_kafka.coordinator.kafka.describe_groups import BrokerGroup, BrokerMember, ListedGroup
from bellwether_kafka.coordinator.kafka.many_groups import GroupList
from bellwether_kafka.coordinator.membership.events import DescribeAnswer, DescribedMember, Node
from bellwether_kafka.protocol.messages.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives.types import TopicPartition
from tests.support.embedded_brokers import EmbeddedCluster
from tests.support.embedded_transport import EmbeddedTransport
from tests.unit.coordinator.cli.every_command import ARGUMENTS, PRINTING, WITH_A_DOCUMENT, judge, printed, write_files

SUBSCRIPTION = ConsumerProtocolSubscription(version=1, topics=("orders",)).encode()
ASSIGNMENT = ConsumerProtocolAssignment(0, tuple(TopicPartition("orders", p) for p in range(3))).encode()
MISSING = DescribeAnswer(0, 69)
GROUPS = {
    "stable": DescribeAnswer(
        0, 0, "Stable", "consumer", "range", (DescribedMember("m1", None, SUBSCRIPTION, ASSIGNMENT, "app", "/h"),)
    ),
    "rebalancing": DescribeAnswer(
        0, 0, "PreparingRebalance", "consumer", "", (DescribedMember("m1", None, client_id="app", client_host="/h"),)
    ),
    "missing": MISSING,
    "converted": DescribeAnswer(0, 0, "Dead"),
}
CONVERTED = BrokerGroup(
    "converted",
    "consumer",
    0,
    state="Stable",
    epoch=3,
    assignor="uniform",
    members=(BrokerMember("m1", None, "az1", "app", "/h", ("orders",), (("orders", (0, 1, 2)),)),),
)


class Described(EmbeddedTransport):
    """Embedded brokers know no DescribeGroups and no ListGroups; these groups are told here."""

    async def describe_group(self, group_id: str) -> DescribeAnswer:
        return GROUPS[group_id]

    async def describe_groups(self, _node: Node, group_ids: Sequence[str]) -> dict[str, DescribeAnswer]:
        return {group_id: await self.describe_group(group_id) for group_id in group_ids}

    async def describe_by_broker(self, group_id: str, protocol: kafka.BrokerProtocol) -> BrokerGroup:
        found = group_id == "converted" and protocol == "consumer"
        return CONVERTED if found else BrokerGroup(group_id, protocol, 69)

    async def list_groups(self, _node: Node) -> GroupList:
        listed = (
            ListedGroup(name, "consumer", answer.state, "consumer" if name == "converted" else "classic")
            for name, answer in GROUPS.items()
            if answer is not MISSING
        )
        return GroupList(0, tuple(listed))


@pytest.fixture(scope="module")
def brokers() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1) as cluster:
        cluster.create_topic("orders", 3)
        for topic in ("bellwether-control", "bellwether.weights", "bellwether.events"):
            cluster.create_topic(topic, 1)
        yield cluster


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write_files(folder)
    return folder


def test_every_command_of_the_table_is_run() -> None:
    assert sorted(ARGUMENTS) == PRINTING


@pytest.mark.embedded
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("name", PRINTING)
def test_standard_output_is_a_document_or_empty(
    name: str,
    group: str,
    brokers: EmbeddedCluster,
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    if "{group}" not in ARGUMENTS[name] and group != "stable":
        return
    monkeypatch.setattr(kafka, "Transport", Described)
    monkeypatch.setattr("bellwether_kafka.coordinator.cli.cost.TIMEOUT_S", 0.5)
    ended = printed(name, group, "orders", brokers.bootstrap, files)
    judge(name, ended, missing=group == "missing")
    assert capfd.readouterr().out == "", "written past sys.stdout"


@pytest.mark.embedded
@pytest.mark.parametrize("name", PRINTING)
def test_yaml_holds_what_json_holds_and_wide_is_for_people(
    name: str, brokers: EmbeddedCluster, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "Transport", Described)
    monkeypatch.setattr("bellwether_kafka.coordinator.cli.cost.TIMEOUT_S", 0.5)
    ended = {one: printed(name, "stable", "orders", brokers.bootstrap, files, one) for one in ("json", "yaml", "wide")}
    assert len({one.returncode for one in ended.values()}) == 1, ended
    if ended["json"].returncode not in WITH_A_DOCUMENT:
        return
    as_json, as_yaml = json.loads(ended["json"].stdout), yaml.safe_load(ended["yaml"].stdout)
    assert shape(as_yaml) == shape(as_json)
    assert ended["wide"].stdout or ended["wide"].stderr, "nothing to list is said, but not where lines are counted"


def shape(document: Any) -> Any:
    """Names and types: times are others in each look."""
    if isinstance(document, dict):
        return {name: shape(value) for name, value in document.items()}
    if isinstance(document, list):
        return [shape(one) for one in document]
    return type(document)
