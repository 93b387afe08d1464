"""Small charts of growth, one for each figure, on logarithmic axes: written as SVG by hand, readable on light and dark pages."""

from __future__ import annotations

import math
from xml.sax.saxutils import escape

COLUMNS, WIDTH, HEIGHT, TOP = 3, 290, 170, 44
LEFT, RIGHT, ABOVE, BELOW = 44, 16, 26, 30  # room around each chart

STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1f2328; }
  .title { font-size: 15px; font-weight: 600; } .axis { font-size: 10px; fill: #59636e; }
  .grid { stroke: #d1d9e0; } .now, .before { fill: none; stroke-width: 2; }
  .now { stroke: #2f7fc1; } .before { stroke: #c2603a; stroke-dasharray: 4 3; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .axis { fill: #9198a1; } .grid { stroke: #3d444d; }
    .now { stroke: #4c9be0; } .before { stroke: #d9825b; }
  }
"""


def draw(title: str, sizes: list[int], now: dict[str, list[float]], before: dict[str, list[float]]) -> str:
    """Return the whole document: a chart for each name, with its values by size, and those of before dashed."""
    rows = math.ceil(len(now) / COLUMNS)
    width, height = COLUMNS * WIDTH, TOP + rows * HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<text class="title" x="12" y="24">{escape(title)}</text>',
    ]
    values = [value for row in (*now.values(), *before.values()) for value in row]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    for number, (name, row) in enumerate(now.items()):
        x, y = number % COLUMNS * WIDTH, TOP + number // COLUMNS * HEIGHT
        parts += _chart(name, sizes, {"before": before.get(name, []), "now": row}, (low, high), (x, y))
    return "\n".join([*parts, "</svg>", ""])


def _chart(
    name: str, sizes: list[int], lines: dict[str, list[float]], decades: tuple[int, int], at: tuple[int, int]
) -> list[str]:
    low, high = decades
    left, right = at[0] + LEFT, at[0] + WIDTH - RIGHT
    top, bottom = at[1] + ABOVE, at[1] + HEIGHT - BELOW
    first, last = math.log10(sizes[0]), math.log10(sizes[-1])

    def x(size: float) -> float:
        return round(left + (right - left) * (math.log10(size) - first) / ((last - first) or 1), 1)

    def y(value: float) -> float:
        return round(bottom - (bottom - top) * (math.log10(value) - low) / (high - low), 1)

    parts = [f'<text x="{left}" y="{top - 10}">{escape(name)}</text>']
    for power in range(low, high + 1, 2):
        height = y(10.0**power)
        parts.append(f'<line class="grid" x1="{left}" y1="{height}" x2="{right}" y2="{height}"/>')
        parts.append(
            f'<text class="axis" x="{left - 6}" y="{height + 4}" text-anchor="end">{10.0**power:,g}</text>'
        )
    for size in sizes:
        parts.append(
            f'<text class="axis" x="{x(size)}" y="{bottom + 16}" text-anchor="middle">{size:,}</text>'
        )
    for kind, values in lines.items():
        points = " ".join(f"{x(size)},{y(value)}" for size, value in zip(sizes, values, strict=False))
        if points:
            parts.append(f'<polyline class="{kind}" points="{points}"/>')
    return parts
