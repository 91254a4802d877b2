"""What is known of a group does not depend on whether this process has led a rebalance of it: after a restart in which
nothing is planned, and while others lead, the page and the series have members, lag and what nobody has."""

import pytest

from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock, partitions_of, wait_settled, wait_until
from tests.interop.support.page import Page, served
from tests.interop.support.rebalances import rebalances

pytestmark = pytest.mark.broker

LIMIT_S = 60.0


@pytest.mark.smoke
@pytest.mark.timeout(600)
def test_a_restart_without_a_rebalance_hides_nothing(kafka: KafkaCluster) -> None:
    group = "seen-after-restart"
    kafka.create_topic(group, 6, rf=3)
    unhurried = {"session_timeout_ms": 60_000}  # the restart has so long
    with (
        served() as address,
        Flock(kafka.bootstrap) as flock,
        Bellwether(kafka, [group], options=unhurried, http_address=address) as process,
    ):
        page, names = Page(address, group), {f"{group}-{partition}" for partition in range(6)}
        members = [flock.member("confluent", group, [group], ["range"], rack="az1") for _ in range(2)]
        wait_settled(members, partitions_of({group: 6}), spread=0)
        wait_until(lambda: page.items_shown() == names, LIMIT_S, process.tail)
        before = rebalances(kafka, group)
        process.stop()
        process.start()
        wait_until(lambda: page.row().get("leading") is True, LIMIT_S, process.tail)
        wait_until(lambda: page.items_shown() == names, LIMIT_S, lambda: str(page.get(f"/api/groups/{group}")))
        row = page.row()
        assert (row["assigned_by"], row["members"], row["unowned"], row["type"]) == ("Bellwether", 2, 0, "classic")
        series = page.series()
        assert (series["members"], series["unowned_partitions"], series["group_leading"]) == (2, 0, 1)
        assert {"lag_records", "lag_unknown_partitions", "lag_timestamp_seconds"} <= series.keys()
        assert rebalances(kafka, group) == before, "nothing was planned"
        assert not page.get("/decisions")

        kafka.add_partitions(group, 9)
        wait_until(lambda: bool(page.get("/decisions")), LIMIT_S, process.tail)
        assert page.get("/decisions")[-1]["cause"] == f"topic {group} went from 6 to 9 partitions"
        wait_until(lambda: len(page.items_shown()) == 9, LIMIT_S, process.tail)
        assert page.series()["members"] == 2
