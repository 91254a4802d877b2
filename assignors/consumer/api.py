"""What a consumer assignor is: the interface that built-in ones and plug-ins share.

An assignor sees frozen views and returns an owner array; it never sees bytes, sockets or clocks.
"""

from typing import Protocol

from bellwether_kafka.assignors.shared import ClusterView, GroupView, IntArray


class ConsumerAssignor(Protocol):
    """Places every partition of every subscribed topic on one of its subscribers.

    `assign` returns an owner array over all flat partitions: a member index, or NOBODY where no member subscribes.
    `cooperative` asks for the step that withholds what another member still owns.
    """

    name: str
    cooperative: bool

    def assign(self, group: GroupView, cluster: ClusterView) -> IntArray: ...
