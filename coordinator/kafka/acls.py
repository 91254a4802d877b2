"""What an error of a broker means: a right that is denied, and what to grant then; silence, which may pass."""

from confluent_kafka import KafkaError

DENIED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
# librdkafka wants a group of everybody who reads, and looks for its coordinator node even if none is joined and nothing
# committed: such a reader needs no right to the group, and no node.
IRRELEVANT_TO_READERS = frozenset(
    {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR}
)
# No broker has answered, which may pass.
SILENCE = frozenset(
    getattr(KafkaError, name)  # librdkafka's own errors are public names that begin with an underscore
    for name in ("_TRANSPORT", "_TIMED_OUT", "_MSG_TIMED_OUT", "_ALL_BROKERS_DOWN", "_RESOLVE")
)


def grant(operations: str, resource: str, name: str) -> str:
    """The remedy: `operations` such as "READ", `resource` "Group" or "Topic"."""
    return f"grant Bellwether's principal the ACL {operations} on {resource} '{name}'"


def with_remedy(error: KafkaError, operations: str, topic: str) -> str:
    """An error of a request for a topic, with the remedy where rights are what is missing."""
    remedy = f"; {grant(operations, 'Topic', topic)}" if error.code() in DENIED else ""
    return f"{error.str()}{remedy}"
