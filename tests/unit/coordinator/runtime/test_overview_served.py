"""A whole process: `bellwether run`, before brokers that only answer looks, serves the overview of what it sees."""

import json
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from tests.interop.support.members import wait_until
from tests.kit.answering_brokers import Size
from tests.kit.processes import Run, running

SIZE = Size(groups=3, partitions=6, members=2)


def rows(run: Run, name: str = "") -> list[dict[str, Any]]:
    document: list[dict[str, Any]] = json.loads(run.get(f"/api/overview{name}"))
    return document


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_each_group_has_its_lag_and_a_curve_of_it(tmp_path: Path) -> None:
    with running(SIZE, tmp_path) as run:
        run.wait_until_seen(SIZE.groups)
        wait_until(lambda: all(row["lag"] is not None for row in rows(run)), 60, lambda: str(rows(run)))
        listed = rows(run)
        assert sorted(row["group"] for row in listed) == [SIZE.group(number) for number in range(SIZE.groups)]
        for row in listed:
            assert (row["members"], row["items"], row["assigned_by"]) == (2, 6, "a member")
            assert row["lag"] > 0
            assert row["curve"]["values"][-1] >= row["lag"]
            assert rows(run, f"/{row['group']}")[0]["group"] == row["group"]
        with pytest.raises(HTTPError, match="404"):
            rows(run, "/nothing")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_group_to_lead_that_a_member_leads_shows_the_same(tmp_path: Path) -> None:
    """What is known of a group does not depend on whether this process has led a rebalance of it."""
    name = SIZE.group(0)
    with running(SIZE, tmp_path, led=[name]) as run:
        run.wait_until_seen(SIZE.groups - 1)
        wait_until(lambda: all(row["lag"] is not None for row in rows(run)), 60, lambda: str(rows(run)))
        by_group = {row["group"]: row for row in rows(run)}
        (led, observed) = by_group[name], by_group[SIZE.group(1)]
        assert (led["mode"], led["leading"], led["role"]["reason"]) == ("lead", False, "member_leads")
        same = ("type", "assigned_by", "members", "items", "unowned", "cross_rack")
        assert {key: led[key] for key in same} == {key: observed[key] for key in same}
        picture = json.loads(run.get(f"/api/groups/{name}"))
        assert sum(len(holder["items"]) for holder in picture["holders"]) == SIZE.partitions
        series = run.get("/metrics")
        for metric in ("members", "unowned_partitions", "lag_records", "lag_timestamp_seconds"):
            assert f'bellwether_{metric}{{group="{name}"}}' in series
