"""Which members of a classic group are ghosts: dead, but members until their session ends. Pure; docs/guides/ghosts.md.

A ghost parks its whole group at the next join, because the broker waits for it. `GhostFinder` is shown what
DescribeGroups says, again and again, and names a member only where a later member proves that it is dead:

process id  Streams builds a thread's client id from the application id, the process id and the thread's number. The
            process id lives in the state directory, which one process at a time can lock, and a thread's number is
            given again only after the thread of that number has closed its consumer. So of two members with the same
            such client id, the one that was there first has no process any more. That a client id is of this make, and
            not typed, is read from the member's own subscription, which carries the process id too.
client id   Where the operator states that no two live members of a host share a client id: the same client id from
            the same host, and the older one was in a generation at rest before the newer one came.

Never named: static members (they replace themselves), the newest member of a client id, and every member of a client id
that was caught being shared: two of its members were in one finished generation. A new one right after a removal is
what a removed live member looks like: such a client id is left alone until the group rests and shows whether both live.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from bellwether_kafka.coordinator.membership import FINISHED, DescribeAnswer, DescribedMember, GroupState
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription, SubscriptionInfo
from bellwether_kafka.protocol.primitives import RemoteProtocolError

# A live member that was removed is told so by its next heartbeat (3 s unless configured) and joins at its next poll;
# a process that restarts needs seconds too, but one that restarts twice in this time only waits for his session.
RETURN_S = 15.0
REMEMBERED_MAX = 20_000

NO_PROCESS = str(SubscriptionInfo().process_id)  # an instance's, which Java never draws

_DEFAULT_CLIENT_ID = re.compile(
    r"(?P<process>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})-StreamThread-\d+-consumer"
)


@dataclass(frozen=True, slots=True)
class GhostOptions:
    """What may be removed from a group. `client_ids_unique`: the operator's word that no two live members on one host
    share a client id. `evict_malformed`: members, too, whose subscription wedges the broker (see `coexistence`).
    `exactly_once`: the group's rebalances must not wait for longer than transactions may take (see
    `long_rebalance`)."""

    remove: bool = True
    client_ids_unique: bool = False
    evict_malformed: bool = False
    exactly_once: bool = False


class Proof(Enum):
    """What proves a death; the value is a metric label."""

    PROCESS_ID = "process_id"
    CLIENT_ID = "client_id"


@dataclass(frozen=True, slots=True)
class Ghost:
    """A dead member, and the member whose coming proves it."""

    member_id: str
    client_id: str
    client_host: str
    proof: Proof
    successor: str

    @property
    def reason(self) -> str:
        """For the broker's log and for people."""
        if self.proof is Proof.PROCESS_ID:
            return f"its process has restarted and joined again as {self.successor}"
        return f"its client id has joined again from {self.client_host} as {self.successor}"


def unprovable(members: Iterable[DescribedMember], group_id: str) -> str:
    """The client id of a thread of an application that sets client.id: no death of such a thread is ever proven
    without the operator's word. "" where there is none."""
    dynamic = (m for m in members if m.instance_id is None and m.client_id)
    named = (m for m in dynamic if process_of(m.client_id, group_id) is None)
    return next((m.client_id for m in named if (_subscribed_process(m.metadata) or NO_PROCESS) != NO_PROCESS), "")


def unprovable_sentence(client_id: str) -> str:
    return (
        f"the application sets client.id ('{client_id}'), so that its ghosts cannot be proven and keep their tasks"
        " until their sessions end; run its instances under bellwether guard, empty each before a restart (bellwether"
        " evacuate), or set client_ids_unique = true if no two live members on a host share a client id"
    )


def process_of(client_id: str, group_id: str) -> str | None:
    """The process id in a client id that looks like the default of a Streams thread of this application."""
    prefix = f"{group_id}-"
    found = _DEFAULT_CLIENT_ID.fullmatch(client_id, len(prefix)) if client_id.startswith(prefix) else None
    return found["process"] if found else None


