"""Whether consumers may fetch from the replica in their own rack (KIP-392): a broker is asked, where it may be."""

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource

CONFIG = "replica.selector.class"
RACK_AWARE = "RackAwareReplicaSelector"


def follower_fetching(admin: AdminClient, limit_s: float) -> bool | None:
    """None where it cannot be told: without DESCRIBE_CONFIGS on the cluster, or with a selector that we do not know."""
    try:
        node = admin.describe_cluster(request_timeout=limit_s).result(limit_s + 1).nodes[0]
        resource = ConfigResource(ConfigResource.Type.BROKER, str(node.id))
        found = admin.describe_configs([resource], request_timeout=limit_s)[resource].result(limit_s + 1)
    except (KafkaException, TimeoutError, IndexError):
        return None
    selector = found[CONFIG].value if CONFIG in found else None
    if not selector:
        return False
    return True if selector.endswith(RACK_AWARE) else None
