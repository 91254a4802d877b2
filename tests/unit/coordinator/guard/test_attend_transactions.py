"""Transactions of a guarded process that has ended: they are ended by its producers' ids, where they are its own."""

from dataclasses import replace

import pytest

from bellwether_kafka.coordinator.kafka.wire import (
    DescribeTransaction,
    FenceProducer,
    FindTransactionCoordinator,
    TransportError,
)
from bellwether_kafka.coordinator.kafka.wire.producer_requests import DescribedTransaction
from bellwether_kafka.coordinator.membership import DescribedMember, Failure
from tests.kit.membership import GROUP, P1, P2, plain, thread
from tests.unit.coordinator.guard.stage import (
    NAMED,
    killed,
    stage,
)

CONCURRENT_TRANSACTIONS = 51

DENIED, NO_SUCH_ID = 53, 105


NAMED_BY_CLIENT = replace(NAMED, client_ids=("payments",))


def of_client(member_id: str, number: int) -> DescribedMember:
    """A thread of an application that sets client.id, so that only its subscription has the process id."""
    return replace(thread(member_id), client_id=f"payments-StreamThread-{number}-consumer")


def test_transactions_of_a_process_without_a_state_directory_are_ended_by_the_process_id_in_its_subscriptions() -> None:
    on = stage(NAMED_BY_CLIENT, of_client("a", 1), of_client("b", 12), thread("c", P2))
    message = on.play(killed)
    assert sorted(on.brokers.removed) == ["a", "b"]
    assert sorted(on.brokers.fenced) == [f"{GROUP}-{P1}-1", f"{GROUP}-{P1}-12"]
    assert f"Fenced {GROUP}-{P1}-12." in message


def test_a_plain_consumer_has_no_transactions_to_end() -> None:
    on = stage(NAMED, plain("a"))
    message = on.play(killed)
    assert len(message) == 1
    assert not [r for r in on.brokers.asked if isinstance(r, FindTransactionCoordinator | FenceProducer)]


def test_with_no_fence_transactions_are_left_alone() -> None:
    on = stage(replace(NAMED_BY_CLIENT, fence=False), of_client("a", 1))
    on.play(killed)
    assert on.brokers.removed == ["a"]
    assert not [r for r in on.brokers.asked if isinstance(r, FindTransactionCoordinator | FenceProducer)]


def test_an_application_that_is_not_transactional_gets_no_transactional_ids() -> None:
    on = stage(NAMED_BY_CLIENT, of_client("a", 1))
    on.brokers.codes[DescribeTransaction] = [NO_SUCH_ID]
    (message,) = on.play(killed)
    assert message.startswith("Removed 1 of its 1 members")
    assert not on.brokers.fenced


def test_on_a_cluster_without_transactions_no_coordinator_of_them_is_asked_for() -> None:
    """The request would make their topic."""
    on = stage(NAMED_BY_CLIENT, of_client("a", 1))
    on.brokers.no_topic = True
    (message,) = on.play(killed)
    assert message.startswith("Removed 1 of its 1 members")
    assert not [r for r in on.brokers.asked if isinstance(r, FindTransactionCoordinator)]


@pytest.mark.parametrize("denied", [FindTransactionCoordinator, DescribeTransaction, FenceProducer])
def test_a_right_that_is_missing_is_one_sentence_and_the_members_are_removed(denied: type) -> None:
    on = stage(NAMED_BY_CLIENT, *(of_client(f"m{n}", n) for n in (1, 2, 3)))
    on.brokers.codes[denied] = [DENIED] * 3
    message = on.play(killed)
    assert len(on.brokers.removed) == 3
    (sentence,) = [text for text in message if "transactions" in text]
    assert f"needs the ACL WRITE on TransactionalId '{GROUP}-' (prefix)" in sentence
    assert "--no-fence" in sentence


def test_a_successor_that_has_raised_the_epoch_keeps_its_transaction() -> None:
    on = stage(NAMED_BY_CLIENT, of_client("a", 1))
    on.brokers.codes[FenceProducer] = [CONCURRENT_TRANSACTIONS]

    def succeeded(request: object) -> None:
        if isinstance(request, FenceProducer):
            on.brokers.transaction = DescribedTransaction(0, "Ongoing", 6)

    on.brokers.before = succeeded
    message = on.play(killed)
    assert not on.brokers.fenced
    assert any("another process has taken its place" in sentence for sentence in message)


def test_a_transaction_that_was_aborted_by_the_first_request_is_over() -> None:
    on = stage(NAMED_BY_CLIENT, of_client("a", 1))
    on.brokers.codes[FenceProducer] = [CONCURRENT_TRANSACTIONS]

    def aborted(request: object) -> None:
        if isinstance(request, FenceProducer):
            on.brokers.transaction = DescribedTransaction(0, "CompleteAbort", 5)

    on.brokers.before = aborted
    assert f"Fenced {GROUP}-{P1}-1." in on.play(killed)
    assert not on.brokers.fenced, "no second request"


def test_a_broker_that_cannot_describe_transactions_is_asked_to_end_them() -> None:
    on = stage(NAMED_BY_CLIENT, of_client("a", 1))

    def old(request: object) -> None:
        if isinstance(request, DescribeTransaction):
            raise TransportError(Failure.UNSUPPORTED, "before Kafka 3.0")

    on.brokers.before = old
    assert f"Fenced {GROUP}-{P1}-1." in on.play(killed)
