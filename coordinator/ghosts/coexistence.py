"""Rebalances that do not end, and coexistence with KIP-848 and with broken members. Pure, but for a log line.

Conversion. When a member joins with group.protocol=consumer, a broker since 4.0 converts the whole classic group,
unless an assignment carries userData, a blob does not parse, a partition has two owners, or the group is of another
type (group coordinator 4.3, `ConsumerGroup.fromClassicGroup`, `addPartitionEpochs`). Brokers may also forbid it
(group.consumer.migration.policy), which clients cannot see.

The wedge, KAFKA-20570. Brokers up to 4.3 throw when they complete a join with a subscription that does not parse: all
members get UNKNOWN_SERVER_ERROR or no answer to JoinGroup until that member is gone
(docs/internals/broker-behaviour.md#malformed-subscriptions). DescribeGroups shows no subscriptions meanwhile, so the
suspects are the members that have joined since the group was last stable.

Long rebalances under exactly-once. Streams commits nothing during a rebalance. If one lasts longer than
transaction.timeout.ms, 10 s for Streams, the transactions of all instances are aborted, and each restores its state
(docs/internals/client-quirks.md#java-streams-threads). Brokers do not report which members have not rejoined.
Bellwether knows only which members the group had when it was last stable, and which have joined since.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL, DescribeAnswer, DescribedMember, GroupState
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import RemoteProtocolError, TopicPartition

PROTOCOL_TYPE = "consumer"
SHOWN = 5
# The first unexplained answers may come from a broker that is starting. Bellwether leaves after unclear_ms_max (10 s).
WEDGED_S = 4.0
BETWEEN_EVICTIONS_S = 2.0
TRANSACTION_TIMEOUT_S = 10.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Conversion:
    """Whether the group could be converted to KIP-848 now. `obstacles` are phrases; empty if it could."""

    obstacles: tuple[str, ...]

    @property
    def ready(self) -> bool:
        return not self.obstacles


def conversion(seen: DescribeAnswer) -> Conversion | None:
    """Returns whether the group could be converted. None unless it is Stable: a rebalance does not show it."""
    if seen.error or seen.state != GroupState.STABLE:
        return None
    if seen.protocol_type != PROTOCOL_TYPE:
        return Conversion((f"it is of type '{seen.protocol_type}', not '{PROTOCOL_TYPE}'",))
    if seen.protocol == STREAMS_PROTOCOL:
        return Conversion(("it is a Kafka Streams application: its assignments carry userData",))
    carrying = [m for m in seen.members if _carries_user_data(m)]
    broken = [m for m in seen.members if not _parses(m)]
    shared = _shared(seen.members)
    obstacles = []
    if carrying:
        obstacles.append(f"the assignment of {named(carrying)} carries userData, which a conversion would lose")
    if broken:
        obstacles.append(
            f"the subscription or assignment of {named(broken)} does not parse, or ends before a field of its version"
        )
    if shared:
        obstacles.append(f"partitions have several owners: {_owners_in_words(shared)}")
    return Conversion(tuple(obstacles))


class ConversionWatch:
    """Observes the DescribeGroups answers of all groups. Logs changes of their conversion and calls `on_change`."""

    def __init__(self, on_change: Callable[[str, Conversion], None]) -> None:
        self._on_change = on_change
        self._last: dict[str, Conversion] = {}
        self._seen: dict[str, DescribeAnswer] = {}  # avoids decoding the same bytes at every poll

    def on_seen(self, group_id: str, seen: DescribeAnswer) -> None:
        if seen == self._seen.get(group_id):
            return
        self._seen[group_id] = seen
        convertible = conversion(seen)
        if convertible is None or convertible == self._last.get(group_id):
            return
        self._last[group_id] = convertible
        log.info("online_conversion", group=group_id, ready=convertible.ready, obstacles=list(convertible.obstacles))
        self._on_change(group_id, convertible)

    def on_gone(self, group_id: str) -> None:
        """Forgets a group that is no longer watched."""
        self._last.pop(group_id, None)
        self._seen.pop(group_id, None)


def _assigned(member: DescribedMember) -> ConsumerProtocolAssignment | None:
    """Returns the member's assignment, None if there is none or it does not parse."""
    try:
        return ConsumerProtocolAssignment.decode(member.assignment) if member.assignment else None
    except RemoteProtocolError:
        return None


def _carries_user_data(member: DescribedMember) -> bool:
    assigned = _assigned(member)
    return assigned is not None and bool(assigned.user_data)


def _parses(member: DescribedMember) -> bool:
    """Returns whether the broker can read the member's bytes. It is stricter than Bellwether."""
    try:
        ConsumerProtocolSubscription.decode(member.metadata, as_java=True)
    except RemoteProtocolError:
        return False
    return not member.assignment or _assigned(member) is not None


def _shared(members: Sequence[DescribedMember]) -> dict[TopicPartition, list[DescribedMember]]:
    """Returns the partitions that more than one member has, with these."""
    owners: dict[TopicPartition, list[DescribedMember]] = {}
    for member in members:
        assigned = _assigned(member)
        for partition in dict.fromkeys(assigned.partitions) if assigned is not None else ():
            owners.setdefault(partition, []).append(member)
    return {partition: have for partition, have in sorted(owners.items()) if len(have) > 1}


