"""Beside other protocols, other brokers and broken clients: what Bellwether says, and that the members go on."""

import json
import socket
import threading
from contextlib import ExitStack

import pytest

from tests.interop.support.bellwether import Bellwether, run_to_end
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.groups import without_members_in_the_way
from tests.interop.support.jvm import BROKER_39
from tests.interop.support.members import Flock, Member, partitions_of, wait_settled, wait_until
from tests.interop.support.page import Page, served
from tests.interop.support.raw import RawError, RawMember, describe
from tests.interop.support.rebalances import last_rebalance
from tests.interop.support.scenes.ghosts import assisting, freed_of_a_ghost

PARTITIONS = 4
UNKNOWN_MEMBER_ID = 25
MALFORMED = b"\0\1\x7f\xff\xff\xff"  # a version, and an array that is longer than the request


def pair(flock: Flock, name: str) -> list[Member]:
    members = [flock.member("java", name, [name], ["range"]) for _ in range(2)]
    wait_settled(members, partitions_of({name: PARTITIONS}), spread=0)
    return members


def converting(kafka: KafkaCluster, group: str) -> tuple[str, bool, int]:
    """The protocol that `convert` names, whether the group has it, and the moves of the broker's assignor."""
    ended = run_to_end(["convert", group, "--bootstrap", kafka.bootstrap, "-o", "json"])
    assert ended.code == 0, ended.text
    document = json.loads(ended.text)
    (row,) = [row for row in document["policies"] if row["policy"] == "broker-uniform"]
    return document["to"], document["converted"], row["moves"]


@pytest.mark.parametrize("beside", [(), ({"match": "*"},)], ids=["alone", "beside a pattern"])
def test_a_conversion_to_kip_848_and_back_loses_nothing_that_is_known(
    kafka: KafkaCluster, beside: tuple[dict[str, str], ...]
) -> None:
    """Bellwether steps aside for the broker, goes on to show members, owners and lag, and leads the group again."""
    name = f"coexist-allow-{len(beside)}"
    kafka.create_topic(name, PARTITIONS)
    names = {f"{name}-{partition}" for partition in range(PARTITIONS)}
    with (
        served() as address,
        Bellwether(kafka, [name], http_address=address, beside=beside) as lead,
        Flock(kafka.bootstrap) as flock,
    ):
        page, members = Page(address, name), pair(flock, name)
        # They keep their member ids through both conversions, and a take-over follows.
        without_members_in_the_way(kafka, members, name, partitions_of({name: PARTITIONS}))
        wait_until(lambda: bool(lead.log("online_conversion", group=name, ready=True)), 20, lead.tail)
        wait_until(lambda: page.items_shown() == names, 30, lead.tail)
        assert converting(kafka, name) == ("consumer", False, 0)
        newcomer = flock.member("java", name, [name], [], protocol="consumer")
        wait_settled([*members, newcomer], partitions_of({name: PARTITIONS}), spread=1)
        wait_until(lambda: page.row().get("type") == "consumer", 60, lead.tail)
        wait_until(lambda: page.row()["members"] == 3 and page.items_shown() == names, 60, lambda: str(page.row()))
        row = page.row()
        assert (row["assigned_by"], row["role"]["reason"], row["unowned"]) == ("its broker", "converted", 0)
        assert row["unknown"] is None
        assert row["verdict"] is not None
        series = page.series()
        assert (series["members"], series["group_leading"]) == (3, 0)
        assert {"lag_records", "lag_unknown_partitions", "lag_timestamp_seconds", "unowned_partitions"} <= series.keys()
        assert converting(kafka, name) == ("consumer", True, 0)
        assert "converted to the KIP-848 protocol" in lead.text()
        assert lead.running
        newcomer.stop()
        wait_settled(members, partitions_of({name: PARTITIONS}), spread=0)
        wait_until(lambda: page.row().get("leading") is True, 90, lead.tail)
        wait_until(lambda: page.row()["members"] == 2 and page.items_shown() == names, 60, lambda: str(page.row()))
        assert page.row()["type"] == "classic"


