"""What is wrong with a control topic that exists, as sentences with the remedy."""

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource

from bellwether_kafka.coordinator.kafka.wire import grant

CLEANUP, COMPACT = "cleanup.policy", "compact"


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
