"""The iteration orders of Java's hash tables and priority queues, so that ties break as on the JVM."""

from bellwether_kafka.assignors.java.priority_set import PrioritySet
from bellwether_kafka.assignors.java.queue import (
    JavaHeap,
    computed_map_order,
    drain_order,
    hash_map_order,
    hash_order,
    string_hash,
    task_hash,
    uuid_hash,
)
from bellwether_kafka.assignors.java.sets import task_set_order
