"""Finds ghosts in a classic group: dead members whose session has not ended (docs/get-started/remove-ghosts-only.md).

A ghost holds up its whole group at the next join, because the broker waits for it. `GhostFinder` takes every
DescribeGroups answer and reports a member only if a later member proves that it is dead:

process id  Streams builds a thread's client id from the application id, the process id and the thread's number. The
            process id is in the state directory, which only one process at a time can lock, and a thread's number is
            reused only after the previous thread with it has closed its consumer. So of two members with one such
            client id, the earlier one is dead. The member's own subscription also carries the process id, which shows
            that Streams built the client id and that it was not typed.
client id   If the operator states that no two live members on a host share a client id: two members have the same
            client id and host, and the older one was in a stable generation before the newer one joined.

Never reported: static members (they replace themselves), the newest member of a client id, and all members of a client
id that two members of one finished generation shared. If a client id comes back right after a removal, the removed
member may have been alive: its members are left alone until the group is stable and shows whether both live.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from bellwether_kafka.coordinator.membership import FINISHED, DescribeAnswer, DescribedMember, GroupState
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription, SubscriptionInfo
from bellwether_kafka.protocol.primitives import RemoteProtocolError

# A live member that was removed learns it from its next heartbeat (3 s by default) and joins again at its next poll. A
# restart takes seconds too; a process that restarts twice within this time simply waits for its session timeout.
RETURN_S = 15.0
REMEMBERED_MAX = 20_000

NO_PROCESS = str(SubscriptionInfo().process_id)  # the id that a Bellwether instance sends; Java never generates it

_DEFAULT_CLIENT_ID = re.compile(
    r"(?P<process>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})-StreamThread-\d+-consumer"
)


@dataclass(frozen=True, slots=True)
class GhostOptions:
    """Which members may be removed from a group.

    `remove`: remove ghosts. `client_ids_unique`: the operator states that no two live members on one host share a
    client id. `evict_malformed`: also remove members whose subscription wedges the broker (see `coexistence`).
    `exactly_once`: warn of rebalances that may outlast transactions (see `coexistence`).
    """

    remove: bool = True
    client_ids_unique: bool = False
    evict_malformed: bool = False
    exactly_once: bool = False


class Proof(Enum):
    """The kind of proof of a death. The value is a metric label."""

    PROCESS_ID = "process_id"
    CLIENT_ID = "client_id"


@dataclass(frozen=True, slots=True)
class Ghost:
    """A dead member. `successor` is the member whose joining proves it."""

    member_id: str
    client_id: str
    client_host: str
    proof: Proof
    successor: str

    @property
    def reason(self) -> str:
        """A phrase for the broker's log and for notes."""
        if self.proof is Proof.PROCESS_ID:
            return f"its process has restarted and joined again as {self.successor}"
        return f"its client id has joined again from {self.client_host} as {self.successor}"


def unprovable(members: Iterable[DescribedMember], group_id: str) -> str:
    """Returns the client id of a Streams thread whose application sets client.id, "" if there is none. Its death can
    never be proven unless the operator sets `client_ids_unique`."""
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
    """Returns the process id in a client id of the default form of this application's stream threads, else None."""
    prefix = f"{group_id}-"
    parts = _DEFAULT_CLIENT_ID.fullmatch(client_id, len(prefix)) if client_id.startswith(prefix) else None
    return parts["process"] if parts else None


class GhostFinder:
    """Finds the ghosts of one group. Call `refresh` with every DescribeGroups answer, in order. Times are seconds."""

    def __init__(self, group_id: str, *, client_ids_unique: bool = False) -> None:
        self._group_id = group_id
        self._client_ids_unique = client_ids_unique
        self._refreshes = 0
        self._first_seen: dict[str, int] = {}  # member id -> number of the refresh that first saw it
        self._at_rest: dict[str, None] = {}  # member ids of Stable generations
        self._proven: dict[str, bool] = {}  # client id -> whether its member's subscription has the same process id
        self._shared: dict[str, None] = {}  # client ids that two members of one generation had
        self._returned: dict[str, None] = {}  # client ids that came back right after a removal
        self._removed_at: dict[str, float] = {}  # client id -> when one of its members was removed, or had gone
        self._present: dict[str, frozenset[str]] = {}  # client id -> its members when last listed
        self._warnings: list[str] = []
        self._unprovable_reported = False

    def refresh(self, seen: DescribeAnswer, now: float) -> tuple[Ghost, ...]:
        """Returns the ghosts in this answer and updates the state. An answer with an error changes nothing."""
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
        """Records that the broker has removed these ghosts."""
        self._removed_at |= {ghost.client_id: now for ghost in ghosts}

    def warnings(self) -> tuple[str, ...]:
        """Returns the new warnings as sentences, each once: on client ids whose members are not removed from now on."""
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
                self._distrust(client_id, shared=len(members) > 1)

    def _miss(self, client_id: str, members: list[DescribedMember], now: float) -> None:
        """Records members that are gone while their client id stays: another Bellwether may have removed them."""
        present = frozenset(m.member_id for m in members)
        if self._present.get(client_id, present) - present:
            self._removed_at[client_id] = now
        self._present[client_id] = present

    def _distrust(self, client_id: str, *, shared: bool) -> None:
        if client_id in self._returned:
            return
        self._returned[client_id] = None
        if shared:
            self._warnings.append(
                f"the client id '{client_id}' came back within {RETURN_S:.0f} s after one of its members had gone: its"
                " process crashes again and again, or two live ones share it; none is removed until the group is Stable"
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
            f"the client id '{client_id}' is shared by live members: its ghosts stay until their sessions end; give"
            " every instance a client.id and a state directory of its own"
        )

    def _prove(self, client_id: str, member: DescribedMember) -> None:
        """Records whether Streams built the client id. A single subscription that contradicts it is final."""
        claimed = process_of(client_id, self._group_id)
        if claimed is not None and self._proven.get(client_id, True):
            self._proven[client_id] = _subscribed_process(member.metadata) == claimed

    def _dead(self, members: list[DescribedMember]) -> list[Ghost]:
        client_id = members[0].client_id
        if len(members) < 2 or client_id in self._shared or client_id in self._returned:
            return []
        *older, newest = sorted(members, key=lambda m: self._first_seen[m.member_id])
        if self._first_seen[older[-1].member_id] == self._first_seen[newest.member_id]:
            return []  # both appeared in one answer, so their order is unknown
        return [
            Ghost(member.member_id, client_id, member.client_host, proof, newest.member_id)
            for member in older
            if (proof := self._proof(member, newest)) is not None
        ]

    def _proof(self, older: DescribedMember, newest: DescribedMember) -> Proof | None:
        if self._proven.get(older.client_id, False):
            return Proof.PROCESS_ID
        came_after_rest = older.member_id in self._at_rest and newest.member_id not in self._at_rest
        same_host = older.client_host == newest.client_host and bool(older.client_host)
        return Proof.CLIENT_ID if self._client_ids_unique and came_after_rest and same_host else None

    def _forget(self, present: Iterable[str]) -> None:
        """Drops the oldest departed members and the oldest client ids if there are too many."""
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
