"""Finds the rack of an address by the longest matching prefix. Pure."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
MAPPED = 96  # bits of an IPv6 address before the address of IPv4 that it contains


@dataclass(frozen=True, slots=True)
class Networks:
    """Networks and their racks. `racks[version, prefix]` has the racks by the address of the network, so that the time
    of a search depends on the number of different prefixes and not on that of networks."""

    racks: Mapping[tuple[int, int], Mapping[int, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, racks: Mapping[Network, str]) -> "Networks":
        tables: dict[tuple[int, int], dict[int, str]] = {}
        for net in sorted(racks, key=lambda net: net.prefixlen, reverse=True):
            tables.setdefault((net.version, net.prefixlen), {})[int(net.network_address)] = racks[net]
        return cls(tables)

    def rack_of(self, host: str) -> str | None:
        """Returns the rack of a host as brokers name it ("/10.0.0.7", or with a name before the slash), None if no
        network contains it."""
        address = _address(host)
        if address is None:
            return None
        bits = address.max_prefixlen
        for (version, prefix), racks in self.racks.items():
            rack = racks.get(int(address) >> (bits - prefix) << (bits - prefix)) if version == address.version else None
            if rack is not None:
                return rack
        return None


def network(text: str) -> Network:
    """Parses a CIDR, or the address of one host. One of IPv4 that is written as IPv6 is one of IPv4, as a host's
    address is. Raises ValueError with a clause."""
    try:
        net = ipaddress.ip_network(text)
    except ValueError as error:
        raise ValueError(f"{text} is neither an address nor a CIDR such as 10.0.0.0/16 ({error})") from None
    mapped = net.network_address.ipv4_mapped if isinstance(net, ipaddress.IPv6Network) else None
    return net if mapped is None or net.prefixlen < MAPPED else ipaddress.ip_network((mapped, net.prefixlen - MAPPED))


def _address(host: str) -> Address | None:
    try:
        address = ipaddress.ip_address(host.rpartition("/")[2].partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
