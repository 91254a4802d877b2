"""A process's web application with groups of every kind, served to a real browser."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from prometheus_client import CollectorRegistry

from bellwether_kafka.assignors.shared import Moves
from bellwether_kafka.coordinator.observation import Curve, Emptying, Group, RoleStatus, SeenRebalance, worst_first
from bellwether_kafka.coordinator.web import (
    HttpServer,
    LedRebalances,
    Picture,
    Web,
    present,
)
from bellwether_kafka.coordinator.web.led_lags import Lags, with_lags
from tests.kit.applications import ONE_STANDBY
from tests.kit.observed import SKEWED, group_lag, observed_group, sample
from tests.kit.observed import member as member_of
from tests.kit.plans import decided, member, planned, tasks
from tests.kit.streams import NOW_MS, Thread, group, led

EVIL = "<img src=x onerror=document.title='hacked'>"
LONG = "a-team-with-a-very-long-name." * 5 + "/orders?x=1#y"
# By name: of partitions, and of all that tasks read. 1_1 is active as well as a standby, with a lag of its own.
REFRESHES = (
    sample(0, {"orders": [0, 0, 0, 0]}, {"orders": [0, 7, 0, 90]}),
    sample(100, {"orders": [7, -1, 50, 60]}, {"orders": [14, 7, 50, 12_060]}),
)
LAG = replace(group_lag(*REFRESHES), notes=(f"{EVIL} is compacted",))
READ = Lags(0.0, {"orders-0": 0, "orders-1": 7, "orders-2": 30_000, "0_0": 12, "1_1": 10_000}, LAG)
FENCED = RoleStatus("fenced", "another process has our id", "Give each process an id.", 1_700_000_000_000, None)
LEADING = RoleStatus("", "", "", 1_700_000_000_000, None)
EMPTYING = (
    Emptying("member:app-1", "guard on app-1 has ordered evacuate of member:app-1 in 'lost' (SIGTERM)", "empty", 0),
    Emptying("rack:az1", f"ann has ordered evacuate of rack:az1 in 'lost' ({EVIL})", "", None),
)
APPLIED = f"ann has ordered apply of the plan 967a8959b2af5f5d to 'g' until its members change ({EVIL})"
GROUPS = [
    Group(
        group="g",
        mode="lead",
        state="stable",
        leading=True,
        role=LEADING,
        generation=2,
        members=3,
        applied_plan=APPLIED,
    ),
    Group(group="shop", mode="lead", state="stable", leading=True, role=LEADING, generation=2, members=3),
    Group(
        group="lost",
        mode="lead",
        state="stopped",
        leading=False,
        role=FENCED,
        generation=-1,
        members=0,
        emptying=EMPTYING,
    ),
    Group(group="watched", mode="observe", state="stable", members=4),
    Group(group="seen", mode="observe", state="stable", members=4),
    Group(group="unplanned", mode="observe", state="stable", members=2),
    Group(group=LONG, mode="observe", state="stable", members=2),
]
REBALANCES = [
    SeenRebalance(1_700_000_100_000, f"{EVIL} left or died", 10_000, None, True, None),
    SeenRebalance(1_700_000_050_000, "b joined", 10_000, 30_000, False, Moves(1, 2, 3, 0)),
    SeenRebalance(1_700_000_000_000, "", 0, 10_000, False, Moves(4, 0, 0, 0)),
]
OBSERVED = {
    "seen": present(replace(SKEWED, obstacle="its broker assigns", group_lag=LAG, lag_notes=LAG.notes), REBALANCES),
    "unplanned": present(observed_group(member_of("a-1", None, "orders-0"), shadow=False)),
    LONG: present(replace(observed_group(member_of(f"{'m' * 90}-1", None, "orders-0")), group_id=LONG)),
}
CURVES = {
    "g": Curve(1_700_000_000_000, 10_000, (5, 7, None, None, 9, 3)),
    "seen": Curve(1_700_000_000_000, 10_000, (None, 0, 12_007)),
}


def row_of(status: Group) -> Group:
    return replace(
        status,
        type="classic",
        assigned_by="Bellwether" if status.leading else "a member",
        lag=LAG.summary() if status.group in OBSERVED else None,
        curve=CURVES.get(status.group),
        rebalances=7 * (status.group == "seen"),
    )


def example_rebalances() -> LedRebalances:
    led_rebalances = LedRebalances()
    first = decided(member("a", "az1"), member("b", "az3"))
    led_rebalances.on_decision(planned(first))
    led_rebalances.on_decision(
        planned(
            decided(member("a", "az3"), member(EVIL, "az2"), member("c", None), generation=2, memory=first.plan.memory)
        )
    )
    a, b, c = Thread("a", 1, rack="az1"), Thread("b", 2, rack="az2"), Thread("c", 3)
    warm = led(group(a, b), configs=ONE_STANDBY)
    led_rebalances.on_decision(tasks(warm))
    grown = group(a.after(warm), b.after(warm), c, generation=2)
    led_rebalances.on_decision(tasks(led(grown, configs=ONE_STANDBY, memory=warm.plan.memory, now_ms=NOW_MS + 5)))
    return led_rebalances


def pictured(led_rebalances: LedRebalances, name: str) -> Picture | None:
    drawn = led_rebalances.picture(name)
    return None if drawn is None else with_lags(drawn, READ, 2.0)


def application() -> Web:
    led_rebalances = example_rebalances()

    def rows(name: str) -> Sequence[Group]:
        return worst_first(row_of(group) for group in GROUPS if name in ("", group.group))

    lags = (lambda: None, lambda: GROUPS, led_rebalances, lambda name: pictured(led_rebalances, name))
    return Web(CollectorRegistry(), *lags, OBSERVED.get, rows)


@contextmanager
def served(web: Web) -> Iterator[str]:
    """The address of the page, as long as the block lasts; the server has a thread of its own."""
    loop, server = asyncio.new_event_loop(), HttpServer(web)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"http://{asyncio.run_coroutine_threadsafe(server.start('127.0.0.1:0'), loop).result(30)}/"
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()
