"""Creates the control topic, and says what is wrong with one, as sentences with the remedy."""

from collections.abc import Mapping

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from bellwether_kafka.coordinator.kafka.client import DENIED, SILENCE, LoginError, librdkafka_client
from bellwether_kafka.coordinator.kafka.wire import grant

METADATA_TIMEOUT_S = 5.0
REPLICAS_MAX = 3
CLEANUP, COMPACT = "cleanup.policy", "compact"
TOPIC_CONFIG = {CLEANUP: COMPACT, "segment.ms": "600000", "min.cleanable.dirty.ratio": "0.1"}

log = structlog.get_logger(__name__)

# Checking whether a topic exists must not create it, as librdkafka does by default if brokers allow it.
QUIET = {"allow.auto.create.topics": False, "log_level": "0"}


class ControlTopicError(Exception):
    """The control topic cannot be used. The message is a sentence with its name and the remedy."""


class NoControlTopicError(ControlTopicError):
    """The control topic does not exist on the cluster."""


class SilentTopicError(ControlTopicError):
    """No broker has answered, which may be temporary."""


def ensure_topic(properties: Mapping[str, str], topic: str, *, only_ask: bool = False) -> None:
    """Creates the topic, compacted and with one partition, unless it exists; with `only_ask` it asks whether brokers
    would. Raises ControlTopicError."""
    try:
        admin = librdkafka_client(AdminClient, {**properties, **QUIET})
        if not _exists(admin, topic):
            _create(admin, topic, only_ask=only_ask)
        elif fault := forgetful(admin, topic, METADATA_TIMEOUT_S):
            log.warning("control_topic", topic=topic, reason=fault)
    except KafkaException as failed:
        code = failed.args[0].code()
        if code == KafkaError.TOPIC_ALREADY_EXISTS:
            return
        if code in DENIED:
            raise ControlTopicError(
                f"The control topic '{topic}' does not exist and Bellwether's principal may not create it; create it"
                f" with one partition and cleanup.policy=compact, or {grant('CREATE', 'Topic', topic)}; or set"
                ' control_topic = "" where nobody is to give orders.'
            ) from None
        raise _unreachable(failed, topic) from None


def require_topic(properties: Mapping[str, str], topic: str) -> None:
    """Checks for commands, which do not create the topic, that it exists. Raises ControlTopicError if not."""
    try:
        admin = librdkafka_client(AdminClient, {**properties, **QUIET})
        if _exists(admin, topic):
            return
    except KafkaException as failed:
        raise _unreachable(failed, topic) from None
    raise NoControlTopicError(
        f"There is no control topic '{topic}' on this cluster, so no Bellwether reads it; check --topic, or start"
        f' one that leads or serves groups and has control_topic = "{topic}", which creates it if it has the right:'
        f" {grant('CREATE', 'Topic', topic)}."
    )


def _unreachable(failed: KafkaException, topic: str) -> ControlTopicError:
    silent = isinstance(failed, LoginError) or failed.args[0].code() in SILENCE
    kind = SilentTopicError if silent else ControlTopicError
    return kind(f"The control topic '{topic}' cannot be reached: {failed.args[0].str()}.")


def _exists(admin: AdminClient, topic: str) -> bool:
    metadata = admin.list_topics(topic, timeout=METADATA_TIMEOUT_S).topics[topic]
    if metadata.error is not None:
        if metadata.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise ControlTopicError(forbidden(topic))
        if metadata.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise KafkaException(metadata.error)
        return False
    if len(metadata.partitions) != 1:
        raise ControlTopicError(
            f"The control topic '{topic}' has {len(metadata.partitions)} partitions, but order matters; create another"
            " with one partition and cleanup.policy=compact, and set control_topic."
        )
    return True


def _create(admin: AdminClient, topic: str, *, only_ask: bool) -> None:
    replicas = min(REPLICAS_MAX, len(admin.list_topics(timeout=METADATA_TIMEOUT_S).brokers))
    new = NewTopic(topic, num_partitions=1, replication_factor=replicas, config=TOPIC_CONFIG)
    limits_s = {"operation_timeout": METADATA_TIMEOUT_S, "request_timeout": 2 * METADATA_TIMEOUT_S}
    # A limit of `result` would raise TimeoutError, which nothing here takes for an answer of brokers.
    admin.create_topics([new], validate_only=only_ask, **limits_s)[topic].result()


def forbidden(topic: str) -> str:
    """Returns a sentence with all rights that may be missing. Brokers hide whether a topic exists without DESCRIBE."""
    return (
        f"Bellwether's principal may not use the control topic '{topic}'; {grant('READ', 'Topic', topic)}, WRITE on"
        f" Topic '{topic}', and CREATE on Topic '{topic}' if it does not exist; or set"
        ' control_topic = "" where nobody is to give orders.'
    )


def forgetful(admin: AdminClient, topic: str, limit_s: float) -> str:
    """Returns a sentence if brokers delete old records of the topic, as of one that was created with their
    defaults; "" if they do not, or if its configs may not be read. Blocks."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    try:
        configs = admin.describe_configs([resource], request_timeout=limit_s)[resource].result(limit_s + 1)
    except (KafkaException, TimeoutError):
        return ""
    policy = str(configs[CLEANUP].value) if CLEANUP in configs else COMPACT
    if policy == COMPACT:
        return ""
    return (
        f"has {CLEANUP}={policy}, so that orders in force are deleted with old records and unknown after the next"
        f" start; set {CLEANUP}={COMPACT} on it"
    )
