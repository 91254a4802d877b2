"""Finds rebalances of an application under exactly-once that last too long. Pure.

Streams commits nothing during a rebalance. If one lasts longer than transaction.timeout.ms, 10 s for Streams, the
transactions of all instances are aborted, and each restores its state
(docs/internals/client-quirks.md#java-streams-threads). Brokers do not report which members have not rejoined.
Bellwether knows only which members the group had when it was last stable, and which have joined since.
"""

from dataclasses import dataclass

from bellwether_kafka.coordinator.ghosts.coexistence import named
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember, GroupState

TRANSACTION_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class LongRebalance:
    """A rebalance that has lasted for half of the transaction timeout. `awaited`: members of the last stable
    generation; those on hosts from which members have joined since, which are the most likely to be dead, or else all.
    `came`: members that have joined since."""

    waited_s: float
    awaited: tuple[DescribedMember, ...]
    came: tuple[DescribedMember, ...]

    @property
    def reason(self) -> str:
        if not self.awaited:
            whom = "the members that it waits for are not known, because the group was never seen Stable"
        else:
            whom = f"it waits for one or more of {named(self.awaited)}"
        since = f"; since the group was last Stable came {named(self.came)}" if self.awaited and self.came else ""
        return (
            f"the rebalance has waited for {self.waited_s:.0f} s: after transaction.timeout.ms"
            f" ({TRANSACTION_TIMEOUT_S:.0f} s unless set) the transactions of all instances are aborted; {whom}{since};"
            " if one of them is dead, run instances under bellwether guard, or shorten their session.timeout.ms"
        )


class LongRebalances:
    """Watches one group; takes every DescribeGroups answer. Times are in seconds."""

    def __init__(self) -> None:
        self._at_rest: tuple[str, ...] | None = None  # member ids, None before the group was seen stable
        self._since: float | None = None
        self._reported = False

    def refresh(self, seen: DescribeAnswer, now: float, own: str = "") -> LongRebalance | None:
        """Returns the long rebalance, once for each. `own` is Bellwether's member id, which never delays one."""
        if seen.error:
            return None
        if seen.state == GroupState.STABLE or not seen.members:
            self._at_rest = tuple(m.member_id for m in seen.members)
            self._since, self._reported = None, False
            return None
        self._since = now if self._since is None else self._since
        waited_s = now - self._since
        if self._reported or waited_s < TRANSACTION_TIMEOUT_S / 2:
            return None
        self._reported = True
        at_rest = self._at_rest or ()
        old = tuple(m for m in seen.members if m.member_id in at_rest and m.member_id != own)
        came = tuple(m for m in seen.members if m.member_id not in at_rest)
        hosts = {m.client_host for m in came}
        return LongRebalance(waited_s, tuple(m for m in old if m.client_host in hosts) or old, came if at_rest else ())
