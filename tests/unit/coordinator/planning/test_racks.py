"""Racks of members that send none: which rule gives them, what a rack file may have, and what a leader knows of its
members when it decides."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bellwether_kafka.coordinator.membership import DescribedMember, JoinedMember
from bellwether_kafka.coordinator.planning import (
    NO_RULES,
    Networks,
    RackFile,
    RackFileError,
    RackRules,
    RackSource,
    network,
)
from bellwether_kafka.coordinator.planning.racks import MemberRacks
from bellwether_kafka.coordinator.settings import SettingsError
from tests.kit.plans import rack_rules

# ---- the longest prefix that contains an address -------------------------------------------------------------------

RACKS = {
    "10.0.0.0/8": "az1",
    "10.2.0.0/16": "az2",
    "10.2.3.4": "az3",
    "fd00:1::/32": "az1",
    "::/0": "az9",
}
NETWORKS = Networks.of({network(text): rack for text, rack in RACKS.items()})


@pytest.mark.parametrize(
    ("host", "rack"),
    [
        ("/10.1.0.1", "az1"),
        ("/10.2.0.1", "az2"),
        ("/10.2.3.4", "az3"),
        ("10.2.3.5", "az2"),
        ("node-7.example/10.2.3.4", "az3"),
        ("/fd00:1:0:0:0:0:0:7", "az1"),
        ("/fe80::1%eth0", "az9"),
        ("/::ffff:10.2.3.4", "az3"),
        ("/192.168.0.1", None),
        ("", None),
        ("localhost", None),
    ],
)
def test_the_longest_prefix_wins(host: str, rack: str | None) -> None:
    assert NETWORKS.rack_of(host) == rack


@pytest.mark.parametrize("text", ["::ffff:10.1.0.0/112", "::ffff:10.1.0.5"])
def test_a_network_of_ipv4_that_is_written_as_ipv6_has_its_hosts(text: str) -> None:
    """It had none, whichever way the broker wrote the host."""
    networks = Networks.of({network(text): "az1"})
    assert [networks.rack_of(host) for host in ("/10.1.0.5", "/::ffff:10.1.0.5", "/10.2.0.5")] == ["az1", "az1", None]


def test_every_address_has_the_rack_of_the_smallest_network_that_contains_it() -> None:
    nested = {network(f"10.{i}.0.0/{16 + i % 3 * 4}"): f"az{i}" for i in range(6)}
    networks = Networks.of(nested | {network("10.0.0.0/8"): "all"})
    for second in range(8):
        for third in (0, 7, 15, 16, 255):
            inside = [net for net in nested if network(f"10.{second}.{third}.9").subnet_of(net)]  # type: ignore[arg-type]
            expected = nested[max(inside, key=lambda net: net.prefixlen)] if inside else "all"
            assert networks.rack_of(f"/10.{second}.{third}.9") == expected


@pytest.mark.parametrize("text", ["", "az1", "10.0.0.0/33", "10.0.0.1/8", "10.0.0"])
def test_what_is_no_network_is_refused_with_a_clause(text: str) -> None:
    with pytest.raises(ValueError, match="is neither an address nor a CIDR such as"):
        network(text)


# ---- which rule gives a member its rack, and whether followers count -----------------------------------------------


def rules(folder: Path) -> RackRules:
    (folder / "racks").write_text("10.0.0.0/8 of-file\n")
    return rack_rules(
        client_ids={"*": "of-any-client", "orders-*": "of-client", "orders-9": "of-one-client"},
        hosts={"10.1.0.0/16": "of-host"},
        file=folder / "racks",
        fetch_from_followers=("orders-*",),
    )


@pytest.mark.parametrize(
    ("client_id", "host", "rack", "source", "leader_only"),
    [
        ("orders-1", "/10.1.0.1", "of-client", RackSource.CLIENT_ID, False),
        ("orders-9", "/10.1.0.1", "of-one-client", RackSource.CLIENT_ID, False),
        ("clicks-1", "/10.1.0.1", "of-any-client", RackSource.CLIENT_ID, True),
        ("", "/10.1.0.1", "of-host", RackSource.HOST, True),
        ("", "/10.2.0.1", "of-file", RackSource.FILE, True),
    ],
)
def test_client_id_then_host_then_file(
    tmp_path: Path, client_id: str, host: str, rack: str, source: RackSource, leader_only: bool
) -> None:
    given = rules(tmp_path).rack_of(client_id, host)
    assert (given.rack, given.source, given.leader_only) == (rack, source, leader_only)


def test_a_member_that_no_rule_fits_has_no_rack(tmp_path: Path) -> None:
    for given in (rules(tmp_path).rack_of("", "/192.168.0.1"), NO_RULES.rack_of("orders-1", "/10.1.0.1")):
        assert (given.rack, given.source, given.leader_only) == (None, RackSource.NONE, False)
    assert not NO_RULES
    with pytest.raises(SettingsError, match="fetch_from_followers is for members whose rack is configured"):
        rack_rules(fetch_from_followers=("orders-*",))


# ---- the file: its two forms, what is refused, and that it is read again -------------------------------------------

REST_S = 1.0

# What `kubectl get nodes -o custom-columns=...` writes: a column for each value, `<none>` where a node has none.
OF_KUBECTL = b"""\
10.244.0.0/24   az1
10.244.1.0/24   az2
<none>          az3
10.244.2.0/24   <none>
"""


WITH_COMMAS = b"10.244.0.0/24,az1 # one\n\n#\n10.244.1.0/24, az2"
AS_JSON = b'{"10.244.0.0/24": "az1", "10.244.1.0/24": "az2"}'


@pytest.mark.parametrize("text", [OF_KUBECTL, WITH_COMMAS, AS_JSON, b"\xef\xbb\xbf" + WITH_COMMAS])
def test_both_forms_give_the_same_networks(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "racks").write_bytes(text)
    networks = RackFile(tmp_path / "racks").networks
    assert [networks.rack_of(f"/10.244.{n}.7") for n in range(3)] == ["az1", "az2", None]


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        (b"10.0.0.0/24 az1\n10.0.1.0/24", "line 2 is no pair of an address or CIDR and a rack"),
        (b"10.0.0.0/24 az1 b", "line 1 is no pair"),
        (b"node-1 az1", "line 1: node-1 is neither an address nor a CIDR"),
        (b"10.0.0.1 az1\n10.0.0.1 az2", "line 2: 10.0.0.1 has two racks, az1 and az2"),
        (b'{"10.0.0.0/24": 3}', "the rack of 10.0.0.0/24 is no text"),
        (b'{"10.0.0.0/24"', "it is not JSON"),
        (b'{"10.0.0.0/24": "az1", "10.0.0.0/24": "az2"}', "it has the key 10.0.0.0/24 twice"),
        (b"\xff az1", "it is not UTF-8"),
        (b"", "it gives no address a rack"),
        (b"{}", "it gives no address a rack"),
        (b"# none yet\n10.244.2.0/24 <none>\n", "it gives no address a rack"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_place(tmp_path: Path, text: bytes, clause: str) -> None:
    (tmp_path / "racks").write_bytes(text)
    with pytest.raises(RackFileError, match=re.escape(f"cannot be used: {clause}")):
        RackFile(tmp_path / "racks")


def test_a_file_that_cannot_be_read_is_an_error_of_the_settings(tmp_path: Path) -> None:
    with pytest.raises(RackFileError, match=r"^The file .*/none of racks.file cannot be read \(No such file"):
        RackFile(tmp_path / "none")


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bellwether_kafka.coordinator.planning.racks.BYTES_MAX", 10)
    (tmp_path / "racks").write_text("10.0.0.0/24 az1")
    with pytest.raises(RackFileError, match="it has more than 10 bytes"):
        RackFile(tmp_path / "racks")


def test_a_changed_file_is_read_again_and_an_unchanged_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "racks"
    path.write_text("10.0.0.1 az1")
    file = RackFile(path)
    file.refresh(10.0)
    assert (file.version, file.networks.rack_of("/10.0.0.1")) == (1, "az1")
    (tmp_path / "new").write_text("10.0.0.1 az2")
    (tmp_path / "new").replace(path)
    for now in (20.0, 20.0 + REST_S, 30.0):
        file.refresh(now)
    assert (file.version, file.networks.rack_of("/10.0.0.1")) == (2, "az2")


@pytest.mark.parametrize("text", ["10.0.0.1 two words", ""], ids=["malformed", "left empty by a command that failed"])
def test_a_changed_file_that_cannot_be_used_is_reported_once_and_changes_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "racks"
    path.write_text("10.0.0.1 az1")
    file = RackFile(path)
    path.write_text(text)
    with capture_logs() as logs:
        for now in (10.0, 20.0, 30.0):
            file.refresh(now)
    assert [line["event"] for line in logs] == ["rack_file_refused"]
    assert logs[0]["reason"].endswith("correct it. What was read before stays in force.")
    assert (file.version, file.networks.rack_of("/10.0.0.1")) == (1, "az1")
    path.unlink()
    for now in (40.0, 50.0):
        file.refresh(now)
    assert file.networks.rack_of("/10.0.0.1") == "az1"


def test_a_file_that_is_being_written_is_read_once_it_rests(tmp_path: Path) -> None:
    path = tmp_path / "racks"
    path.write_text("10.0.0.1 az1\n10.0.0.2 az1\n")
    file = RackFile(path)
    for now, written in ((10.0, ""), (11.0, "10.0.0.1 az"), (12.0, "10.0.0.1 az2\n10.0.0.2 az2\n")):
        path.write_text(written)
        for since in (0.0, 0.9):  # seconds
            file.refresh(now + since)
            assert [file.networks.rack_of(f"/10.0.0.{n}") for n in (1, 2)] == ["az1", "az1"]
    file.refresh(12.0 + REST_S)
    assert [file.networks.rack_of(f"/10.0.0.{n}") for n in (1, 2)] == ["az2", "az2"]


# ---- client ids from member ids, hosts from earlier descriptions ---------------------------------------------------

UUID = "0d6e1a3c-53a1-4a4f-9d3e-1b2c3d4e5f60"
BY_CLIENT = rack_rules(client_ids={"orders-a*": "az1"})
BY_HOST = rack_rules(hosts={"10.1.0.0/16": "az1", "10.2.0.0/16": "az2"})


def joined(member_id: str, instance_id: str | None = None) -> JoinedMember:
    return JoinedMember(member_id, instance_id, b"")


def shown(member_id: str, host: str, instance_id: str | None = None, client_id: str = "c") -> DescribedMember:
    return DescribedMember(member_id, instance_id, client_id=client_id, client_host=host)


def test_the_client_id_of_a_dynamic_member_is_in_its_member_id() -> None:
    racks = MemberRacks(BY_CLIENT)
    assert racks.of(joined(f"orders-a-1-{UUID}")).rack == "az1"
    assert racks.of(joined(f"orders-b-1-{UUID}")).rack is None
    assert not racks.lacks([joined(f"orders-a-1-{UUID}")])


def test_the_client_id_of_a_static_member_is_known_once_it_was_shown_and_outlives_a_restart() -> None:
    racks, member = MemberRacks(BY_CLIENT), joined(f"orders-a-{UUID}", "orders-a")
    assert (racks.of(member).rack, racks.lacks([member])) == (None, True), "this one has its instance id in it"
    racks.observe([shown(member.member_id, "/10.1.0.1", "orders-a", client_id="orders-a1")])
    assert racks.of(joined(f"orders-a-again-{UUID}", "orders-a")).rack == "az1"
    assert not racks.lacks([member])


def test_a_host_is_known_once_it_was_shown() -> None:
    racks = MemberRacks(BY_HOST)
    assert (racks.of(joined("a")).rack, racks.lacks([joined("a")])) == (None, True)
    racks.observe([shown("a", "/10.1.0.1"), shown("b", "/10.2.0.1")])
    assert [racks.of(joined(name)).rack for name in "abc"] == ["az1", "az2", None]
    assert [racks.lacks([joined(name)]) for name in "abc"] == [False, False, True]


def test_a_static_member_that_restarts_is_taken_to_be_on_its_last_host_until_it_is_shown() -> None:
    racks = MemberRacks(BY_HOST)
    racks.observe([shown("a-1", "/10.1.0.1", "a")])
    assert racks.of(joined("a-2", "a")).rack == "az1"
    racks.observe([shown("a-2", "/10.2.0.1", "a")])
    assert racks.of(joined("a-2", "a")).rack == "az2"


def test_members_that_are_gone_are_forgotten_but_an_empty_answer_is_no_description() -> None:
    racks = MemberRacks(BY_HOST)
    racks.observe([shown("a", "/10.1.0.1"), shown("b", "/10.2.0.1")])
    racks.observe([])
    racks.observe([shown("b", "/10.2.0.1")])
    assert [racks.of(joined(name)).rack for name in "ab"] == [None, "az2"]


def test_without_rules_nothing_is_kept_and_nothing_is_lacking() -> None:
    racks = MemberRacks()
    racks.observe([shown("a", "/10.1.0.1")])
    assert (racks.of(joined("a")).rack, racks.lacks([joined("a")])) == (None, False)


def test_the_version_changes_with_what_is_known_only() -> None:
    racks = MemberRacks(BY_HOST)
    versions = [racks.version]
    for host in ("/10.1.0.1", "/10.1.0.1", "/10.2.0.1"):
        racks.observe([shown("a", host)])
        versions.append(racks.version)
    assert [before != after for before, after in pairwise(versions)] == [True, False, True]
