"""The status page in a real browser: what is drawn is what the API says."""

import asyncio
import html
import json
import os
import re
import shutil
import subprocess
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from bellwether_kafka.assignors.shared.decision import Moves
from bellwether_kafka.coordinator.observation.lag import group_lag
from bellwether_kafka.coordinator.observation.rebalances import SeenRebalance
from bellwether_kafka.coordinator.web.app import GroupStatus, RoleStatus, Web
from bellwether_kafka.coordinator.web.lags import Lags, with_lags
from bellwether_kafka.coordinator.web.observed import present
from bellwether_kafka.coordinator.web.picture import Picture
from bellwether_kafka.coordinator.web.rounds import Rounds
from bellwether_kafka.coordinator.web.server import HttpServer
from tests.unit.assignors.streams.world import NOW_MS, Thread, group, led
from tests.unit.coordinator.observation.test_offset_history import history, sample
from tests.unit.coordinator.planning.test_streams_report import ONE_STANDBY
from tests.unit.coordinator.web.test_observed import SKEWED, observed_group
from tests.unit.coordinator.web.test_observed import member as member_of
from tests.unit.coordinator.web.test_picture import decided, member, planned, tasks

EVIL = "<img src=x onerror=document.title='hacked'>"
# By name: of partitions, and of all that tasks read. 1_1 is active as well as a standby, with a lag of its own.
LOOKS = history(
    sample(0, {"orders": [0, 0, 0, 0]}, {"orders": [0, 7, 0, 90]}),
    sample(100, {"orders": [7, -1, 50, 60]}, {"orders": [14, 7, 50, 12_060]}),
)
FOUND = replace(group_lag(LOOKS, None), notes=(f"{EVIL} is compacted",))
READ = Lags(0.0, {"orders-0": 0, "orders-1": 7, "orders-2": 30_000, "0_0": 12, "1_1": 10_000}, FOUND)
BEHIND = {
    "g": {("orders-0", "no"), ("orders-1", "near"), ("orders-2", "far")},
    "shop": {("0_0", "near"), ("1_1", "far")},
}
LAG_FACTS = (
    "lag in time 100 s or more written per second 120.34 read per second 1.17 caught up in not known judged unknown"
)
FENCED = RoleStatus("fenced", "another process has our id", "Give each process an id.", 1_700_000_000_000, None)
LEADING = RoleStatus("", "", "", 1_700_000_000_000, None)
GROUPS = [
    GroupStatus("g", "lead", "stable", True, LEADING, 2, 3),
    GroupStatus("shop", "lead", "stable", True, LEADING, 2, 3),
    GroupStatus("lost", "lead", "stopped", False, FENCED, -1, 0),
    GroupStatus("watched", "observe", "stable", False, None, -1, 4),
    GroupStatus("seen", "observe", "stable", False, None, -1, 4),
    GroupStatus("unplanned", "observe", "stable", False, None, -1, 2),
]
REBALANCES = [
    SeenRebalance(1_700_000_100_000, f"{EVIL} left or died", 10_000, None, True, None),
    SeenRebalance(1_700_000_050_000, "b joined", 10_000, 30_000, False, Moves(1, 2, 3, 0)),
    SeenRebalance(1_700_000_000_000, "", 0, 10_000, False, Moves(4, 0, 0, 0)),
]
OBSERVED = {
    "seen": present(replace(SKEWED, obstacle="its broker assigns", group_lag=FOUND, lag_notes=FOUND.notes), REBALANCES),
    "unplanned": present(observed_group(member_of("a-1", None, "orders-0"), shadow=False)),
}


def browser() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        assert not os.environ.get("CI"), "CI needs chromium (Debian package chromium)"
        pytest.skip("no headless browser is installed (Debian package chromium)")
    return found


def rounds() -> Rounds:
    found = Rounds()
    first = decided(member("a", "az1"), member("b", "az3"))
    found.on_decision(planned(first))
    found.on_decision(
        planned(
            decided(member("a", "az3"), member(EVIL, "az2"), member("c", None), generation=2, memory=first.plan.memory)
        )
    )
    a, b, c = Thread("a", 1, rack="az1"), Thread("b", 2, rack="az2"), Thread("c", 3)
    warm = led(group(a, b), configs=ONE_STANDBY)
    found.on_decision(tasks(warm))
    grown = group(a.after(warm), b.after(warm), c, generation=2)
    found.on_decision(tasks(led(grown, configs=ONE_STANDBY, memory=warm.plan.memory, now_ms=NOW_MS + 5)))
    return found


