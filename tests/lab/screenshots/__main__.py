"""`python -m tests.lab.screenshots`: the pictures of the page in docs/guides/page.

`bellwether run` observes a varied fleet on brokers that only answer, for as long as verdicts need (six minutes); then
chromium opens the page as a desktop and as a phone have it.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from tests.browser import Browser
from tests.kit.processes import running
from tests.lab.screenshots.fleet import Varied, VariedBrokers
from tests.paths import ROOT

FOLDER = ROOT / "docs" / "guides" / "page"
COLOURS = 256  # a palette: a third of the size without a visible difference
MINUTES = 6.5


@dataclass(frozen=True, slots=True)
class Shot:
    """`address` is what follows the page's, `height` None for all of it."""

    name: str
    address: str
    width: int
    height: int
    scheme: str = "light"

    @property
    def phone(self) -> bool:
        return self.width < 500


SHOTS = (
    Shot("overview", "", 1280, 860),
    Shot("group", "#payments-settlement", 1280, 1500),
    Shot("overview-phone", "", 390, 844),
    Shot("group-phone", "#payments-settlement", 390, 844, "dark"),
)


def take(page: str, folder: Path) -> Iterator[str]:
    folder.mkdir(exist_ok=True)
    new_folder = tempfile.TemporaryDirectory(prefix="bellwether-", ignore_cleanup_errors=True)
    with new_folder as profile, Browser(Path(profile) / "profile") as browser:
        for shot in SHOTS:
            yield picture(browser, page, shot, folder / f"{shot.name}.png")


def picture(browser: Browser, page: str, shot: Shot, path: Path) -> str:
    """Takes one; returns its name and size."""
    browser.size(shot.width, shot.height, phone=shot.phone)
    browser.scheme(shot.scheme)
    browser.open(page + shot.address, "document.body.dataset.drawn")
    browser.screenshot(path)
    image = Image.open(path).convert("RGB")
    image.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)
    return f"{path.name}: {path.stat().st_size / 1e3:.0f} kB"


def main() -> int:
    argparse.ArgumentParser(prog="python -m tests.lab.screenshots", description=__doc__).parse_args()
    new_folder, size = tempfile.TemporaryDirectory(prefix="bellwether-fleet-"), Varied()
    with new_folder as folder, running(size, Path(folder), VariedBrokers, "*") as run:
        print(f"{size.groups} groups for {MINUTES} minutes at {run.page}", flush=True)
        time.sleep(60 * MINUTES)
        print(*take(run.page, FOLDER), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
