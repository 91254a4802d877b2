"""The groups of the pictures: most are well, and each of the others has something else wrong with it."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.kit.answering_brokers import LAG, NODES, Brokers, Size

Lag = Callable[[float, int], int | None]  # after so many seconds, of a partition
ALL = 2**40  # nothing has been read yet
HELD_FOR_S = 25  # how long a restless group keeps its members


def steady(after_s: float, partition: int) -> int:
    return int(LAG + 8 * partition + 20 * (1 + math.sin(after_s / 9 + partition)))


def undisturbed(records: int) -> Lag:
    """About so many in each partition, more and less in turns."""
    return lambda after_s, partition: int(records * (1.5 + math.sin(after_s / (20 + records % 17) + partition / 3)))


def batches(after_s: float, partition: int) -> int:
    """It reads everything now and then."""
    return int((after_s + 11 * partition) % 120 * 70)


def behind(after_s: float, partition: int) -> int:
    return int(LAG + after_s * (8 + 3 * (partition % 4)))


def stuck(after_s: float, partition: int) -> int:
    """Three partitions make no progress."""
    return ALL if partition in (3, 4, 7) else steady(after_s, partition)


def silent(after_s: float, partition: int) -> int | None:
    """Nothing was ever committed in some partitions."""
    return None if partition % 4 == 1 else steady(after_s, partition)


def unread(_after_s: float, _partition: int) -> int:
    return ALL


@dataclass(frozen=True, slots=True)
class Spec:
    """A group with a topic of its own. `racks` are those of its members, in turn; `shares` weigh them."""

    name: str
    partitions: int = 12
    members: int = 4
    lag: Lag = steady
    racks: tuple[str, ...] = ("az0", "az1", "az2")
    shares: tuple[int, ...] = ()
    unowned: int = 0
    restless: bool = False

    def owned(self, members: int) -> list[range]:
        """Neighbours together, as `range` has it."""
        weights = self.shares or (1,) * members
        total = self.partitions - self.unowned
        ends = [round(total * sum(weights[: i + 1]) / sum(weights)) for i in range(members)]
        return [range(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]


SPECS = (
    Spec("payments-settlement", 12, 4, stuck),
    Spec("orders-billing", 24, 6, behind),
    Spec("reminders-email", 6, 0, unread),
    Spec("clicks-sessions", 18, 5, restless=True),
    Spec("ledger-export", 8, 3, lambda s, p: unread(s, p) if p >= 6 else steady(s, p), unowned=2),
    Spec("search-indexer", 12, 4, batches, ("az0",)),
    Spec("fraud-scoring", 24, 6, undisturbed(90), racks=("az2", "az0", "az1"), shares=(4, 1, 1, 1, 1, 1)),
    Spec("audit-log-archive", 8, 2, silent),
    Spec("inventory-sync", 9, 3, batches),
    Spec("pricing-cache", 6, 3, undisturbed(11)),
    Spec("recommendations-feed", 12, 4, batches),
    Spec("notifications-push", 6, 2, undisturbed(140)),
    Spec("shipping-labels", 9, 3, undisturbed(37)),
    Spec("returns-desk", 3, 1, lambda _s, _p: 0),
    Spec("loyalty-points", 6, 3, undisturbed(72)),
    Spec("media-transcode", 12, 6, batches),
    Spec("geo-lookup", 6, 2, undisturbed(5), racks=("az1", "az2")),
    Spec("crm-export", 3, 3, undisturbed(260)),
)


@dataclass(frozen=True, slots=True)
class Varied(Size):
    """All of SPECS, in the place of groups that are alike."""

    groups: int = len(SPECS)
    partitions: int = 0
    members: int = 0

    def group(self, number: int) -> str:
        return SPECS[number].name

    def topic(self, number: int) -> str:
        return SPECS[number].name.rpartition("-")[0]

    def partitions_of(self, topic: str) -> int:
        return next(spec.partitions for i, spec in enumerate(SPECS) if self.topic(i) == topic)


class VariedBrokers(Brokers):
    """Answers for these groups, which change as time goes by."""

    def _described_group(self, group_id: str) -> Any:
        return self._describe_anew(group_id)

    def _state(self, group_id: str) -> str:
        return "Stable" if self._spec(group_id).members else "Empty"

    def _members(self, group_id: str) -> list[Any]:
        spec, topic = self._spec(group_id), self.size.topic(self._groups[group_id])
        count = spec.members + (int(self._after_s() / HELD_FOR_S) % 2 if spec.restless else 0)
        shares = enumerate(spec.owned(count) if count else ())
        return [self._member(group_id, topic, n, spec.racks[n % len(spec.racks)], own) for n, own in shares]

    def _lag(self, group_id: str, partition: int) -> int | None:
        return self._spec(group_id).lag(self._after_s(), partition)

    def _spec(self, group_id: str) -> Spec:
        return SPECS[self._groups[group_id]]

    def _after_s(self) -> float:
        return time.time() - self._began


assert len(set(SPECS[0].racks)) == NODES, "a rack for each broker"
