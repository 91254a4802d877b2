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

    topic: TopicName
    create_topic: bool = True
    sample_interval_ms: Annotated[int, Field(ge=1_000)] = 30_000
    registry_url: str | None = Field(default=None, pattern=r"^https?://")
    queue_max: Positive = 256

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

    topic: TopicName
    create_topic: bool = True
    age_ms_max: Positive = 7_200_000


class CostSettings(_Table):
    """The price of traffic between racks. It is shown, but no decision depends on it."""

    price_per_gb: Annotated[float, Field(ge=0)] | None = None
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$")
    follower_fetching: bool | None = None  # None: by the brokers' replica.selector.class, if it may be read
