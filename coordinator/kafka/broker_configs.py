"""Reads one setting of every broker."""

from concurrent.futures import Future
from typing import TypeAlias, cast

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource

SettingOfBroker: TypeAlias = "str | KafkaError | None"  # None: the broker does not have that setting


def read_broker_config(admin: AdminClient, name: str, limit_s: float) -> dict[int, SettingOfBroker]:
    """Returns the setting of each listed broker by its id. Blocks for about `limit_s` at most. Raises KafkaException or
    TimeoutError if the brokers cannot be listed.

    librdkafka refuses a request for several brokers, so each gets its own request. All are sent at once, so that a
    silent broker does not delay the others.
    """
    nodes = admin.describe_cluster(request_timeout=limit_s).result(limit_s + 1).nodes
    brokers = {node.id: ConfigResource(ConfigResource.Type.BROKER, str(node.id)) for node in nodes}
    requests = {
        node: admin.describe_configs([broker], request_timeout=limit_s)[broker] for node, broker in brokers.items()
    }
    return {node: _answer(request, name, limit_s) for node, request in requests.items()}


def _answer(request: "Future[dict[str, object]]", name: str, limit_s: float) -> SettingOfBroker:
    try:
        setting = request.result(limit_s + 1).get(name)
    except KafkaException as error:
        return cast("KafkaError", error.args[0])
    except TimeoutError:
        return KafkaError(KafkaError._TIMED_OUT)  # noqa: SLF001 - librdkafka's own errors begin with an underscore
    return None if setting is None else str(getattr(setting, "value", ""))
