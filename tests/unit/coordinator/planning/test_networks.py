"""The rack of an address: the longest prefix that contains it."""

import pytest

from bellwether_kafka.coordinator.planning import Networks, network

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
