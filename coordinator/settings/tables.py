"""The tables beside the groups: where events go, where weights come from, what traffic costs, and the racks of members
that send none. All are off until something is set.

[events]
topic = "bellwether.events"
sample_interval_ms = 30000                 # lag and traffic of led groups
registry_url = "http://registry:8081"      # none: Avro single objects
[weights]
topic = "bellwether.weights"               # compacted; written by the pipeline's weights job
age_ms_max = 7200000                       # older weights are ignored
[cost]
price_per_gb = 0.02                        # of traffic between racks; only shown, no decision depends on it
currency = "USD"
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
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from bellwether_kafka.coordinator.names import keep_secret
from bellwether_kafka.coordinator.planning import Networks, RackFile, RackRules, network
from bellwether_kafka.coordinator.settings.patterns import pattern
from bellwether_kafka.protocol.primitives import is_topic_name


def _can_be(name: str) -> str:
    if not is_topic_name(name):
        raise ValueError(
            "no topic can have this name; write 1 to 249 of the letters a to z and A to Z, digits, '.', '_' and '-',"
            " and more than one or two dots"
        )
    return name


def _can_be_or_none(name: str) -> str:
    return _can_be(name) if name else name


TopicName = Annotated[str, AfterValidator(_can_be)]
TopicNameOrNone = Annotated[str, AfterValidator(_can_be_or_none)]  # "" for none


Positive = Annotated[int, Field(gt=0)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class EventSettings(_Table):
    """Where events go. Times are milliseconds."""

    topic: TopicName = Field(description="the events topic")
    create_topic: bool = Field(default=True, description="create it where it is missing")
    sample_interval_ms: Annotated[int, Field(ge=1_000)] = Field(
        default=30_000, description="how often lags and traffic of groups are sampled"
    )
    registry_url: str | None = Field(
        default=None, pattern=r"^https?://", description="a Confluent Schema Registry; Avro single objects without"
    )

    @field_validator("registry_url")
    @classmethod
    def _keeps_its_password(cls, value: str | None) -> str | None:
        """Hides a password in the address from all output."""
        for password in (urlsplit(value).password or "",) if value else ():
            keep_secret(password)
            keep_secret(unquote(password))
        return value


class WeightSettings(_Table):
    """Where weights come from. Times are milliseconds."""

    topic: TopicName = Field(description="the compacted topic of weights")
    create_topic: bool = Field(default=True, description="create it where it is missing")
    age_ms_max: Positive = Field(default=7_200_000, description="older weights count for nothing")


class CostSettings(_Table):
    """The price of traffic between racks. It is shown, but no decision depends on it."""

    price_per_gb: Annotated[float, Field(ge=0)] | None = Field(
        default=None,
        description="what a gigabyte (10^9 bytes) costs that a member reads from another rack, both directions"
        " together; needs `[weights]`",
    )
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$", description="of that price, three letters")
    follower_fetching: bool | None = Field(
        default=None,
        description="whether consumers may fetch from the replica in their rack (KIP-392); not set: as brokers'"
        " `replica.selector.class` says, and no if it cannot be read",
    )


RackName = Annotated[str, Field(min_length=1)]


class RackSettings(_Table):
    """Where the racks of members come from that send none."""

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
