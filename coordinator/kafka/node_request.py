"""Requests beside those of a membership: each to one node, with its message for kafka-python and its answer as plain
values.
"""

from typing import Any, Protocol, TypeVar

from bellwether_kafka.coordinator.membership import Node

T_co = TypeVar("T_co", covariant=True)


class NodeRequest(Protocol[T_co]):
    """What `Transport` can send to a node for somebody who is no member."""

    @property
    def node(self) -> Node: ...

    @property
    def timeout_ms(self) -> int: ...

    def message(self) -> Any: ...

    def answer(self, response: Any) -> T_co: ...
