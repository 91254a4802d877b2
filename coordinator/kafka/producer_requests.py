"""Requests that end the transactions of a producer that is dead: its coordinator node, and a new epoch."""

from dataclasses import dataclass
from typing import Any

from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import InitProducerIdRequest

from bellwether_kafka.coordinator.membership import CoordinatorAnswer, Node

TRANSACTION_KEY_TYPE = 1
NO_PRODUCER = -1


@dataclass(frozen=True, slots=True)
class FindTransactionCoordinator:
    """FindCoordinator for a transactional id. Any broker answers."""

    node: Node
    transactional_id: str
    timeout_ms: int

    def message(self) -> Any:
        return FindCoordinatorRequest(
            key=self.transactional_id,
            key_type=TRANSACTION_KEY_TYPE,
            coordinator_keys=[self.transactional_id],
            min_version=1,
        )

    def answer(self, response: Any) -> CoordinatorAnswer:
        found = response.coordinators[0] if response.API_VERSION >= 4 else response
        if found.error_code:
            return CoordinatorAnswer(0, found.error_code)
        return CoordinatorAnswer(0, 0, Node(found.node_id, found.host, found.port))


@dataclass(frozen=True, slots=True)
class FenceProducer:
    """InitProducerId without a producer: raises the epoch, so the producer that has the id now is fenced, and a
    transaction that it left open is aborted first; until that is done the broker answers CONCURRENT_TRANSACTIONS.

    WRITE on the transactional id is all that a broker asks for, so a producer is fenced only where it is proven dead.
    `transaction_timeout_ms` becomes the id's until its next producer comes.
    """

    node: Node
    transactional_id: str
    transaction_timeout_ms: int
    timeout_ms: int

    def message(self) -> Any:
        return InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.transaction_timeout_ms,
            producer_id=NO_PRODUCER,
            producer_epoch=NO_PRODUCER,
            enable2_pc=False,
            keep_prepared_txn=False,
        )

    def answer(self, response: Any) -> int:
        """Kafka's error code."""
        return int(response.error_code)
