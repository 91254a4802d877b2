"""Decides the rack of a member that sends none, and whether it may fetch from followers. Pure, but for the file."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from bellwether_kafka.coordinator.planning.racks.networks import Networks
from bellwether_kafka.coordinator.planning.racks.rack_file import RackFile


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
