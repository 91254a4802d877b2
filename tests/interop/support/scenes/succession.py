"""Who leads when a leader goes, tried on real brokers.

Each group has a random number of raw members, some have been larger once. A newcomer comes with an id that should sort
first; then leaders are removed one after another. Every time it is compared who leads with who was predicted: by the
listing of DescribeGroups, and by the hashes of the member ids alone.
"""

import random
import struct
import time
from collections import Counter
from dataclasses import dataclass, field

from bellwether_kafka.coordinator.membership import tables
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from tests.interop.support.jvm import BROKER_39, CURRENT
from tests.interop.support.raw import (
    DESCRIBE,
    JOIN,
    LEAVE,
    MEMBER_ID_REQUIRED,
    RETRIABLE,
    RawError,
    connect_to_coordinator,
    member_ids,
    text,
)
from tests.kit.membership import BrokerTable, HashOrder

RELEASES = {"4.3": CURRENT, "3.9": BROKER_39}
SESSION_MS = 30_000
PARTED = 3  # leaders that are removed in each group
ROLLS_MAX = 5_000
LIMIT_S = 20.0
MOVES_MAX = 5


class Candidate:
    """One raw member whose JoinGroup can be sent now and be answered later."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.member_id = ""
        self.leader = ""
        self._group = group
        self._sent = 0
        self._connection = connect_to_coordinator(bootstrap, group)

    def reserve(self) -> str:
        """Asks for a member id, which holds the rebalance open from now on."""
        self.member_id = ""
        self.send()
        code = self._answer()
        if code != MEMBER_ID_REQUIRED:
            raise RawError("JoinGroup for a member id", code)
        return self.member_id

    def send(self) -> None:
        body = text(self._group) + struct.pack(">ii", SESSION_MS, SESSION_MS) + text(self.member_id)
        body += text(None) + text("consumer") + struct.pack(">i", 1)
        # Unchanged bytes would be answered with the same generation again while nobody has synced.
        self._sent += 1
        metadata = ConsumerProtocolSubscription(user_data=struct.pack(">i", self._sent)).encode()
        body += text("range") + struct.pack(">i", len(metadata)) + metadata
        self._connection.send(JOIN, body)

    def join(self) -> None:
        """Takes the answer of the rebalance."""
        code = self._answer()
        if code:
            raise RawError("JoinGroup", code)

    def leave(self, member_id: str = "") -> None:
        answer = self._connection.ask(LEAVE, text(self._group) + text(member_id or self.member_id))
        answer.take("i")
        if code := answer.take("h"):
            raise RawError("LeaveGroup", code)

    def listing(self) -> list[str]:
        return member_ids(self._connection.ask(DESCRIBE, struct.pack(">i", 1) + text(self._group) + b"\0"))

    def close(self) -> None:
        self._connection.close()

    def _answer(self) -> int:
        answer = self._connection.receive()
        answer.take("i")
        code = answer.take("h")
        answer.take("i")
        answer.text()
        self.leader = answer.text() or ""
        self.member_id = answer.text() or self.member_id
        return code


@dataclass
class Tally:
    """What was seen on one release."""

    groups: int = 0
    members: list[int] = field(default_factory=list)
    successions: int = 0
    by_listing: int = 0
    hash_sure: int = 0  # successions in which the hashes leave one candidate
    by_hash: int = 0
    first_at_once: int = 0  # the newcomer led after one eviction
    first_expected: int = 0  # groups whose listing said so
    rolls: int = 0
    orders: Counter[str] = field(default_factory=Counter)


class Trial:
    """One group."""

    def __init__(self, bootstrap: str, group: str, draw: random.Random, members_max: int) -> None:
        self._bootstrap, self._group, self._draw = bootstrap, group, draw
        self._size = draw.randint(1, members_max)
        self._was = self._size + (draw.randint(1, members_max) if draw.random() < 0.3 else 0)
        self._door = Candidate(bootstrap, group)
        self._members = [Candidate(bootstrap, group) for _ in range(self._was)]

    def run(self, tally: Tally) -> None:
        try:
            self._run(tally)
        finally:
            for candidate in (self._door, *self._members):
                candidate.close()

    def _run(self, tally: Tally) -> None:
        first, *others = self._members
        first.reserve()
        first.send()
        first.join()  # the first rebalance of an empty group ends without regard to pending ids
        for member in others:
            member.reserve()
        self._rebalance()
        self._shrink()
        tally.groups += 1
        tally.members.append(len(self._members))
        newcomer = self._newcomer(tally)
        self._members.append(newcomer)
        self._rebalance()
        for number in range(min(PARTED, len(self._members) - 1)):
            expected, leader = self._succeed(tally)
            if number == 0:
                tally.first_expected += expected == newcomer.member_id
                tally.first_at_once += leader == newcomer.member_id

    def _rebalance(self) -> None:
        """All members in one rebalance, which a pending id holds open until everybody has been added."""
        self._door.reserve()
        for member in self._members:
            member.send()
        limit = time.monotonic() + LIMIT_S
        while not {m.member_id for m in self._members} <= set(self._door.listing()):
            assert time.monotonic() < limit, f"{self._group}: members are missing from its rebalance"
        self._door.leave()
        for member in self._members:
            member.join()
        assert len({m.leader for m in self._members}) == 1

    def _shrink(self) -> None:
        if self._was == self._size:
            return
        self._draw.shuffle(self._members)
        for member in self._members[self._size :]:
            member.leave()
            member.close()
        del self._members[self._size :]
        self._rebalance()

    def _newcomer(self, tally: Tally) -> Candidate:
        """With an id that sorts first, if one is found."""
        listing = self._door.listing()
        possible_tables = [BrokerTable(HashOrder(table.order.value), table.buckets) for table in tables(listing)]
        assert possible_tables, f"neither order lists these members so: {listing}"
        for order in {table.order for table in possible_tables}:
            tally.orders[order.value] += 1
        newcomer = Candidate(self._bootstrap, self._group)
        for _ in range(ROLLS_MAX):
            tally.rolls += 1
            own = newcomer.reserve()
            if all(table.before(listing, own) == table.unavoidable(listing) for table in possible_tables):
                return newcomer
            newcomer.leave()
        newcomer.reserve()  # one in 500 groups has hardly any id that sorts first in all tables that list it so
        return newcomer

    def _succeed(self, tally: Tally) -> tuple[str, str]:
        """Removes the leader; returns who should lead then by the listing, and who does."""
        listing = self._door.listing()
        leader = self._members[0].leader
        left = [m for m in listing if m != leader]
        self._door.leave(leader)
        gone = next(m for m in self._members if m.member_id == leader)
        gone.close()
        self._members.remove(gone)
        self._rebalance()
        now = self._members[0].leader
        tally.successions += 1
        tally.by_listing += now == left[0]
        possible = [BrokerTable(HashOrder(table.order.value), table.buckets) for table in tables(listing)]
        foretold = {m for table in possible for m in first_of(left, table)}
        if len(foretold) == 1:
            tally.hash_sure += 1
            tally.by_hash += foretold == {now}
        return left[0], now


def first_of(members: list[str], table: BrokerTable) -> list[str]:
    """Who can be first by hash alone: one member, or those who share the first bucket of Java's table."""
    first = min(map(table.place, members))
    return [m for m in members if table.place(m) == first]


def trials(bootstrap: str, groups: int, members_max: int, seed: int) -> Tally:
    """Runs the trials on brokers that are there."""
    tally = Tally()
    draw = random.Random(seed)
    for number in range(groups):
        _try(bootstrap, f"succession-{seed}-{number}", draw, members_max, tally)
    return tally


def _try(bootstrap: str, group: str, draw: random.Random, members_max: int, tally: Tally) -> None:
    """One group; another in its place where the brokers have moved it meanwhile (leaders go back to where they were
    minutes after a node was restarted)."""
    for number in range(MOVES_MAX):
        try:
            Trial(bootstrap, f"{group}-{number}", draw, members_max).run(tally)
        except RawError as error:
            if error.code not in RETRIABLE or number == MOVES_MAX - 1:
                raise
        else:
            return
        time.sleep(1)
