"""The members of the broker's classic group, as its coordinator node holds, orders and persists them."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from bellwether_kafka.coordinator.membership.broker_order import BUCKETS_MIN, HashOrder, buckets_for, spread_hash
from tests.simulation.clock import Handle

Reply = Callable[[Any], None]


@dataclass
class Seat:
    """One member, as the coordinator node holds it."""

    member_id: str
    instance_id: str | None
    client_id: str
    protocols: tuple[tuple[str, bytes], ...]
    session_s: float
    rebalance_s: float
    assignment: bytes = b""
    is_new: bool = True
    join: Reply | None = None
    sync: Reply | None = None
    timer: Handle | None = None

    def metadata(self, protocol: str) -> bytes:
        return dict(self.protocols).get(protocol, b"")

    def kept(self) -> "Seat":
        """What a record holds."""
        return replace(self, is_new=False, join=None, sync=None, timer=None)


@dataclass
class Record:
    """The group as it was last persisted."""

    generation: int
    protocol: str
    leader: str | None
    seats: tuple[Seat, ...]


_spread_hash = lru_cache(maxsize=100_000)(spread_hash)


@dataclass
class Table:
    """The broker's hash table: by bucket, then by arrival (Java) or by hash (Scala); it never shrinks."""

    order: HashOrder = HashOrder.JAVA
    seats: dict[str, Seat] = field(default_factory=dict)
    buckets: int = BUCKETS_MIN

    def put(self, seat: Seat) -> None:
        self.seats[seat.member_id] = seat
        self.buckets = max(self.buckets, buckets_for(len(self.seats), self.order))

    def listed(self) -> list[Seat]:
        return sorted(self.seats.values(), key=self._place)

    def _place(self, seat: Seat) -> tuple[int, int]:
        spread = _spread_hash(seat.member_id)
        signed = spread - (1 << 32) if spread >> 31 else spread
        return spread & (self.buckets - 1), signed if self.order is HashOrder.SCALA else 0
