"""The colours of the stylesheet: WCAG 2.1 AA, in the light and in the dark."""

import re
from collections.abc import Mapping

import pytest

from tests.paths import ROOT

TEXT, GRAPHIC = 4.5, 3.0  # success criteria 1.4.3 and 1.4.11
SURFACES = ("paper", "card")
ON_SURFACES = {"ink": TEXT, "dim": TEXT, "link": TEXT, "bad": TEXT, "warn": TEXT, "info": TEXT, "fine": TEXT}
ON_SURFACES |= dict.fromkeys(("local", "cross", "neutral", "standby", "warm", "late", "curve"), GRAPHIC)
PAIRS = [(name, surface, least) for name, least in ON_SURFACES.items() for surface in SURFACES]
PAIRS += [(name, f"{name}-tint", TEXT) for name in ("bad", "warn", "info")]
CSS = (ROOT / "coordinator" / "web" / "page" / "page.css").read_text(encoding="utf-8")
NO_TEXT = {"line"}  # what only separates
Scheme = Mapping[str, str]


def schemes() -> dict[str, Scheme]:
    """The variables of both blocks, by name."""
    light, dark = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
    colours = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in (light, dark))
    return dict(zip(("light", "dark"), colours, strict=True))


def luminance(colour: str) -> float:
    def linear(channel: int) -> float:
        share = channel / 255
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(colour[i : i + 2], 16)) for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(colour: str, other: str) -> float:
    darker, lighter = sorted((luminance(colour), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_the_formula_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("name", "surface", "least"), PAIRS)
def test_every_colour_is_visible_enough(scheme: str, name: str, surface: str, least: float) -> None:
    colours = schemes()[scheme]
    assert contrast(colours[name], colours[surface]) >= least


def test_every_colour_is_one_of_these() -> None:
    light, dark = schemes().values()
    judged = {name for pair in PAIRS for name in pair[:2]} | NO_TEXT
    assert light.keys() == dark.keys() == judged
    rules = re.sub(r":root \{.*?\}", "", CSS, flags=re.DOTALL)
    assert re.findall(r"#[0-9a-f]{3,6}\b|rgba?\(|hsl|opacity: 0?\.", rules) == [], "no colour stands outside"
    assert set(re.findall(r"var\(--([\w-]+)\)", rules)) <= judged
