"""Racks of members that send none: from the configuration, by client id, by host, or from a file.

Pure, but for the file. That has one address or CIDR with its rack per line, with spaces or a comma between; `#` begins
a comment, and a line with `<none>`, which kubectl writes for a missing value, is left out. Or it is a JSON object:
{"10.1.0.0/24": "az1"}. It is read again when it has changed.

A leader receives neither client ids nor hosts with a JoinGroup answer. Both are in DescribeGroups answers, and plans do
not wait for one. Of a member that no answer has shown, the member id has the client id: brokers form the id of a
dynamic member from its client id and a UUID, that of a static one from its instance id.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Protocol

import structlog

from bellwether_kafka.bounded import ChangingFile, OutsideTextError, json_of, read_file
from bellwether_kafka.coordinator.membership import MEMBER_ID_UUID_LENGTH, DescribedMember, JoinedMember

log = structlog.get_logger(__name__)

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


BYTES_MAX = 4_000_000  # about a hundred thousand lines
ABSENT = "<none>"
REST_S = 1.0


class RackFileError(Exception):
    """Raised if the file cannot be used; the message is one sentence."""


class RackFile:
    """A rack file. `networks` are those in force. `refresh` is for one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Reads the file. Raises RackFileError."""
        self.path = path
        self.version = 1
        self._file = ChangingFile(path, REST_S)
        self.networks = _read(path)

    def refresh(self, now: float) -> None:
        """Reads the file again if it has changed and then rested for REST_S. `now` is in seconds, by any clock. Blocks.
        If the file cannot be used, that is logged once, and what was read before stays in force."""
        try:
            networks = self._file.read_again(partial(_read, self.path), now)
        except RackFileError as error:
            _log_refused(self.path, error)
            return
        if networks is None:
            return
        self.networks = networks
        self.version += 1
        log.info("rack_file_read", file=str(self.path))


def networks_of(data: bytes) -> Networks:
    """Returns the networks in a file. Raises OutsideTextError with a clause, also if there are none: that is what a
    failed `kubectl ... > FILE` leaves, and members without a rack would be moved."""
    try:
        text = data.decode("utf-8-sig")  # some editors begin a file with a mark
    except UnicodeDecodeError:
        raise OutsideTextError("it is not UTF-8") from None
    entries = _of_json(text) if text.lstrip().startswith("{") else _of_lines(text)
    racks: dict[Network, str] = {}
    for where, host, rack in entries:
        try:
            net = network(host)
        except ValueError as error:
            raise OutsideTextError(f"{where}: {error}") from None
        if racks.setdefault(net, rack) != rack:
            raise OutsideTextError(f"{where}: {host} has two racks, {racks[net]} and {rack}")
    if not racks:
        raise OutsideTextError("it gives no address a rack")
    return Networks.of(racks)


def _of_json(text: str) -> Iterable[tuple[str, str, str]]:
    table = json_of(text, unique=True)
    for host, rack in table.items():
        if not isinstance(rack, str) or not rack:
            raise OutsideTextError(f"the rack of {host} is no text")
        yield "JSON", host, rack


def _of_lines(text: str) -> Iterable[tuple[str, str, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words or ABSENT in words:
            continue
        if len(words) != 2:
            raise OutsideTextError(f"line {number} is no pair of an address or CIDR and a rack")
        yield f"line {number}", words[0], words[1]


def _read(path: Path) -> Networks:
    try:
        return networks_of(read_file(path, BYTES_MAX))
    except OSError as error:
        raise RackFileError(f"The file {path} of racks.file cannot be read ({error.strerror}).") from None
    except OutsideTextError as error:
        raise RackFileError(f"The file {path} of racks.file cannot be used: {error}; correct it.") from None


def _log_refused(path: Path, error: RackFileError) -> None:
    log.error("rack_file_refused", file=str(path), reason=f"{error} What was read before stays in force.")


class RackSource(StrEnum):
    """Where the rack of a member comes from; the first that has one wins."""

    MEMBER = "client.rack"
    CLIENT_ID = "client id"
    HOST = "host"
    FILE = "file"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class ConfiguredRack:
    """A member's rack by the configuration. `leader_only`: without client.rack it fetches from partition leaders only
    (KIP-392)."""

    rack: str | None = None
    source: RackSource = RackSource.NONE
    leader_only: bool = False


NO_RACK = ConfiguredRack()


class ClientIdPattern(Protocol):
    """The part of `settings.Pattern` that this module uses."""

    def fits(self, text: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class RackRules:
    """The rules of `[racks]`. `client_ids` are in the order in which they are tried. `followers` are patterns of client
    ids whose members fetch from followers although they send no rack in their subscription."""

    client_ids: tuple[tuple[ClientIdPattern, str], ...] = ()
    hosts: Networks = field(default_factory=Networks)
    file: RackFile | None = None
    followers: tuple[ClientIdPattern, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.client_ids or self.hosts.racks or self.file)

    @property
    def need_hosts(self) -> bool:
        """Whether a rack may depend on the member's host."""
        return bool(self.hosts.racks or self.file)

    @property
    def version(self) -> int:
        """Changes whenever the file has been read again."""
        return self.file.version if self.file is not None else 0

    def rack_of(self, client_id: str, host: str) -> ConfiguredRack:
        """Returns the rack of a member that sends none. `client_id` and `host` are "" if they are not known yet."""
        for rack, source in self._racks(client_id, host):
            if rack is not None:
                leader_only = not any(pattern.fits(client_id) for pattern in self.followers)
                return ConfiguredRack(rack, source, leader_only)
        return NO_RACK

    def _racks(self, client_id: str, host: str) -> Iterator[tuple[str | None, RackSource]]:
        if client_id:
            yield (
                next((rack for pattern, rack in self.client_ids if pattern.fits(client_id)), None),
                RackSource.CLIENT_ID,
            )
        yield self.hosts.rack_of(host), RackSource.HOST
        if self.file is not None:
            yield self.file.networks.rack_of(host), RackSource.FILE


