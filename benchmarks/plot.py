"""A horizontal bar chart on a log axis, written as SVG by hand; readable on light and dark pages."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, LABEL_WIDTH, VALUE_WIDTH = 880, 270, 80
ROW_HEIGHT, TOP, BOTTOM = 24, 52, 34

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328; }
  .title { font-size: 15px; font-weight: 600; }
  .axis { font-size: 11px; fill: #59636e; }
  .grid { stroke: #d1d9e0; } .one { stroke: #59636e; }
  .bar { fill: #2f7fc1; } .worse { fill: #c2603a; } .mark { stroke: #1f2328; stroke-width: 2; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .axis { fill: #9198a1; }
    .grid { stroke: #3d444d; } .one { stroke: #9198a1; }
    .bar { fill: #4c9be0; } .worse { fill: #d9825b; } .mark { stroke: #e6edf3; }
  }
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar from 1 to `factor`, the text at its right, and a mark at what it should reach."""

    label: str
    factor: float
    text: str
    mark: float | None = None


def draw(title: str, bars: list[Bar]) -> str:
    """The whole SVG document."""
    values = [value for bar in bars for value in (bar.factor, bar.mark) if value]
    low = math.floor(math.log10(min([1.0, *values])))
    high = max(low + 1, math.ceil(math.log10(max([1.0, *values]))))
    span = WIDTH - LABEL_WIDTH - VALUE_WIDTH

    def x(value: float) -> float:
        return round(LABEL_WIDTH + span * (math.log10(value) - low) / (high - low), 1)

    height = TOP + ROW_HEIGHT * len(bars) + BOTTOM
    floor = height - BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<text class="title" x="12" y="24">{escape(title)}</text>',
    ]
    for power in range(low, high + 1):
        at, kind = x(10.0**power), "one" if power == 0 else "grid"
        parts.append(f'<line class="{kind}" x1="{at}" y1="{TOP - 8}" x2="{at}" y2="{floor}"/>')
        parts.append(
            f'<text class="axis" x="{at}" y="{floor + 16}" text-anchor="middle">{10.0**power:g}x</text>'
        )
    for number, bar in enumerate(bars):
        parts += _row(bar, TOP + ROW_HEIGHT * number, x)
    return "\n".join([*parts, "</svg>", ""])


def _row(bar: Bar, top: int, x: Callable[[float], float]) -> list[str]:
    left, right = sorted((x(1.0), x(bar.factor)))
    kind = "bar" if bar.factor >= 1 else "worse"
    middle, width = top + 13, f"{max(right - left, 1):.1f}"
    drawn = [
        f'<text x="{LABEL_WIDTH - 10}" y="{middle}" text-anchor="end">{escape(bar.label)}</text>',
        f'<rect class="{kind}" x="{left}" y="{top + 1}" width="{width}" height="16" rx="2"/>',
        f'<text x="{WIDTH - 12}" y="{middle}" text-anchor="end">{escape(bar.text)}</text>',
    ]
    if bar.mark:
        at = x(bar.mark)
        drawn.append(f'<line class="mark" x1="{at}" y1="{top - 1}" x2="{at}" y2="{top + 19}"/>')
    return drawn
