"""Descriptions of classic groups for which many callers ask a node at once, in few requests.

A thousand groups that nobody leads yet are described several times a second by what watches them: one request for each
would take the brokers, and the I/O thread, more time than there is.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Protocol

from bellwether_kafka.coordinator.kafka.wire import Batches, TransportError
from bellwether_kafka.coordinator.membership import DescribeAnswer, Failure, Node

GROUPS_MAX = 50  # in one request
LARGE_BYTES = 100_000  # a group with so large an answer is described alone

Described = dict[str, DescribeAnswer | TransportError]


class Describes(Protocol):
    """The part of `Transport` that this module uses."""

    def describe_groups(self, node: Node, group_ids: Sequence[str]) -> Awaitable[dict[str, DescribeAnswer]]: ...


class SharedDescriptions:
    """Describes groups. Callers that ask a node while a request to it is on its way share the next one; a caller that
    comes when there is none does not wait. For one event loop."""

    def __init__(self, transport: Describes) -> None:
        self._transport = transport
        self._nodes: dict[Node, Batches[Described]] = {}
        self._alone_from_now: set[str] = set()  # groups with large or unreadable answers

    async def describe(self, node: Node, group_id: str) -> DescribeAnswer:
        """Returns the description of a group that this node coordinates. Raises TransportError; an error code of the
        broker is in the answer."""
        if group_id in self._alone_from_now:
            answer = await self._alone(node, group_id)
        else:
            batches = self._nodes.setdefault(node, Batches(partial(self._together, node)))
            shared = (await batches.ask([group_id])).get(group_id)
            if isinstance(shared, TransportError):
                raise shared
            # One group whose answer cannot be read, or that is left out, fails no other.
            answer = shared if shared is not None else await self._alone(node, group_id)
        size = sum(len(m.metadata) + len(m.assignment) for m in answer.members)
        change = self._alone_from_now.add if size > LARGE_BYTES else self._alone_from_now.discard
        change(group_id)
        return answer

    async def _alone(self, node: Node, group_id: str) -> DescribeAnswer:
        try:
            answers = await self._transport.describe_groups(node, [group_id])
        except TransportError as error:
            if error.failure is Failure.MALFORMED:
                self._alone_from_now.add(group_id)  # else all in its request would be asked alone each time
            raise
        if group_id not in answers:
            raise TransportError(Failure.MALFORMED, "the broker's answer leaves the group out")
        return answers[group_id]

    async def _together(self, node: Node, group_ids: list[str]) -> Described:
        parts = (group_ids[begin : begin + GROUPS_MAX] for begin in range(0, len(group_ids), GROUPS_MAX))
        outcomes = await asyncio.gather(*(self._part(node, part) for part in parts))
        answers: Described = {}
        for outcome in outcomes:
            answers |= outcome
        return answers

    async def _part(self, node: Node, group_ids: list[str]) -> Described:
        try:
            return dict(await self._transport.describe_groups(node, group_ids))
        except TransportError as error:
            return {} if error.failure is Failure.MALFORMED else dict.fromkeys(group_ids, error)
