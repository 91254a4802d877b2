"""Very large groups and very many: what is not drawn at once is counted, and can be had by a key or a word."""

from collections.abc import Iterator

import pytest

from tests.browser import Browser
from tests.unit.coordinator.web.large import GROUPS, LARGE, MEMBERS, PARTITIONS, TOPICS, application
from tests.unit.coordinator.web.shown import served

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

DRAWN = "document.body.dataset.drawn"
ELEMENTS_MAX = 5_000  # more take longer than people wait for
ELEMENTS = "document.querySelectorAll('*').length"
HOLDERS = "document.querySelectorAll('.lines details').length"


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    with served(application()) as address:
        yield address


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("chromium") / "profile") as tab:
        tab.size(1200, 900)
        yield tab


def test_a_group_of_two_thousand_members_is_drawn_in_parts_and_says_so(browser: Browser, page: str) -> None:
    browser.open(f"{page}#{LARGE}", f"{DRAWN} === 'observed'")
    assert browser.run(ELEMENTS) < ELEMENTS_MAX
    heads = browser.run("[...document.querySelectorAll('.rack h3')].map(h => h.innerText.replaceAll(',', ''))")
    counts = [[int(word) for word in head.split() if word.isdigit()] for head in heads]
    assert sum(members for members, *_ in counts) == MEMBERS
    assert sum(count for _, count, *_ in counts) == TOPICS * PARTITIONS
    assert "30 of 667 shown. Show all 667" in browser.text("#racks")
    assert "moves are listed" in browser.text("#plan")


def test_every_member_can_be_had(browser: Browser, page: str) -> None:
    browser.open(f"{page}#{LARGE}", f"{DRAWN} === 'observed'")
    before = browser.run(HOLDERS)
    browser.run("document.querySelector('#racks .more button').click()")
    browser.until(f"{HOLDERS} > {before}")
    assert browser.run("document.querySelectorAll('.rack')[0].querySelectorAll('details').length") == 667


def test_a_member_is_found_by_a_partition_of_it_and_opened(browser: Browser, page: str) -> None:
    browser.open(f"{page}#{LARGE}", f"{DRAWN} === 'observed'")
    browser.run("document.querySelector('#filter').focus()")
    browser.press(*"orders-49-199")
    browser.until(f"{HOLDERS} === 1")
    assert "consumer-1999 orders-49 195-199" in browser.text("#racks")
    browser.run("document.querySelector('.lines summary').focus()")
    browser.press("Enter")
    browser.until("document.querySelectorAll('.lines .entry').length === 5")
    assert "orders-49-199 199" in browser.text("#racks")


def test_a_thousand_groups_are_counted_and_the_last_is_found(browser: Browser, page: str) -> None:
    browser.open(page, f"{DRAWN} === 'overview'")
    assert browser.run(ELEMENTS) < ELEMENTS_MAX
    assert f"{GROUPS:,} groups · 10 with something wrong" in browser.text("#summary")
    assert f"100 of {GROUPS:,} shown. Show all {GROUPS:,}" in browser.text("main")
    browser.press("/", *"team-1-orders-0001")
    browser.until("document.querySelectorAll('#groups tbody tr').length === 1")
    browser.press("Escape")
    browser.until("document.querySelectorAll('#groups tbody tr').length === 100")
    browser.run("document.querySelector('main .more button').click()")
    browser.until(f"document.querySelectorAll('#groups tbody tr').length === {GROUPS}")
