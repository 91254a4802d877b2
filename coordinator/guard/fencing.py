"""Ends the transactions of a dead Kafka Streams process, so that readers need not wait until they time out.

Under exactly-once (v2) each stream thread has one producer, whose transactional id is
`<application id>-<process id>-<thread>`. A new producer epoch for that id aborts its open transaction. For a process
that is not transactional, the coordinator node answers that there is no such id.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.guard.group_link import PASSING, REQUEST_TIMEOUT_MS, RETRY_S, GroupLink
from bellwether_kafka.coordinator.kafka.wire import (
    DescribeTransaction,
    FenceProducer,
    FindLeader,
    FindTransactionCoordinator,
    TransportError,
)
from bellwether_kafka.coordinator.membership import Failure, Node

CONCURRENT_TRANSACTIONS = 51  # the broker is still aborting the open transaction
AGAIN_S = 0.02
TRANSACTION_TIMEOUT_MS = 10_000  # as Streams sets it; the next producer of the id sends its own
DENIED = 53  # TRANSACTIONAL_ID_AUTHORIZATION_FAILED
NO_SUCH_ID, NO_SUCH_TOPIC = 105, 3
TRANSACTIONS_TOPIC = "__transaction_state"
ONGOING, FINISHED = "Ongoing", ("Empty", "CompleteCommit", "CompleteAbort", "Dead")


def transactional_id(application_id: str, process_id: str, thread: str) -> str:
    return f"{application_id}-{process_id}-{thread}"


@dataclass(frozen=True, slots=True)
class Ended:
    """The outcome for one transactional id. `transactional`: the id exists. `denied`: an ACL is missing. `why_not`: why
    its transaction may still be open, "" if it is not."""

    transactional: bool = True
    denied: bool = False
    why_not: str = ""


TAKEN = Ended(why_not="another process has taken its place")
_BY_CODE = {
    membership.Code.NONE: Ended(),
    NO_SUCH_ID: Ended(transactional=False),
    NO_SUCH_TOPIC: Ended(transactional=False),
    DENIED: Ended(denied=True, why_not="a right is missing"),
}


class Transactions:
    """The transactions of one transactional id. Call its methods with a timeout."""

    def __init__(self, link: GroupLink, name: str) -> None:
        self._link = link
        self._name = name
        self._node: Node | None = None
        self._epoch: int | None = None  # when it was first described

    async def exist(self) -> bool:
        """Returns whether the dead process was transactional. Makes one attempt; False if it fails."""
        try:
            return await self._describe() == membership.Code.NONE and self._epoch is not None
        except TransportError:
            return False

    async def end(self, may_go_on: Callable[[], bool]) -> Ended:
        """Ends the open transaction of the id. `may_go_on` is called before every attempt. If another producer has
        raised the epoch, nothing is ended: a process that takes the place of the dead one has the same id."""
        while may_go_on():
            try:
                outcome: int | Ended = await self._try()
            except TransportError:
                outcome = membership.Code.NOT_COORDINATOR
            if isinstance(outcome, Ended):
                return outcome
            if outcome == CONCURRENT_TRANSACTIONS:
                await asyncio.sleep(AGAIN_S)
            elif outcome in PASSING:
                self._node = None
                await asyncio.sleep(RETRY_S)
            else:
                return _BY_CODE.get(outcome) or Ended(why_not=membership.name_of(outcome))
        return TAKEN

    async def _try(self) -> int | Ended:
        described = await self._describe()
        if described != membership.Code.NONE:
            return described
        assert self._node is not None  # noqa: S101 - found by now
        request = FenceProducer(self._node, self._name, TRANSACTION_TIMEOUT_MS, REQUEST_TIMEOUT_MS)
        return await self._link.transport.ask(request)

    async def _describe(self) -> int | Ended:
        """Returns Kafka's error code: NONE if the id still belongs to the dead producer or the broker is too old to
        describe it. Returns the outcome if another producer has raised the epoch."""
        code = await self._find()
        if code or self._node is None:
            return code or membership.Code.NOT_COORDINATOR
        try:
            transaction = await self._link.transport.ask(
                DescribeTransaction(self._node, self._name, REQUEST_TIMEOUT_MS)
            )
        except TransportError as error:
            if error.failure is Failure.UNSUPPORTED:  # before Kafka 3.0
                return membership.Code.NONE
            raise
        if transaction.error:
            return transaction.error
        if self._epoch is None or transaction.epoch == self._epoch:
            self._epoch = transaction.epoch
            return membership.Code.NONE
        if transaction.state == ONGOING:
            return TAKEN
        return Ended() if transaction.state in FINISHED else CONCURRENT_TRANSACTIONS

    async def _find(self) -> int:
        """Finds the coordinator node of the id and returns Kafka's error code. Checks first that the transactions topic
        exists, because FindCoordinator would create it."""
        if self._node is not None:
            return membership.Code.NONE
        any_node = await self._link.node()
        if any_node is None:
            return membership.Code.NOT_COORDINATOR
        ask = self._link.transport.ask
        if (await ask(FindLeader(any_node, TRANSACTIONS_TOPIC, REQUEST_TIMEOUT_MS))).error == NO_SUCH_TOPIC:
            return NO_SUCH_TOPIC
        coordinator = await ask(FindTransactionCoordinator(any_node, self._name, REQUEST_TIMEOUT_MS))
        self._node = coordinator.node
        return coordinator.error