def test_a_conversion_is_blocked_where_the_operator_says_so(kafka: KafkaCluster) -> None:
    name = "coexist-block"
    kafka.create_topic(name, PARTITIONS)
    with Bellwether(kafka, [name], options={"online_conversion": "block"}) as lead, Flock(kafka.bootstrap) as flock:
        members = pair(flock, name)
        wait_until(lambda: bool(lead.log("online_conversion", group=name, ready=False)), 20, lead.tail)
        reported = [member.count("assigned") for member in members]
        newcomer = flock.member("java", name, [name], [], protocol="consumer")
        wait_until(lambda: any(e.kind == "error" for e in newcomer.events), 30, lead.tail)
        assert describe(kafka.bootstrap, name).protocol_type == "consumer"
        assert lead.is_member(name)
        assert [member.count("assigned") for member in members] == reported


@pytest.mark.parametrize("evict", [False, True])
def test_a_wedged_rebalance_is_named_and_ended_only_on_request(kafka: KafkaCluster, evict: bool) -> None:
    name = f"coexist-wedge-{evict}".lower()
    kafka.create_topic(name, PARTITIONS)
    refused: list[int] = []

    def join_with_nonsense(raw: RawMember) -> None:
        try:
            raw.rebalance()
        except RawError as error:
            refused.append(error.code)
        except OSError:
            pass  # the test has ended

    with (
        ExitStack() as stack,
        Bellwether(kafka, [name], options={"evict_malformed": evict}) as lead,
        Flock(kafka.bootstrap) as flock,
    ):
        members = pair(flock, name)
        wait_until(lambda: bool(lead.log("online_conversion", group=name)), 20, lead.tail)
        raw = RawMember(kafka.bootstrap, name, [("range", MALFORMED)])
        joining = threading.Thread(target=join_with_nonsense, args=(raw,), daemon=True)
        stack.callback(raw._connection.close)
        stack.callback(joining.join, 20)
        stack.callback(raw._connection._socket.shutdown, socket.SHUT_RDWR)
        joining.start()
        wait_until(lambda: "KAFKA-20570" in lead.text(), 30, lead.tail)
        (alert,) = [entry for entry in lead.logged("ghosts", what="ALERT") if "KAFKA-20570" in entry["reason"]]
        assert "came raw-" in alert["reason"]
        if evict:
            wait_settled(members, partitions_of({name: PARTITIONS}), spread=0)
            lead.wait_for_words("so that the rebalance can end")
            assert refused == [UNKNOWN_MEMBER_ID]
            assert last_rebalance(kafka, name).leader.startswith("bellwether")
        else:
            assert "so that the rebalance can end" not in lead.text()


@pytest.mark.broker
@pytest.mark.timeout(240)
def test_a_broker_of_3_9_with_the_coordinator_in_scala_is_led_alike() -> None:
    name = "coexist-39"
    haunted = f"{name}-ghosts"
    with (
        KafkaCluster(nodes=1, racks=(), release=BROKER_39) as old,
        Flock(old.bootstrap) as flock,
        assisting(old, haunted, client_ids_unique=True) as assist,
    ):
        old.create_topic(name, PARTITIONS)
        # A process must be back before its session there has ended, however slow its machine is.
        with Bellwether(old, [name], options={"session_timeout_ms": 45_000}) as lead:
            members = pair(flock, name)
            reported = [member.count("assigned") for member in members]
            lead.kill()
            lead.start()
            wait_until(lambda: "came back to its group without a rebalance" in lead.text(), 30, lead.tail)
            members.append(flock.member("confluent", name, [name], ["range"]))
            wait_settled(members, partitions_of({name: PARTITIONS}), spread=1)
            assert [member.count("assigned") for member in members[:2]] == [count + 1 for count in reported]
            old.stop_node(1)
            old.start_node(1)
            wait_until(lambda: lead.is_member(name), 60, lead.tail)
            led = len(lead.log("decision", group=name))
            members.pop().stop()
            wait_settled(members, partitions_of({name: PARTITIONS}), spread=0)
            wait_until(lambda: len(lead.log("decision", group=name)) > led, 30, lead.tail)
        freed_of_a_ghost(old, haunted, assist)
