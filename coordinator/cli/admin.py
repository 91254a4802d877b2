"""An admin client of librdkafka for commands."""

from collections.abc import Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from bellwether_kafka.coordinator.cli.output import fail
from bellwether_kafka.coordinator.kafka import client, wire


def admin_of(properties: Mapping[str, str]) -> AdminClient:
    """Returns a client with the configured properties. Ends the process with a sentence if there is an error."""
    try:
        named = {"log_level": 2, **wire.librdkafka_properties(properties)}
        return client.librdkafka_client(AdminClient, named)
    except client.LoginError as error:
        fail(error.sentence)
    except wire.ClientConfigError as error:
        fail(str(error))
    except KafkaException as error:
        fail(f"No client can be made of these properties: {error.args[0].str()}; correct those under [kafka].")
