"""Producers of a dead Kafka Streams process are fenced, so that nobody waits for their open transactions to time out.

Under exactly-once (v2) each stream thread has one producer, with the transactional id
`<application id>-<process id>-<thread>`. A new epoch for that id aborts what was left open.
"""

import asyncio
from collections.abc import Callable

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.guard.group_link import PASSING, REQUEST_TIMEOUT_MS, RETRY_S, GroupLink
from bellwether_kafka.coordinator.kafka import FenceProducer, FindTransactionCoordinator, TransportError
from bellwether_kafka.coordinator.membership import Node

CONCURRENT_TRANSACTIONS = 51  # the open one is being aborted
AGAIN_S = 0.02
TRANSACTION_TIMEOUT_MS = 10_000  # what Streams sets; the next producer of the id brings its own
DENIED = 53  # TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def transactional_id(application_id: str, process_id: str, thread: str) -> str:
    return f"{application_id}-{process_id}-{thread}"


async def fence(link: GroupLink, name: str, may_go_on: Callable[[], bool]) -> str:
    """Fences the producer of a transactional id; "" when nothing of it is open any more, else why not. `may_go_on` is
    asked before every request: a process that takes the dead one's place has the same id. Limit it by a timeout."""
    node: Node | None = None
    while may_go_on():
        try:
            node = node or await _coordinator_of(link, name)
            code = await _raise_epoch(link, node, name) if node is not None else membership.Code.NOT_COORDINATOR
        except TransportError:
            node, code = None, membership.Code.NOT_COORDINATOR
        if code == membership.Code.NONE:
            return ""
        if code == DENIED:
            return f"Bellwether's principal needs the ACL WRITE on TransactionalId '{name}'"
        if code == CONCURRENT_TRANSACTIONS:
            await asyncio.sleep(AGAIN_S)
        elif code in PASSING:
            node = None
            await asyncio.sleep(RETRY_S)
        else:
            return membership.name_of(code)
    return "another process has taken its place"


async def _coordinator_of(link: GroupLink, name: str) -> Node | None:
    any_node = await link.node()
    if any_node is None:
        return None
    return (await link.transport.ask(FindTransactionCoordinator(any_node, name, REQUEST_TIMEOUT_MS))).node


async def _raise_epoch(link: GroupLink, node: Node, name: str) -> int:
    return await link.transport.ask(FenceProducer(node, name, TRANSACTION_TIMEOUT_MS, REQUEST_TIMEOUT_MS))
