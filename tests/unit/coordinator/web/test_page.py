"""The page in a real browser: what is drawn is what the API says, as text, at any width, and by keyboard."""

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.browser import Browser
from tests.unit.coordinator.web.shown import APPLIED, EVIL, GROUPS, LONG, application, served

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

LAG_FACTS = (
    "lag in time 1 min 40 s or more written per second 120 read per second 1.17 caught up in not known judged unknown"
)
BEHIND = {
    "g": {("orders-0", "no"), ("orders-1", "near"), ("orders-2", "far")},
    "shop": {("0_0", "near"), ("1_1", "far")},
}

DRAWN = "document.body.dataset.drawn"
PHONE = 390


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    with served(application()) as address:
        yield address


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("chromium") / "profile") as browser:
        yield browser


@pytest.fixture
def browser(tab: Browser) -> Browser:
    tab.size(1200, 900)
    return tab


def reported(page: str, path: str) -> Any:
    with urllib.request.urlopen(f"{page}api/{path}", timeout=10) as answer:  # noqa: S310 - a page of Bellwether
        return json.load(answer)


def opened(browser: Browser, page: str, name: str, drawn: str) -> str:
    """What people read of a group."""
    browser.open(f"{page}#{quote(name, safe='')}", f"{DRAWN} === '{drawn}'")
    return browser.text()


def squares(browser: Browser) -> list[dict[str, str]]:
    """Of partitions and copies, in the order of the document."""
    script = "[...document.querySelectorAll('#racks .item')].map(i => ({...i.dataset, kind: i.className}))"
    squares_drawn: list[dict[str, str]] = browser.run(script)
    return squares_drawn


@pytest.mark.parametrize("name", ["g", "shop"])
def test_the_page_draws_what_the_api_says(browser: Browser, page: str, name: str) -> None:
    picture = reported(page, f"groups/{name}")
    text = opened(browser, page, name, str(picture["generation"]))
    items = [item for holder in picture["holders"] for item in holder["items"]]
    drawn = squares(browser)
    kinds = sorted(f"item {i['state']}{' pending' * i['pending']} {i['name']}" for i in items)
    assert sorted(f"{cell['kind']} {cell['item']}" for cell in drawn) == kinds != []
    lags = sorted((i["name"], str(i["lag"])) for i in items if i["lag"] is not None)
    assert sorted((cell["item"], cell["lag"]) for cell in drawn if "lag" in cell) == lags
    active = {(o["item"], o["behind"]) for o in drawn if "lag" in o and not re.search("standby|warm-up", o["kind"])}
    assert active == BEHIND[name], "what members read is marked by its lag, beside local and cross-rack"
    assert any("standby" in cell["kind"] for cell in drawn) == (name == "shop")
    racks = browser.run("[...document.querySelectorAll('.rack')].map(r => r.dataset.rack)")
    assert set(racks) == {*picture["racks"], ""}
    assert browser.run("document.querySelectorAll('.holder').length") == len(picture["holders"])
    assert picture["cause"] in text
    assert f"lag 12,007 partitions of unknown lag 1 {LAG_FACTS}" in text
    assert f"{EVIL} is compacted" in text
    assert browser.run("document.title") == f"{name} · Bellwether", (
        "names that clients choose are text and nothing else"
    )


def test_a_group_that_nobody_has_refreshed_yet_says_so(browser: Browser, page: str) -> None:
    text = opened(browser, page, "watched", "none")
    assert "watched: observe, stable. Brokers have not shown it yet." in text


def test_a_group_that_is_none_of_bellwethers_says_so(browser: Browser, page: str) -> None:
    assert "This process neither leads nor observes a group nothing." in opened(browser, page, "nothing", "none")


