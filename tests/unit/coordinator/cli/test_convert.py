"""What `convert --watch` prints of a group that is converted meanwhile, and how it ends."""

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import pytest

from bellwether_kafka.coordinator.assessment import ConversionProgress, PlacementCounts
from bellwether_kafka.coordinator.cli import Exit
from bellwether_kafka.coordinator.cli import convert as command
from bellwether_kafka.coordinator.cli.convert import progress_in_words
from bellwether_kafka.coordinator.kafka import wire
from bellwether_kafka.coordinator.kafka.wire import BrokerGroup
from bellwether_kafka.coordinator.membership import DescribeAnswer
from tests.kit.brokers import EmbeddedCluster
from tests.kit.commands import CONVERTED, GROUPS, MISSING, Described, bellwether

PROGRESS = ConversionProgress(
    group="g",
    at_ms=0,
    to="consumer",
    protocol="consumer",
    assignor="uniform",
    state="Reconciling",
    members={"consumer": 2, "classic": 1},
    epoch=7,
    placement=PlacementCounts(unowned=0, cross_rack=4, spread=0, moved=None),
    predicted_by="broker-uniform",
    predicted=PlacementCounts(unowned=0, cross_rack=3, spread=0, moved=0),
    pending="the group is Reconciling",
)


class Converting(Described):
    """The group is classic when it is described first, and afterwards its broker assigns. Ctrl-C is pressed when it has
    been described `interrupted_at` times, 0 for never."""

    described: ClassVar[int] = 0
    interrupted_at: ClassVar[int] = 0

    async def describe_group(self, group_id: str) -> DescribeAnswer:
        Converting.described += 1
        if Converting.described == Converting.interrupted_at:
            signal.raise_signal(signal.SIGINT)
        return GROUPS["stable"] if Converting.described == 1 else MISSING

    async def describe_by_broker(self, group_id: str, protocol: wire.BrokerProtocol) -> BrokerGroup:
        return replace(CONVERTED if protocol == "consumer" else BrokerGroup("", protocol, 69), group_id=group_id)


@pytest.fixture(scope="module")
def brokers() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1) as cluster:
        cluster.create_topic("orders", 3)
        yield cluster


@pytest.fixture(autouse=True)
def converting(monkeypatch: pytest.MonkeyPatch) -> None:
    Converting.described = Converting.interrupted_at = 0
    monkeypatch.setattr(wire, "Transport", Converting)
    monkeypatch.setattr(command, "REFRESH_S", 0.01)


@pytest.mark.embedded
def test_each_change_is_a_line_until_the_group_has_settled(brokers: EmbeddedCluster) -> None:
    ended = bellwether("convert", "g", "--watch", "--bootstrap", brokers.bootstrap, "-o", "json")
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert ended.returncode == Exit.DONE, ended.stderr
    assert [(line["protocol"], line["epoch"], line["settled"]) for line in lines] == [
        ("classic", None, False),
        ("consumer", 3, False),
        ("consumer", 3, True),
    ]
    assert (lines[0]["pending"], lines[-1]["members"]) == ("the group is classic", {"consumer": 1})
    assert lines[-1]["placement"]["moved"] == 0
    assert ended.stderr.startswith("Settled after ")


@pytest.mark.embedded
def test_a_group_that_does_not_settle_in_time_ends_it_with_a_code_and_what_is_pending(brokers: EmbeddedCluster) -> None:
    options = ("--back", "--wait", "1", "--bootstrap", brokers.bootstrap)
    Converting.described = 1
    ended = bellwether("convert", "g", "--watch", *options)
    assert (ended.returncode, ended.stderr) == (
        Exit.NOT_SO,
        "Not settled within 1 s: the group is consumer.\n",
    )
    (line,) = ended.stdout.splitlines()
    assert "consumer, Stable: 1 member; epoch 3; 0 unowned" in line


@pytest.mark.embedded
@pytest.mark.usefixtures("_in_the_foreground")
def test_an_interrupted_watch_says_what_is_pending_and_how_to_go_on(brokers: EmbeddedCluster) -> None:
    """Nothing was printed, and a watch that was begun again took the members that were left for all."""
    Converting.described, Converting.interrupted_at = 1, 5  # when it has been watched for some refreshes
    ended = bellwether("convert", "g", "--watch", "--back", "--bootstrap", brokers.bootstrap)
    assert (ended.returncode, ended.stderr) == (
        Exit.INTERRUPTED,
        "Interrupted; pending: the group is consumer. To go on: bellwether convert g --watch --back --members 1.\n",
    )


def test_options_of_the_watch_need_it() -> None:
    ended = bellwether("convert", "g", "--back")
    assert (ended.returncode, ended.stderr) == (
        Exit.INPUT,
        "--back and --members are for --watch; add it, or leave them out.\n",
    )


def test_a_line_has_the_counts_beside_the_predicted_ones() -> None:
    assert progress_in_words(PROGRESS) == (
        "consumer, Reconciling: 3 members, 1 of them classic; epoch 7; 0 unowned (0 predicted);"
        " 4 cross rack (3 predicted); unknown moved (0 predicted); pending: the group is Reconciling"
    )
    other = progress_in_words(replace(PROGRESS, assignor="bellwether-rack-first"))
    assert "; predicted for broker-uniform, but its assignor is bellwether-rack-first; pending" in other
    for chosen, by in (("bellwether-rack-first", "rack-first"), ("bellwether", "load-aware")):
        line = progress_in_words(replace(PROGRESS, assignor=chosen, predicted_by=by))
        assert "predicted for" not in line
    unpredicted = replace(PROGRESS, protocol="classic", members={"classic": 2}, epoch=None, predicted=None, pending="")
    assert progress_in_words(unpredicted) == ("classic, Reconciling: 2 members; 0 unowned; 4 cross rack; unknown moved")
