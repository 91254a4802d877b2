"""Creates librdkafka clients. If the login gets no token, an error with the reason is raised at once.

librdkafka itself waits ten seconds for a token and then reports only that there is none.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from bellwether_kafka.coordinator.kafka.wire import CALLBACK, TokenError

Client = TypeVar("Client")


class LoginError(KafkaException):  # type: ignore[misc]  # confluent-kafka has no types
    """A login gets no token, perhaps only for now. The text of its error is a clause with the remedy."""

    @property
    def clause(self) -> str:
        return str(self.args[0].str())

    @property
    def sentence(self) -> str:
        return f"{self.clause[:1].upper()}{self.clause[1:]}."


def librdkafka_client(make: Callable[[dict[str, Any]], Client], properties: Mapping[str, Any]) -> Client:
    """Returns `make(properties)`. The properties must come from `librdkafka_properties`. Raises KafkaException."""
    callback = properties.get(CALLBACK)
    if callback is not None:
        try:
            callback()
        except TokenError as error:
            sentence = str(error).rstrip(".")
            clause = f"{sentence[:1].lower()}{sentence[1:]}"
            raise LoginError(KafkaError(KafkaError._AUTHENTICATION, clause)) from None  # noqa: SLF001 - a public name
    return make(dict(properties))
