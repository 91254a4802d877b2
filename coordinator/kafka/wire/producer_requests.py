"""Requests that end a dead producer's transactions: find its coordinator node, describe its state, raise its epoch."""

from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeTransactionsRequest
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
        coordinator = response.coordinators[0] if response.API_VERSION >= 4 else response
        if coordinator.error_code:
            return CoordinatorAnswer(0, coordinator.error_code)
        return CoordinatorAnswer(0, 0, Node(coordinator.node_id, coordinator.host, coordinator.port))


@dataclass(frozen=True, slots=True)
class DescribedTransaction:
    """`error` is Kafka's code. `state` is the broker's name for the state of the id's newest transaction, such as
    "Ongoing" or "CompleteAbort". `epoch` is its producer's; each new producer of the id raises it."""

    error: int
    state: str = ""
    epoch: int = NO_PRODUCER


@dataclass(frozen=True, slots=True)
class DescribeTransaction:
    """DescribeTransactions of one id (Kafka 3.0), at its coordinator node. Needs DESCRIBE, which WRITE implies."""

    node: Node
    transactional_id: str
    timeout_ms: int

    def message(self) -> Any:
        return DescribeTransactionsRequest(transactional_ids=[self.transactional_id])

    def answer(self, response: Any) -> DescribedTransaction:
        (transaction,) = response.transaction_states
        if transaction.error_code:
            return DescribedTransaction(transaction.error_code)
        return DescribedTransaction(0, transaction.transaction_state, transaction.producer_epoch)


@dataclass(frozen=True, slots=True)
class FenceProducer:
    """InitProducerId without a producer: raises the epoch, which fences the id's present producer. The broker first
    aborts an open transaction and answers CONCURRENT_TRANSACTIONS meanwhile.

    Brokers require only WRITE on the transactional id, so Bellwether fences a producer only if it is proven dead.
    `transaction_timeout_ms` applies to the id until its next producer.
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
        """Returns Kafka's error code."""
        return int(response.error_code)
