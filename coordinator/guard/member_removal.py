"""Removes the members of a process that cannot come back from the group, and fences its producers."""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bellwether_kafka.coordinator.guard import members
from bellwether_kafka.coordinator.guard.fencing import Transactions, transactional_id
from bellwether_kafka.coordinator.guard.group_link import DONE, GroupLink
from bellwether_kafka.coordinator.guard.guard_options import Echo, GuardOptions, once
from bellwether_kafka.coordinator.membership import Code, GroupState, name_of

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
