"""The settings of the data pipeline: where events go, and where weights come from. Both are off until a topic is named.

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
"""

from typing import Annotated
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from bellwether_kafka.coordinator.names import keep_secret
from bellwether_kafka.coordinator.settings.topic_name import TopicName

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
