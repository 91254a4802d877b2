"""One plain line chart with logarithmic axes, as SVG: text that can be reviewed, and no library for one picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 80, 170, 50, 60
COLOURS = ("#c0392b", "#8e44ad", "#2980b9", "#1e8449", "#7f8c8d")


@dataclass(frozen=True, slots=True)
class Line:
    """Points (x, y), all above zero."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class _Scale:
    """Powers of ten, `low` to `high`, onto pixels `start` to `end`."""

    low: int
    high: int
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (log10(value) - self.low) / (self.high - self.low) * (self.end - self.start)

    @property
    def ticks(self) -> list[int]:
        return list(range(self.low, self.high + 1))


def chart(title: str, x_name: str, y_name: str, lines: Sequence[Line]) -> str:
    """The picture as SVG; empty lines are left out."""
    shown = [line for line in lines if line.points]
    x = _scale([p[0] for line in shown for p in line.points], LEFT, WIDTH - RIGHT)
    y = _scale([p[1] for line in shown for p in line.points], HEIGHT - BOTTOM, TOP)
    body = [_text(LEFT, 28, title, size=16), *_axes(x, y)]
    body.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 16, x_name, anchor="middle"))
    body.append(_text(16, TOP - 8, y_name))
    for colour, line in zip(COLOURS, shown, strict=False):
        points = [(x(a), y(b)) for a, b in line.points]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        body.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        body += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" fill="{colour}"/>' for a, b in points]
        body.append(_text(points[-1][0] + 10, points[-1][1] + 4, line.name, colour=colour))
    inside = "\n".join(body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n{inside}\n</svg>\n'
    )


def _scale(values: Sequence[float], start: float, end: float) -> _Scale:
    low, high = floor(log10(min(values, default=1))), ceil(log10(max(values, default=10)))
    return _Scale(low, max(high, low + 1), start, end)


def _axes(x: _Scale, y: _Scale) -> list[str]:
    drawn = []
    for tick in x.ticks:
        at = x(10**tick)
        drawn.append(f'<path d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#dddddd"/>')
        drawn.append(_text(at, HEIGHT - BOTTOM + 20, _number(tick), anchor="middle"))
    for tick in y.ticks:
        at = y(10**tick)
        drawn.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>')
        drawn.append(_text(LEFT - 10, at + 4, _number(tick), anchor="end"))
    return drawn


def _number(tick: int) -> str:
    return f"{10**tick:,}" if tick >= 0 else f"{10.0**tick:g}"


def _text(x: float, y: float, value: str, *, size: int = 13, anchor: str = "start", colour: str = "#222222") -> str:
    style = f'font-size="{size}" text-anchor="{anchor}" fill="{colour}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(value)}</text>'
