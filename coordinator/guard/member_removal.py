"""Removes the members of a process that cannot come back from the group, and ends the transactions of a dead Kafka
Streams process, so that readers need not wait until they time out.

Under exactly-once (v2) each stream thread has one producer, whose transactional id is
`<application id>-<process id>-<thread>`. A new producer epoch for that id aborts its open transaction. For a process
that is not transactional, the coordinator node answers that there is no such id.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.guard import members
from bellwether_kafka.coordinator.guard.arguments import Echo, GuardOptions, once
from bellwether_kafka.coordinator.guard.group_link import DONE, PASSING, REQUEST_TIMEOUT_MS, RETRY_S, GroupLink
from bellwether_kafka.coordinator.kafka.wire import (
    DescribeTransaction,
    FenceProducer,
    FindLeader,
    FindTransactionCoordinator,
    TransportError,
)
from bellwether_kafka.coordinator.membership import Code, Failure, GroupState, Node, name_of

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


# Members send heartbeats at fixed intervals, usually whole seconds, after the last rebalance. The guard sees the
# rebalance up to EMPTYING_POLL_S late, and each heartbeat comes a little later than its interval.
HEARTBEAT_S, BETWEEN_FROM_S, BETWEEN_TO_S = 1.0, 0.5, 0.75


@dataclass(frozen=True, slots=True)
class EndProof:
    """Why members are removed: `reason` is for the brokers, `event` for the guard's output."""

    reason: str
    event: str


ENDED = EndProof("its process has ended", "its end")
CLOSED = EndProof("Kafka Streams has closed in its process", "Kafka Streams closed in it")


class MemberRemoval:
    """Removes the members of one process. `answered`: a broker has given a final answer."""

    def __init__(self, options: GuardOptions, link: GroupLink, echo: Echo) -> None:
        self.answered = False
        self._options = options
        self._link = link
        self._echo = echo
        self._echo_once = once(echo)

    async def remove(self, own: members.Belonging, since: float, proof: EndProof, empty_at: float | None) -> None:
        """Removes the members. `since`: when it was proven that they are dead. `empty_at`: when the process was seen
        without partitions, None if it was not evacuated. Call it with a timeout."""
        await self._between_heartbeats(own, empty_at)
        answered = await self._link.remove(own.member_ids, f"{proof.reason} (bellwether guard)")
        self.answered = True
        took_ms = (time.monotonic() - since) * 1000
        if not answered:
            self._echo(f"The broker removed none of its members: {self._link.trouble}.")
            return
        removed = [member_id for member_id, code in answered.items() if not code]
        left = sum(code == Code.UNKNOWN_MEMBER_ID for code in answered.values())
        also = f" {left} had left the group before." if left else ""
        self._echo(
            f"Removed {len(removed)} of its {len(answered)} members, {took_ms:.0f} ms after {proof.event}.{also}"
        )
        for member_id, code in answered.items():
            if code not in DONE:
                self._echo(f"The broker did not remove {member_id}: {name_of(code)}.")

    async def _between_heartbeats(self, own: members.Belonging, empty_at: float | None) -> None:
        """Waits until no heartbeat is near, if the process was evacuated and is transactional. The removal is not
        urgent then, because other members already have its partitions.

        If a rebalance begins while heartbeats arrive, some members notice it at once and the others a whole interval
        later. Under exactly-once those that have noticed it do not commit in between.
        """
        if empty_at is None or not await self._is_transactional(own):
            return
        answer = await self._link.describe()
        if answer is not None and answer.state == GroupState.STABLE:
            await asyncio.sleep(until_between_heartbeats_s(time.monotonic() - empty_at))

    async def _is_transactional(self, own: members.Belonging) -> bool:
        name = min(self.producers(own), default=None)
        return name is not None and await Transactions(self._link, name).exist()

    def producers(self, *own_members: members.Belonging) -> set[str]:
        """Returns the transactional ids that its stream threads have if transactional; empty without `fence`."""
        if not self._options.fence:
            return set()
        threads = {thread for own in own_members for thread in own.threads}
        return {transactional_id(self._options.group_id, each.process_id, str(each.number)) for each in threads}

    async def fence(self, names: Iterable[str], may_go_on: Callable[[], bool]) -> None:
        """Ends the transactions of these ids. `may_go_on` is called before every attempt. Call it with a timeout."""
        await asyncio.gather(*(self._fence(name, may_go_on) for name in names))

    async def _fence(self, name: str, may_go_on: Callable[[], bool]) -> None:
        ended = await Transactions(self._link, name).end(may_go_on)
        if ended.denied:
            ids = f"TransactionalId '{self._options.group_id}-' (prefix)"
            self._echo_once(
                f"Its transactions, if it has any, are not ended: Bellwether's principal needs the ACL WRITE on {ids};"
                " set --no-fence where it is not transactional."
            )
        elif ended.why_not:
            self._echo(f"Not fenced {name}: {ended.why_not}.")
        elif ended.transactional:
            self._echo(f"Fenced {name}.")


def until_between_heartbeats_s(since_s: float) -> float:
    """Returns how many seconds to wait until no heartbeat is near, `since_s` after the last rebalance."""
    phase_s = since_s % HEARTBEAT_S
    if phase_s <= BETWEEN_TO_S:
        return max(0.0, BETWEEN_FROM_S - phase_s)
    return HEARTBEAT_S + BETWEEN_FROM_S - phase_s
