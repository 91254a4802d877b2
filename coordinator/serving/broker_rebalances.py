"""Has the broker of a group that it assigns compute its assignment anew: a temporary member joins the group and leaves
at once. It gets nothing, so nobody is disturbed.

A broker does this by itself only for members that join, leave or change, and for metadata that change.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import uuid4

import structlog

from bellwether_kafka.coordinator.kafka import wire
from bellwether_kafka.coordinator.membership import Code, name_of

RETRY_S = (1.0, 5.0, 15.0, 30.0)  # while a coordinator node moves, loads or does not answer
PERMANENT = frozenset({Code.GROUP_AUTHORIZATION_FAILED, Code.GROUP_ID_NOT_FOUND, Code.TOPIC_AUTHORIZATION_FAILED})

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Failed:
    """Why no rebalance was begun. `lasting`: another attempt would fail as well."""

    reason: str
    lasting: bool = False


@dataclass(slots=True)
class _Cause:
    """Why a rebalance is to be begun. `attempts` have failed since."""

    protocol: wire.BrokerProtocol
    sentence: str
    attempts: int = 0


@dataclass(slots=True)
class _Waiting:
    """The causes that wait in one group. `news` is set when another one comes."""

    causes: list[_Cause] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)


class BrokerRebalances:
    """Begins rebalances, in the event loop in which `begin` is called. `transport` is set once the process has one.
    `retry_s`: when a rebalance is tried again that could not be begun, in seconds after each failure. `needed` returns
    whether the group still has members: if not, its next plan follows the orders."""

    def __init__(self, needed: Callable[[str], bool], retry_s: Sequence[float] = RETRY_S) -> None:
        self.transport: wire.Transport | None = None
        self._needed = needed
        self._retry_s = tuple(retry_s)
        self._topologies: dict[str, wire.SentTopology] = {}  # by group: the one that its broker has accepted
        self._waiting: dict[str, _Waiting] = {}  # by group in which a rebalance is to be begun
        self._begun: set[asyncio.Task[None]] = set()

    def begin(self, group: str, protocol: wire.BrokerProtocol, cause: str) -> None:
        """Begins a rebalance. One that is still to be begun in this group is for this cause, too."""
        waiting = self._waiting.setdefault(group, _Waiting())
        waiting.causes.append(_Cause(protocol, cause))
        waiting.news.set()
        if len(waiting.causes) == 1:
            task = asyncio.create_task(self._begin(group, waiting))
            self._begun.add(task)
            task.add_done_callback(self._begun.discard)

    def forget(self, group: str) -> None:
        self._topologies.pop(group, None)

    async def _begin(self, group: str, waiting: _Waiting) -> None:
        try:
            while waiting.causes and self.transport is not None and self._needed(group):
                await self._begin_for(group, waiting, self.transport)
        finally:
            del self._waiting[group]

    async def _begin_for(self, group: str, waiting: _Waiting, transport: wire.Transport) -> None:
        """Makes the next attempt for all causes that wait, and removes them if it succeeds or is the last one. A cause
        that comes during the attempt waits for another one: the broker may have asked before."""
        waiting.news.clear()
        tried = tuple(waiting.causes)
        cause = "; ".join(dict.fromkeys(each.sentence for each in tried))
        failed = await self._tried(group, tried[-1].protocol, transport)
        attempts = tried[-1].attempts
        again_in_s = (
            self._retry_s[attempts] if attempts < len(self._retry_s) and failed and not failed.lasting else None
        )
        if failed is None:
            log.info("rebalance_begun", group=group, cause=cause)
        elif failed.reason:
            log.warning("rebalance_not_begun", group=group, cause=cause, reason=failed.reason, again_in_s=again_in_s)
        if again_in_s is None:
            del waiting.causes[: len(tried)]
            return
        tried[-1].attempts += 1
        with suppress(TimeoutError):
            async with asyncio.timeout(again_in_s):
                await waiting.news.wait()  # a new order is tried at once

    async def _tried(self, group: str, protocol: wire.BrokerProtocol, transport: wire.Transport) -> _Failed | None:
        try:
            if protocol == "streams":
                return await self._in_streams_group(transport, group)
            return await _in_consumer_group(transport, group)
        except wire.TransportError as error:
            return _Failed(str(error))

    async def _in_streams_group(self, transport: wire.Transport, group: str) -> _Failed | None:
        """A member of a `streams` group sends the topology. It must join a group that has members only: it would decide
        on the topology of another one. Nothing prevents this if the group is deleted just before it joins: a broker
        creates a group for each member with epoch 0, and lets no member join with another epoch."""
        shown = await transport.describe_by_broker(group, "streams")
        if shown.error or not shown.members:
            return _failed(group, "streams", shown.error)
        if not shown.asks_bellwether:
            now = f"its broker assigns with {shown.assignor or 'its own assignor'} now"
            return _Failed(
                f"{now}, which would give a temporary member tasks; set streams.assignor.name={wire.OWN_ASSIGNORS}",
                lasting=True,
            )
        if shown.topology is None:
            return _Failed("the group has no topology yet")
        before, possible = self._topologies.get(group), wire.possible_topologies(shown.topology)
        for topology in sorted(possible, key=lambda each: each != before):
            error = await transport.rebalance_streams_by_broker(group, _new_member(), topology)
            if not error:
                self._topologies[group] = topology
                await self._report_created(transport, group, shown.epoch)
                return None
            if error != wire.OTHER_TOPOLOGY:
                return _failed(group, "streams", error)
        refused = f"its broker refused {len(possible)} possible topologies"
        return _Failed(f"{refused}, so it asks when the group changes", lasting=True)

    async def _report_created(self, transport: wire.Transport, group: str, epoch: int) -> None:
        """Reports a group that has a lower epoch than before: it was deleted, and the temporary member created it."""
        with suppress(wire.TransportError):
            now = await transport.describe_by_broker(group, "streams")
            if not now.error and not now.members and now.epoch < epoch:
                self._topologies.pop(group, None)  # the group may have been forgotten meanwhile
                why = "it was deleted when a temporary member joined, which created it with a likely topology"
                log.warning("group_created", group=group, reason=why, remedy="delete it if its application is refused")


async def _in_consumer_group(transport: wire.Transport, group: str) -> _Failed | None:
    # A member of this protocol would convert a group that has become classic, and create one that was deleted.
    present = await transport.describe_by_broker(group, "consumer")
    if present.error or not present.members:
        return _failed(group, "consumer", present.error)
    error = await transport.rebalance_by_broker(group, _new_member())
    return _failed(group, "consumer", error) if error else None


def _new_member() -> str:
    return f"{wire.TEMPORARY_MEMBER}{uuid4()}"


def _failed(group: str, protocol: wire.BrokerProtocol, error: int) -> _Failed:
    """Returns why a temporary member could not join the group, with the remedy. Without an error the group is empty."""
    return _Failed(_why(group, protocol, error), lasting=not error or error in PERMANENT)


def _why(group: str, protocol: wire.BrokerProtocol, error: int) -> str:
    if error == Code.GROUP_AUTHORIZATION_FAILED:
        return wire.grant("READ", "Group", group)
    if error == Code.GROUP_ID_NOT_FOUND:
        return f"no broker assigns '{group}' any more, so no member of Bellwether joins it"
    if error == Code.TOPIC_AUTHORIZATION_FAILED and protocol == "streams":
        return "grant Bellwether's principal the ACL DESCRIBE on all topics of the application"
    if error == Code.TOPIC_AUTHORIZATION_FAILED:
        return wire.grant("DESCRIBE", "Topic", wire.TEMPORARY_TOPIC)
    return name_of(error) if error else ""
