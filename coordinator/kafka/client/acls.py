"""What an error of a broker means: a missing ACL and how to grant it, or silence, which may pass."""

from confluent_kafka import KafkaError

from bellwether_kafka.coordinator.kafka.wire import grant

DENIED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
# librdkafka requires a group id for every reader and looks up its coordinator node, even if the reader neither joins
# nor commits. Such a reader needs neither a right to the group nor the node.
IRRELEVANT_TO_READERS = frozenset(
    {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR}
)
# No broker has answered, which may pass.
SILENCE = frozenset(
    getattr(KafkaError, name)  # librdkafka's own errors are public names that begin with an underscore
    for name in ("_TRANSPORT", "_TIMED_OUT", "_MSG_TIMED_OUT", "_ALL_BROKERS_DOWN", "_RESOLVE")
)
# The topic does not exist: an answer of a broker, or what librdkafka has concluded from one.
NO_TOPIC = frozenset(getattr(KafkaError, name) for name in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC"))


def with_remedy(error: KafkaError, operations: str, topic: str) -> str:
    """Returns the text of a topic request's error, with the remedy if an ACL is missing."""
    remedy = f"; {grant(operations, 'Topic', topic)}" if error.code() in DENIED else ""
    return f"{error.str()}{remedy}"