async def looked_at(chromium: str, fragment: str, shot: Path) -> tuple[str, dict[str, object] | None]:
    """The page's document after its script has run, and what the API says of the same group."""
    led_rounds = rounds()

    def pictured(name: str) -> Picture | None:
        found = led_rounds.picture(name)
        return None if found is None else with_lags(found, READ, 2.0)

    server = HttpServer(Web(CollectorRegistry(), lambda: None, lambda: GROUPS, led_rounds, pictured, OBSERVED.get))
    address = await server.start("127.0.0.1:0")

    def look() -> tuple[str, dict[str, object] | None]:
        profile = shot.parent / "profile"
        command = [
            chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            f"--user-data-dir={profile}", "--virtual-time-budget=4000", "--window-size=1200,900",
            f"--screenshot={shot}", "--dump-dom", f"http://{address}/#{fragment}",
        ]  # fmt: skip
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr[-2000:]
        try:
            with urllib.request.urlopen(f"http://{address}/api/groups/{fragment}", timeout=10) as answer:
                return done.stdout, json.load(answer)
        except urllib.error.HTTPError:
            return done.stdout, None

    try:
        return await asyncio.to_thread(look)
    finally:
        await server.stop()


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", ["g", "shop"])
def test_the_page_draws_what_the_api_says(tmp_path: Path, name: str) -> None:
    page, picture = asyncio.run(looked_at(browser(), name, tmp_path / "page.png"))
    assert picture is not None
    drawn = re.findall(r'<i class="item ([a-z-]+)( withheld)?"[^>]*data-item="([^"]+)"', page)
    said = [
        (item["state"], " withheld" if item["withheld"] else "", item["name"])
        for holder in picture["holders"]
        for item in holder["items"]
    ]
    assert sorted(drawn) == sorted(said)
    assert drawn
    lags = [
        (i["state"], i["name"], i["lag"], "far" if i["lag"] >= 10_000 else "near" if i["lag"] else "no")
        for holder in picture["holders"]
        for i in holder["items"]
        if i["lag"] is not None
    ]
    square = r'<i class="item ([a-z-]+)[^>]*data-item="([^"]+)" data-lag="(\d+)" data-behind="(no|near|far)"'
    coloured = [(state, item, int(lag), behind) for state, item, lag, behind in re.findall(square, page)]
    assert sorted(coloured) == sorted(lags)
    active = {(item, behind) for state, item, _, behind in coloured if state not in ("standby", "warm-up")}
    assert active == BEHIND[name], "what members read is coloured by its lag, beside local and cross-rack"
    assert any(state == "standby" for state, *_ in coloured) == (name == "shop")
    assert set(re.findall(r'data-rack="([^"]*)"', page)) == {*picture["racks"], ""}
    assert page.count('class="holder"') == len(picture["holders"])
    assert picture["cause"].replace("<", "&lt;").replace(">", "&gt;") in page
    assert f"lag 12,007 partitions of unknown lag 1 {LAG_FACTS}" in text_of(page)
    assert f"{EVIL} is compacted" in text_of(page)
    assert f'data-drawn="{picture["generation"]}"' in page
    assert "<title>Bellwether</title>" in page, "names that clients choose are text and nothing else"
    assert (tmp_path / "page.png").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_group_that_nobody_has_looked_at_yet_says_so(tmp_path: Path) -> None:
    page, picture = asyncio.run(looked_at(browser(), "watched", tmp_path / "page.png"))
    assert picture is None
    assert "watched: observe, stable. This process has not looked at it yet." in page


def text_of(page: str, tag: str = "body") -> str:
    """What people read: no tags, no titles, blanks as one."""
    inside = page.partition(f"<{tag}")[2].partition(">")[2].partition(f"</{tag}>")[0]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", inside)).split())


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_an_observed_group_shows_members_lags_costs_moves_and_rebalances_without_hovering(tmp_path: Path) -> None:
    page, picture = asyncio.run(looked_at(browser(), "seen", tmp_path / "page.png"))
    assert picture is not None
    text = text_of(page)
    for holder in picture["holders"]:
        card = page.partition(f'data-holder="{holder["name"]}"')[2].partition('class="holder"')[0]
        for item in holder["items"]:
            lag = "?" if item["lag"] is None else f"{item['lag']:,}"
            assert f"{item['name']}<b>{lag}</b>" in card, item
    assert "client b on 10.0.0.3, lag 12,007" in text
    assert "client a on 10.0.0.3, lag not known" in text
    assert set(re.findall(r'data-rack="([^"]*)"', page)) == {"az1", "az2", ""}
    assert "classic group, cannot be led: its broker assigns" in text
    assert f"lag 12,007 partitions of unknown lag 1 {LAG_FACTS}" in text
    assert f"{EVIL} is compacted" in text
    shadow = picture["observed"]["shadow"]
    for name, key in (("read from another rack", "cross_rack"), ("imbalance: most minus fewest", "spread")):
        assert f"{name} {shadow['current'][key]} {shadow['planned'][key]}" in text
    moves = shadow["moves"]
    assert f"Bellwether would move {moves['moved']}, keep {moves['kept']}, and give {moves['new']}" in text
    assert "Hypothetical, for the group cannot be led." in text
    assert "Moves that Bellwether would make" in text
    for move in picture["moves"]:
        assert f"{move['item']} {move['source']} {move['target']} {move['reason']}" in text
    assert f"{EVIL} left or died 10 s so far not known not known not known" in text
    assert "b joined 10 to 30 s 1 2 3" in text
    assert "not known up to 10 s 4 0 0" in text
    assert "<title>Bellwether</title>" in page, "names that clients choose are text and nothing else"
    assert 'data-drawn="observed"' in page
    assert (tmp_path / "page.png").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_what_an_observer_does_not_know_is_said_to_be_unknown(tmp_path: Path) -> None:
    page, _ = asyncio.run(looked_at(browser(), "unplanned", tmp_path / "page.png"))
    text = text_of(page)
    assert "no shadow plan: the brokers are silent" in text
    assert "Cost now and under Bellwether: not known, for want of a plan." in text
    assert "Bellwether would" not in text


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_group_that_is_not_led_says_why_and_what_to_do_without_hovering(tmp_path: Path) -> None:
    page, _ = asyncio.run(looked_at(browser(), "lost", tmp_path / "page.png"))
    assert '<strong data-leading="false">not leading: fenced</strong> since ' in page
    assert "<p>another process has our id</p><p>Give each process an id.</p>" in page
    assert dict(re.findall(r'href="#(\w+)"[^>]*data-leading="(\w+)"', page)) == {
        "g": "true", "shop": "true", "lost": "false", "watched": "false", "seen": "false", "unplanned": "false",
    }  # fmt: skip