NO_RULES = RackRules()


class MemberRacks:
    """The members of one group. Racks that members send themselves are not considered here."""

    def __init__(self, rules: RackRules = NO_RULES) -> None:
        self.rules = rules
        self._descriptions = 0  # that have brought something new
        self._shown: dict[str, DescribedMember] = {}  # by member id, and by instance id, which outlives a restart

    def observe(self, members: Iterable[DescribedMember]) -> None:
        """Remembers these members of a DescribeGroups answer, and forgets those that are not in it."""
        shown = [*members] if self.rules else []
        if not shown:
            return
        bare = [DescribedMember(m.member_id, m.instance_id, b"", b"", m.client_id, m.client_host) for m in shown]
        by_id = {key: m for m in bare for key in (m.instance_id, m.member_id) if key}
        if by_id != self._shown:
            self._shown, self._descriptions = by_id, self._descriptions + 1

    @property
    def version(self) -> tuple[int, int]:
        """Changes whenever `of` may give another answer."""
        return self._descriptions, self.rules.version

    def of(self, member: JoinedMember) -> ConfiguredRack:
        """Returns the rack of a member that sends none."""
        if not self.rules:
            return ConfiguredRack()
        shown = self._find(member)
        if shown is not None:
            return self.rules.rack_of(shown.client_id, shown.client_host)
        return self.rules.rack_of(_client_id(member), "")

    def lacks(self, members: Sequence[JoinedMember]) -> bool:
        """Returns whether another DescribeGroups answer would show something about these members that may matter."""
        if not self.rules:
            return False
        return any((self.rules.need_hosts or not _client_id(m)) and self._find(m) is None for m in members)

    def _find(self, member: JoinedMember) -> DescribedMember | None:
        return self._shown.get(member.member_id) or self._shown.get(member.instance_id or "")


def _client_id(member: JoinedMember) -> str:
    """Returns the client id in a dynamic member's id, "" for a static member."""
    return member.member_id[: -MEMBER_ID_UUID_LENGTH - 1] if member.instance_id is None else ""