def _owners_in_words(shared: Mapping[TopicPartition, Sequence[DescribedMember]]) -> str:
    shown = [f"{each.topic}-{each.partition} ({named(have)})" for each, have in list(shared.items())[:SHOWN]]
    return ", ".join(shown) + (f" and {len(shared) - SHOWN} more" if len(shared) > SHOWN else "")


def named(members: Sequence[DescribedMember]) -> str:
    """Returns a phrase with the first `SHOWN` members and their hosts, and the number of further ones."""
    shown = ", ".join(f"{m.member_id} ({m.client_host})" for m in members[:SHOWN])
    return shown + (f" and {len(members) - SHOWN} more" if len(members) > SHOWN else "")


@dataclass(frozen=True, slots=True)
class Wedged:
    """A rebalance that the broker cannot complete. `suspects` have joined since the group was last stable."""

    since_s: float
    suspects: tuple[DescribedMember, ...]

    @property
    def reason(self) -> str:
        if not self.suspects:
            who = "no member has joined since the group was last Stable, so a member has changed its subscription"
        else:
            who = f"since the group was last Stable came {named(self.suspects)}"
        return (
            f"the broker has answered UNKNOWN_SERVER_ERROR for {self.since_s:.0f} s: brokers up to 4.3 cannot end a"
            f" rebalance while the subscription of a member does not parse (KAFKA-20570); {who}; stop that client,"
            " remove it, or upgrade the brokers"
        )


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


@dataclass(frozen=True, slots=True)
class Rebalancing:
    """What is known of the rebalances of one group: `at_rest`, the members when it was last stable, None before; since
    when the present one has lasted, in seconds, None for none; which of its troubles an alert has named; and when a
    suspect was last removed."""

    at_rest: frozenset[str] | None = None
    since: float | None = None
    wedged: bool = False
    long: bool = False
    evicted_at: float = float("-inf")

    def after(self, seen: DescribeAnswer, now: float) -> "Rebalancing":
        """Takes the next DescribeGroups answer; one with an error changes nothing."""
        if seen.error:
            return self
        if seen.state == GroupState.STABLE:
            return Rebalancing(at_rest=frozenset(m.member_id for m in seen.members), evicted_at=self.evicted_at)
        if not seen.members:
            return Rebalancing(at_rest=self.at_rest, evicted_at=self.evicted_at)
        return replace(self, since=now if self.since is None else self.since)

    def newcomers(self, seen: DescribeAnswer) -> tuple[DescribedMember, ...]:
        """Returns the members that have joined since the group was last stable, none if it never was."""
        at_rest = self.at_rest
        return () if at_rest is None else tuple(m for m in seen.members if m.member_id not in at_rest)

    def wedge(self, seen: DescribeAnswer, unclear_since: float | None, now: float) -> Wedged | None:
        """Returns the wedge. `unclear_since`: since when Bellwether's own requests fail without an explanation."""
        if unclear_since is None or now - unclear_since < WEDGED_S or seen.state != GroupState.PREPARING:
            return None
        return Wedged(now - unclear_since, self.newcomers(seen))

    def may_evict(self, now: float) -> bool:
        """Suspects are removed one at a time, so that no more are removed than necessary."""
        return now - self.evicted_at >= BETWEEN_EVICTIONS_S

    def danger(self, seen: DescribeAnswer, now: float, own: str) -> LongRebalance | None:
        """Returns the danger of a rebalance that lasts. `own` is Bellwether's member id, which never delays one."""
        if self.since is None or now - self.since < TRANSACTION_TIMEOUT_S / 2:
            return None
        old = tuple(m for m in seen.members if m.member_id in (self.at_rest or ()) and m.member_id != own)
        came = self.newcomers(seen)
        hosts = {m.client_host for m in came}
        return LongRebalance(now - self.since, tuple(m for m in old if m.client_host in hosts) or old, came)


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong with a rebalance: alerts, each once, and a member to remove so that it can end."""

    alerts: tuple[str, ...] = ()
    evict: DescribedMember | None = None


def troubles(
    seen: DescribeAnswer,
    state: Rebalancing,
    now: float,
    *,
    own: str = "",
    unclear_since: float | None = None,
    exactly_once: bool = False,
    evicts: bool = False,
) -> tuple[Rebalancing, Trouble]:
    """Judges the next description of a group with the state after the one before. `evicts`: the operator allows that
    suspects are removed."""
    state = state.after(seen, now)
    if seen.error:
        return state, Trouble()
    wedge = state.wedge(seen, unclear_since, now)
    danger = state.danger(seen, now, own) if exactly_once and not state.long else None
    alerts = (wedge.reason if wedge is not None and not state.wedged else "", danger.reason if danger else "")
    suspects = wedge.suspects if wedge is not None and evicts and state.may_evict(now) else ()
    state = replace(
        state,
        wedged=wedge is not None,
        long=state.long or danger is not None,
        evicted_at=now if suspects else state.evicted_at,
    )
    return state, Trouble(tuple(filter(None, alerts)), next(iter(suspects), None))
