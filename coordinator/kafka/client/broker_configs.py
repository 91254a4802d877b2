"""Reads settings of every broker, such as group.max.size, which Bellwether must know before it adds temporary members
to a group, and their releases."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.metadata import ApiVersionsRequest

from bellwether_kafka.coordinator.kafka.client.cluster import ClusterReader, ClusterUnreachableError
from bellwether_kafka.coordinator.kafka.client.librdkafka import DENIED
from bellwether_kafka.coordinator.kafka.wire import Transport, TransportError, release_of
from bellwether_kafka.coordinator.membership import Node, SizeLimit
from bellwether_kafka.protocol.primitives import whole_number

SettingOfBroker: TypeAlias = "str | KafkaError | None"  # None: the broker does not have that setting

RELEASE_TIMEOUT_MS = 5_000
GROUP_SIZE_MAX = "group.max.size"
NO_RIGHT = SizeLimit(
    unknown=f"Bellwether may not read the brokers' {GROUP_SIZE_MAX}",
    remedy="grant Bellwether's principal the ACL DESCRIBE_CONFIGS on the cluster",
)
AGAIN = "wait until Bellwether asks again"


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


def read_size_limit(admin: AdminClient, limit_s: float) -> SizeLimit:
    """Reads the limit. Blocks for about `limit_s` at most."""
    try:
        settings = read_broker_config(admin, GROUP_SIZE_MAX, limit_s)
    except (KafkaException, TimeoutError) as error:
        return SizeLimit(unknown=f"the brokers have not sent their {GROUP_SIZE_MAX} ({error})", remedy=AGAIN)
    return size_limit({node: whole_number(s) if isinstance(s, str) else s for node, s in settings.items()})


def size_limit(answers: Mapping[int, int | KafkaError | None]) -> SizeLimit:
    """Returns the smallest limit, if every broker has sent its own. None in `answers` is a broker without that setting.

    Only the group's coordinator node enforces the limit, but every broker may become it, so one that does not answer
    makes the limit unknown. The controller delists a broker that stays away; then it is not queried any more.
    """
    refused = {node: error for node, error in answers.items() if isinstance(error, KafkaError)}
    if any(error.code() in DENIED for error in refused.values()):
        return NO_RIGHT
    if refused:
        why = "; ".join(f"broker {node}: {error.str()}" for node, error in sorted(refused.items()))
        unread = f"{len(refused)} of {len(answers)} brokers have not sent their {GROUP_SIZE_MAX} ({why})"
        return SizeLimit(unknown=unread, remedy=AGAIN)
    sizes = [size for size in answers.values() if isinstance(size, int)]
    if not sizes or len(sizes) < len(answers):
        return SizeLimit(unknown=f"the brokers have no {GROUP_SIZE_MAX} that Bellwether could read", remedy=AGAIN)
    return SizeLimit(min(sizes))


@dataclass(frozen=True, slots=True)
class Supported:
    """What brokers can do. `release` is that of the oldest broker that answered, with two numbers: brokers do not show
    their patch level; () if it is not known. `features` are the levels that the cluster has finalized, None if they are
    not known; a feature that is not in it has level 0. `features_epoch` orders the answers of several brokers."""

    release: tuple[int, ...] = ()
    features: Mapping[str, int] | None = None
    features_epoch: int = -1


@dataclass(frozen=True, slots=True)
class AskSupported:
    """ApiVersions. The release is () if the broker refuses."""

    node: Node
    timeout_ms: int

    def message(self) -> Any:
        return ApiVersionsRequest(client_software_name="bellwether", client_software_version="")

    def answer(self, response: Any) -> Supported:
        if response.error_code:
            return Supported()
        versions: Mapping[int, tuple[int, int]] = {
            key.api_key: (key.min_version, key.max_version) for key in response.api_keys
        }
        release = release_of(BrokerVersionData(api_versions=versions))
        epoch = getattr(response, "finalized_features_epoch", None)
        if epoch is None or epoch < 0:
            return Supported(release)
        features = {feature.name: feature.max_version_level for feature in response.finalized_features or ()}
        return Supported(release, features, epoch)


async def oldest_release(transport: Transport, reader: ClusterReader) -> tuple[int, ...]:
    """Returns the release of the oldest broker that answers, during an upgrade: any may coordinate a group. It is that
    of the first bootstrap server if none answers, and the pinned one if there is any."""
    if transport.pins_version:
        return transport.broker_version
    return (await read_supported(transport, reader)).release


async def read_supported(transport: Transport, reader: ClusterReader) -> Supported:
    """Returns what all brokers that answer support, with the release as `oldest_release` returns it."""
    try:
        nodes = await reader.nodes()
    except ClusterUnreachableError:
        return Supported(transport.broker_version)
    asked = (transport.ask(AskSupported(node, RELEASE_TIMEOUT_MS)) for node in nodes)
    answers = await asyncio.gather(*asked, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, TransportError):
            raise answer
    answered = [answer for answer in answers if isinstance(answer, Supported)]
    newest = max(answered, key=lambda answer: answer.features_epoch, default=Supported())
    releases = [answer.release for answer in answered if answer.release]
    oldest = transport.broker_version if transport.pins_version else min(releases, default=transport.broker_version)
    return replace(newest, release=oldest)
