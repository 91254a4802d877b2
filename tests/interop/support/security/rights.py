"""ACLs on real brokers."""

from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from tests.interop.support.brokers import KafkaCluster


def grant(
    cluster: KafkaCluster,
    user: str,
    operation: AclOperation,
    resource: ResourceType,
    name: str,
    kind: ResourcePatternType = ResourcePatternType.LITERAL,
) -> None:
    """Allows a user an operation, and returns once the cluster has taken it."""
    acl = AclBinding(resource, name, kind, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
    cluster.admin.create_acls([acl])[acl].result(timeout=30)
