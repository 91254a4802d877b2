"""Every command shows groups whose names, members and topics are hostile: no control character, no traceback."""

from collections.abc import Iterator, Sequence

import pytest

from bellwether_kafka.coordinator.kafka import wire
from bellwether_kafka.coordinator.kafka.wire import BrokerGroup, GroupList, ListedGroup
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember, Node
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.hostile_names import NAMES
from tests.kit.brokers import EmbeddedCluster, EmbeddedTransport
from tests.kit.commands import bellwether
from tests.unit.coordinator.cli.every_command import ARGUMENTS

TOPICS = ("orders", "payments")
OF_BROKERS = sorted(name for name, words in ARGUMENTS.items() if "{brokers}" in words and "{folder}" not in words)
OF_ORDERS = sorted(name for name, words in ARGUMENTS.items() if "{control}" in words and "{group}" in words)
GROUP_NAMES = ("a\x1bb\n", "\u202eevil", "$(id) 'x\"", "<b>&amp;{x}%s", "a/b%2F..", "{{ .Value }}\\")


def member(number: int, name: str) -> DescribedMember:
    """Its id, client, host, rack and one of its topics are the name; the first two own what there is."""
    owned = tuple(TopicPartition(TOPICS[number], p) for p in range(3)) if number < len(TOPICS) else ()
    subscription = ConsumerProtocolSubscription(version=3, topics=(*TOPICS, name), rack_id=name)
    assignment = ConsumerProtocolAssignment(0, owned)
    return DescribedMember(name, name, subscription.encode(), assignment.encode(), name, f"/{name}")


MEMBERS = tuple(member(number, name) for number, name in enumerate(NAMES))


class Hostile(EmbeddedTransport):
    """Embedded brokers know no DescribeGroups; every group has the hostile members."""

    async def describe_group(self, _group_id: str) -> DescribeAnswer:
        return DescribeAnswer(0, 0, "Stable", "consumer", "range", MEMBERS)

    async def describe_groups(self, _node: Node, group_ids: Sequence[str]) -> dict[str, DescribeAnswer]:
        return {group_id: await self.describe_group(group_id) for group_id in group_ids}

    async def describe_by_broker(self, group_id: str, protocol: wire.BrokerProtocol) -> BrokerGroup:
        return BrokerGroup(group_id, protocol, 69)

    async def list_groups(self, _node: Node) -> GroupList:
        return GroupList(0, tuple(ListedGroup(name, name, name, "classic") for name in NAMES))


@pytest.fixture(scope="module")
def brokers() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1) as cluster:
        for topic in (*TOPICS, "bellwether-control"):
            cluster.create_topic(topic, 3 if topic in TOPICS else 1)
        yield cluster


@pytest.fixture(autouse=True)
def hostile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "Transport", Hostile)
    monkeypatch.setattr("bellwether_kafka.coordinator.cli.topic_weights.TIMEOUT_S", 0.5)


def judged(name: str, group: str, item: str, cluster: EmbeddedCluster, output: str) -> None:
    words = ARGUMENTS[name].replace("--wait 0.5", "--wait 0").split()
    options = {"{brokers}": f"--bootstrap {cluster.bootstrap}"}
    options["{control}"] = f"{options['{brokers}']} --topic bellwether-control"
    filled = [
        part
        for word in words
        for part in (
            options[word].split() if word in options else [word.replace("{group}", group).replace("{item}", item)]
        )
    ]
    ended = bellwether(*name.split(), *filled, "--output", output)
    for shown in (ended.stdout, ended.stderr):
        assert "Traceback" not in shown, shown
        control = {char for char in shown if not char.isprintable() and char != "\n"}
        assert not control, (name, group, output, sorted(map(ascii, control)))


@pytest.mark.embedded
@pytest.mark.parametrize("output", ["table", "wide", "json"])
@pytest.mark.parametrize("name", OF_BROKERS)
def test_no_name_of_a_client_reaches_the_terminal_raw(name: str, output: str, brokers: EmbeddedCluster) -> None:
    judged(name, "plain", "orders-0", brokers, output)


@pytest.mark.embedded
@pytest.mark.parametrize("group", GROUP_NAMES, ids=ascii)
def test_no_name_of_a_group_reaches_the_terminal_raw(group: str, brokers: EmbeddedCluster) -> None:
    for name in (*OF_BROKERS, *OF_ORDERS):
        if "{group}" in ARGUMENTS[name] and "\x00" not in group and name != "roll":
            judged(name, group, f"{group}-0", brokers, "table")