def test_an_observed_group_shows_members_lags_costs_moves_and_rebalances_without_hovering(
    browser: Browser, page: str
) -> None:
    picture = reported(page, "groups/seen")
    text = opened(browser, page, "seen", "observed")
    cards = browser.run(
        "Object.fromEntries([...document.querySelectorAll('.holder')].map(h => [h.dataset.holder, h.innerText]))"
    )
    for holder in picture["holders"]:
        for item in holder["items"]:
            lag = "?" if item["lag"] is None else f"{item['lag']:,}"
            assert f"{item['name']} {lag}" in " ".join(cards[holder["name"]].split()), item
    assert "client b on 10.0.0.3, lag 12,007" in text
    assert "client a on 10.0.0.3, lag not known" in text
    assert set(browser.run("[...document.querySelectorAll('.rack')].map(r => r.dataset.rack)")) == {"az1", "az2", ""}
    assert "classic group, cannot be led: its broker assigns" in text
    assert f"lag 12,007 partitions of unknown lag 1 {LAG_FACTS}" in text
    assert f"{EVIL} is compacted" in text
    shadow = picture["observed"]["shadow"]
    for name, key in (("read from another rack", "cross_rack"), ("imbalance: most minus fewest", "spread")):
        assert f"{name} {shadow['current'][key]} {shadow['planned'][key]}" in text
    moves = shadow["moves"]
    assert f"Bellwether would move {moves['moved']}, keep {moves['kept']}, and give {moves['new']}" in text
    assert "Hypothetical, for the group cannot be led." in text
    for move in picture["moves"]:
        assert f"{move['item']} {move['source']} {move['target']} {move['reason']}" in text
    assert f"{EVIL} left or died 10 s so far not known not known not known" in text
    assert "b joined 10 to 30 s 1 2 3" in text
    assert "not known up to 10 s 4 0 0" in text
    assert "7 rebalances within 10 minutes." in text
    assert "at most 12,007, at least 0 records" in text
    for partition in picture["observed"]["lag_report"]["partitions"]:
        if partition["lag"]:
            assert f"{partition['topic']}-{partition['partition']} {partition['lag']:,}" in browser.text("#partitions")
    assert browser.run("document.title") == "seen · Bellwether", "names that clients choose are text and nothing else"


def test_what_an_observer_does_not_know_is_reported_to_be_unknown(browser: Browser, page: str) -> None:
    text = opened(browser, page, "unplanned", "observed")
    assert "no shadow plan: the brokers are silent" in text
    assert "Cost now and under Bellwether: not known, for want of a plan." in text
    assert "Bellwether would" not in text.replace("what Bellwether would assign", "")


def test_an_applied_plan_is_named(browser: Browser, page: str) -> None:
    assert APPLIED in opened(browser, page, "g", str(reported(page, "groups/g")["generation"]))


def test_a_group_that_is_not_led_says_why_and_what_to_do_without_hovering(browser: Browser, page: str) -> None:
    text = opened(browser, page, "lost", "none")
    assert "not leading: fenced since " in text
    assert "member:app-1: empty since" in text
    assert "guard on app-1 has ordered evacuate of member:app-1 in 'lost' (SIGTERM)" in text
    assert f"rack:az1: to be emptied; ann has ordered evacuate of rack:az1 in 'lost' ({EVIL})" in text
    assert "another process has our id Give each process an id." in text
    assert "Bellwether is to lead this group and does not" in text


# ---- the overview ----------------------------------------------------------------------------------------------------


def listed(browser: Browser) -> list[str]:
    names: list[str] = browser.run("[...document.querySelectorAll('#groups tbody tr')].map(r => r.dataset.group)")
    return names


def test_the_overview_lists_all_groups_as_the_api_orders_them_with_what_is_wrong(browser: Browser, page: str) -> None:
    rows = reported(page, "overview")
    browser.open(page, f"{DRAWN} === 'overview'")
    assert listed(browser) == [row["group"] for row in rows]
    assert listed(browser)[0] == "lost"
    assert sorted(listed(browser)) == sorted(group.group for group in GROUPS)
    for row in rows:
        text = browser.text(f"tr[data-group={json.dumps(row['group'])}]")
        lag = "not known" if row["lag"] is None else f"{row['lag']:,}"
        for shown in (row["group"], lag, *(finding["kind"].replace("_", " ") for finding in row["findings"])):
            assert shown in text, row
    assert f"{len(rows)} groups · 2 with something wrong" in browser.text("#summary")