class GhostFinder:
    """One group. `refresh` at every answer of DescribeGroups, in the order in which they came; times are seconds."""

    def __init__(self, group_id: str, *, client_ids_unique: bool = False) -> None:
        self._group_id = group_id
        self._client_ids_unique = client_ids_unique
        self._refreshes = 0
        self._first_seen: dict[str, int] = {}  # member id -> the look that saw it first, departed ones too
        self._at_rest: dict[str, None] = {}  # member ids that were in a Stable generation
        self._proven: dict[str, bool] = {}  # client id -> its process id is that of its member's subscription
        self._shared: dict[str, None] = {}  # client ids that two members had in one generation
        self._returned: dict[str, None] = {}  # client ids that came right back after a removal
        self._removed_at: dict[str, float] = {}  # client id -> when one of its members was removed, or had gone
        self._present: dict[str, frozenset[str]] = {}  # client id -> its members in the last look at any of them
        self._warnings: list[str] = []
        self._unprovable_reported = False

    def refresh(self, seen: DescribeAnswer, now: float) -> tuple[Ghost, ...]:
        """The ghosts in this answer. Remembers what it needs for the next one; an error tells nothing."""
        if seen.error:
            return ()
        self._refreshes += 1
        by_client: dict[str, list[DescribedMember]] = defaultdict(list)
        for member in seen.members:
            if member.instance_id is None and self._may_prove(member.client_id):
                by_client[member.client_id].append(member)
        self._warn_of_unprovable(seen)
        for client_id, members in by_client.items():
            self._meet(client_id, members, now)
            self._miss(client_id, members, now)
            if seen.state in FINISHED and len(members) > 1:
                self._bar(client_id)
            if seen.state == GroupState.STABLE:
                self._returned.pop(client_id, None)
                self._at_rest |= dict.fromkeys(m.member_id for m in members)
                self._prove(client_id, members[0])
        ghosts = tuple(ghost for members in by_client.values() for ghost in self._dead(members))
        self._forget(m.member_id for m in seen.members)
        return ghosts

    def removed(self, ghosts: Iterable[Ghost], now: float) -> None:
        """The broker has let these go."""
        self._removed_at |= {ghost.client_id: now for ghost in ghosts}

    def warnings(self) -> tuple[str, ...]:
        """Client ids that are left alone from now on, as sentences; each is told once."""
        warnings, self._warnings = tuple(self._warnings), []
        return warnings

    def _may_prove(self, client_id: str) -> bool:
        return process_of(client_id, self._group_id) is not None or (self._client_ids_unique and bool(client_id))

    def _meet(self, client_id: str, members: list[DescribedMember], now: float) -> None:
        for member in members:
            if member.member_id in self._first_seen:
                continue
            self._first_seen[member.member_id] = self._refreshes
            if now - self._removed_at.get(client_id, float("-inf")) < RETURN_S:
                self._distrust(client_id, twins=len(members) > 1)

    def _miss(self, client_id: str, members: list[DescribedMember], now: float) -> None:
        """Another Bellwether removes ghosts too: one that is gone while his client id stays may have been removed."""
        present = frozenset(m.member_id for m in members)
        if self._present.get(client_id, present) - present:
            self._removed_at[client_id] = now
        self._present[client_id] = present

    def _distrust(self, client_id: str, *, twins: bool) -> None:
        if client_id in self._returned:
            return
        self._returned[client_id] = None
        if twins:
            self._warnings.append(
                f"the client id '{client_id}' came back within {RETURN_S:.0f} s after one of its members had gone: its"
                " process crashes again and again, or two live ones share it; none is removed until the group rests"
            )

    def _warn_of_unprovable(self, seen: DescribeAnswer) -> None:
        if self._unprovable_reported or self._client_ids_unique or seen.state != GroupState.STABLE:
            return
        client_id = unprovable(seen.members, self._group_id)
        if client_id:
            self._unprovable_reported = True
            self._warnings.append(unprovable_sentence(client_id))

    def _bar(self, client_id: str) -> None:
        if client_id in self._shared:
            return
        self._shared[client_id] = None
        self._warnings.append(
            f"the client id '{client_id}' is shared by live members: its ghosts are left to their sessions; give every"
            " instance a client.id and a state directory of its own"
        )

    def _prove(self, client_id: str, member: DescribedMember) -> None:
        """Whether the client id is Streams' own make; one contrary subscription settles it for ever."""
        claimed = process_of(client_id, self._group_id)
        if claimed is not None and self._proven.get(client_id, True):
            self._proven[client_id] = _subscribed_process(member.metadata) == claimed

    def _dead(self, members: list[DescribedMember]) -> list[Ghost]:
        client_id = members[0].client_id
        if len(members) < 2 or client_id in self._shared or client_id in self._returned:
            return []
        *older, newest = sorted(members, key=lambda m: self._first_seen[m.member_id])
        if self._first_seen[older[-1].member_id] == self._first_seen[newest.member_id]:
            return []  # seen at once: nobody knows who was first
        return [
            Ghost(member.member_id, client_id, member.client_host, proof, newest.member_id)
            for member in older
            if (proof := self._proof(member, newest)) is not None
        ]

    def _proof(self, older: DescribedMember, newest: DescribedMember) -> Proof | None:
        if self._proven.get(older.client_id, False):
            return Proof.PROCESS_ID
        known = older.member_id in self._at_rest and newest.member_id not in self._at_rest
        same_host = older.client_host == newest.client_host and bool(older.client_host)
        return Proof.CLIENT_ID if self._client_ids_unique and known and same_host else None

    def _forget(self, present: Iterable[str]) -> None:
        """The departed who were seen first go first, where there are too many."""
        here = frozenset(present)
        for store in (self._first_seen, self._at_rest):
            surplus = len(store) - len(here) - REMEMBERED_MAX
            for name in [name for name in store if name not in here][: max(0, surplus)]:
                del store[name]
        for table in (self._proven, self._shared, self._returned, self._removed_at, self._present):
            for client_id in list(table)[: max(0, len(table) - len(here) - REMEMBERED_MAX)]:
                del table[client_id]


def _subscribed_process(metadata: bytes) -> str | None:
    try:
        info = SubscriptionInfo.decode(ConsumerProtocolSubscription.decode(metadata).user_data or b"")
    except RemoteProtocolError:
        return None
    return None if info.future else str(info.process_id)
