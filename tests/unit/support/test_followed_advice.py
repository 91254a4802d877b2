"""Which member a live test restarts when Bellwether says that a take-over is blocked."""

from itertools import count

import pytest

from bellwether_kafka.coordinator.membership.broker_order import spread_hash, tables
from bellwether_kafka.coordinator.membership.config import SizeLimit
from bellwether_kafka.coordinator.membership.table_growth import forecast
from bellwether_kafka.coordinator.membership.takeover_policy import blocked
from tests.interop.support.absences import to_restart

CLIENT_IDS = ("orders-2", "orders-1", "orders-3")  # as a broker lists them: by the slots of their member ids
LARGEST = 512  # buckets; a take-over's temporary members make no larger table


def member_ids(*slots: int) -> list[str]:
    """A member id of each client in these slots of the largest table."""
    pairs = zip(CLIENT_IDS, slots, strict=True)
    return [next(f"{c}-{i}" for i in count() if spread_hash(f"{c}-{i}") % LARGEST == slot) for c, slot in pairs]


@pytest.mark.parametrize("size_limit", [SizeLimit(1_000), SizeLimit()], ids=["limit known", "limit unknown"])
@pytest.mark.parametrize("leader", ["", "orders-3"])
def test_the_member_that_blocks_is_restarted_for_each_leader(leader: str, size_limit: SizeLimit) -> None:
    """CI was refused once because only the sentence for a known leader was followed."""
    ids = member_ids(0, 5, 9)
    leading = next((member_id for member_id in ids if leader and member_id.startswith(leader)), "")
    advice = blocked(forecast(ids, tables(ids), leading, 2, size_limit.members), size_limit, None)
    assert "restart" in advice
    assert to_restart(CLIENT_IDS, advice) == "orders-2"


def test_any_member_is_restarted_where_none_is_named() -> None:
    ids = member_ids(1, 2, 3)
    advice = blocked(forecast(ids, tables(ids), "", 2, None, tries=1), SizeLimit(1_000), None)
    assert "restart the members" in advice
    assert to_restart(CLIENT_IDS, advice) == "orders-2"