def test_an_unknown_lag_is_a_gap_in_the_curve(browser: Browser, page: str) -> None:
    browser.open(page, f"{DRAWN} === 'overview'")
    path = browser.run("document.querySelector('tr[data-group=g] path').getAttribute('d')")
    assert [part.count("L") for part in path.split("M")[1:]] == [1, 1], "5 to 7, a gap, 9 to 3"
    assert browser.run("document.querySelector('tr[data-group=shop] path').getAttribute('d')") == ""


# ---- by keyboard, by address, on a phone -----------------------------------------------------------------------------


def test_a_group_is_found_and_opened_by_keyboard_alone(browser: Browser, page: str) -> None:
    browser.open(page, f"{DRAWN} === 'overview'")
    browser.press("/", *"observe")
    browser.until("document.querySelectorAll('#groups tbody tr').length === 4")
    rows = listed(browser)
    assert sorted(rows) == sorted(group.group for group in GROUPS if group.mode == "observe")
    assert "4 of 7 groups fit “observe”" in browser.text("#summary")
    browser.press("ArrowDown", "ArrowDown", "ArrowUp")
    assert browser.run("document.activeElement.id") == f"row-{rows[0]}"
    browser.press("ArrowDown", "Enter")
    browser.until(f"{DRAWN} !== 'overview'")
    assert browser.run("document.querySelector('h1').innerText") == rows[1]
    browser.press("Escape")
    browser.until(f"{DRAWN} === 'overview'")
    assert listed(browser) == rows, "the search is still there"
    browser.press("/", "Escape")
    browser.until(f"document.querySelectorAll('#groups tbody tr').length === {len(GROUPS)}")


def test_enter_in_the_search_opens_what_is_first(browser: Browser, page: str) -> None:
    browser.open(page, f"{DRAWN} === 'overview'")
    browser.press("/", *"unpl", "Enter")
    browser.until(f"{DRAWN} === 'observed'")
    assert browser.run("document.querySelector('h1').innerText") == "unplanned"


def test_an_address_leads_to_a_group_and_its_section_and_survives_a_reload(browser: Browser, page: str) -> None:
    for name in ("seen", LONG):
        opened(browser, page, name, "observed")
        browser.reload(f"{DRAWN} === 'observed'")
        assert browser.run("document.querySelector('h1').innerText") == name
    browser.size(1200, 300)
    browser.open(f"{page}#seen/rebalances", f"{DRAWN} === 'observed'")
    assert browser.run("scrollY") > 0
    browser.open(f"{page}?q=unpl", f"{DRAWN} === 'overview'")
    assert listed(browser) == ["unplanned"]
    browser.reload(f"{DRAWN} === 'overview'")
    assert listed(browser) == ["unplanned"]


@pytest.mark.parametrize("name", ["", "seen", "g", "shop", "lost", LONG])
def test_on_a_phone_nothing_is_wider_than_the_screen(browser: Browser, page: str, name: str) -> None:
    browser.size(PHONE, 844, phone=True)
    browser.open(f"{page}#{quote(name, safe='')}", DRAWN)
    assert browser.run("document.documentElement.scrollWidth") <= PHONE
    wide = f"[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > {PHONE + 0.5}"
    assert browser.run(f"{wide} && !e.closest('.unseen, thead')).map(e => e.outerHTML.slice(0, 90))") == []


def test_what_has_not_changed_is_not_drawn_again_and_the_focus_stays(
    browser: Browser, page: str, tmp_path: Path
) -> None:
    opened(browser, page, "seen", "observed")
    browser.run("document.querySelector('.holder').mark = 1; document.querySelector('#filter').focus()")
    browser.run("new Promise(done => setTimeout(done, 3500))")
    assert browser.run("document.querySelector('.holder').mark") == 1
    browser.press(*"b-1")
    browser.until("document.querySelectorAll('.holder').length === 1")
    assert browser.run("[document.activeElement.id, document.activeElement.value]") == ["filter", "b-1"]
    browser.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 10_000
