"""The racks of members that send none:

[racks]
file = "racks.txt"                         # addresses or CIDRs with their racks; read again when it changes
fetch_from_followers = ["clicks-*"]        # client ids that fetch from followers without a rack in their subscription
[racks.client_ids]
"orders-az1-*" = "az1"                     # patterns as those of groups
[racks.hosts]
"10.1.0.0/16" = "az1"                      # the longest prefix that contains the host wins
"""

from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from bellwether_kafka.coordinator.planning import Networks, RackFile, RackRules, network
from bellwether_kafka.coordinator.settings.patterns import pattern

RackName = Annotated[str, Field(min_length=1)]


class RackSettings(BaseModel):
    """Where the racks of members come from that send none."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    client_ids: dict[str, RackName] = Field(
        default_factory=dict,
        description="racks by patterns of client ids, written as those of groups; the most specific one that fits"
        " counts",
    )
    hosts: dict[str, RackName] = Field(
        default_factory=dict,
        description="racks by addresses or CIDRs of members' hosts; the longest prefix counts, and any fitting client"
        " id comes before",
    )
    file: Path | None = Field(
        default=None,
        description="a file with an address or CIDR and its rack per line, or as a JSON object, relative to the"
        " configuration file and read again when it changes; `hosts` come before it",
    )
    fetch_from_followers: tuple[str, ...] = Field(
        default=(),
        description="patterns of client ids whose members have a rack for fetching (KIP-392) that they do not send:"
        " any replica in their rack is local to them",
    )

    @field_validator("client_ids", "fetch_from_followers")
    @classmethod
    def _are_patterns(cls, value: dict[str, str] | tuple[str, ...]) -> dict[str, str] | tuple[str, ...]:
        for text in value:
            pattern(text)
        return value

    @field_validator("hosts")
    @classmethod
    def _are_networks(cls, value: dict[str, str]) -> dict[str, str]:
        racks = dict[object, str]()
        for text, rack in value.items():
            if racks.setdefault(network(text), rack) != rack:
                raise ValueError(f"{text} has two racks, {racks[network(text)]} and {rack}; remove one")
        return value

    @model_validator(mode="after")
    def _has_racks(self) -> Self:
        if self.fetch_from_followers and not (self.client_ids or self.hosts or self.file):
            raise ValueError(
                "fetch_from_followers is for members whose rack is configured; add client_ids, hosts or file, or remove"
                " it"
            )
        return self

    def rules(self) -> RackRules:
        """Returns the rules; the most specific pattern of client ids is tried first. Reads the file. Raises
        RackFileError."""
        texts = sorted(self.client_ids, key=lambda text: pattern(text).precision, reverse=True)
        return RackRules(
            client_ids=tuple((pattern(text), self.client_ids[text]) for text in texts),
            hosts=Networks.of({network(text): rack for text, rack in self.hosts.items()}),
            file=RackFile(self.file) if self.file is not None else None,
            followers=tuple(map(pattern, self.fetch_from_followers)),
        )
