"""Profiles as a table, a flame graph (SVG), collapsed stacks, or a file for https://speedscope.app."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from skate.client.profiler.reporter import MEMORY
from skate.util.profiling.requests import Profile

WIDTH, ROW_HEIGHT, LETTER_WIDTH = 1200, 17, 6.6
#: Narrower frames are left out, in pixels; narrower ones than the second have no text.
WIDTH_MIN, TEXT_WIDTH_MIN = 0.4, 24
ENTRIES = 20


class _Frame:
    __slots__ = ("below", "weight")

    def __init__(self) -> None:
        self.weight = 0
        self.below: dict[str, _Frame] = {}


class _Box(NamedTuple):
    x: float
    depth: int
    width: float
    name: str
    weight: int


def amount(weight: float, mode: str) -> str:
    """Return a weight with its unit."""
    return f"{weight / 2**20:.2f} MiB" if mode == MEMORY else f"{weight / 1e6:.2f} s"


def table(profiles: Sequence[Profile], mode: str, entries: int = ENTRIES) -> str:
    """Return the frames of all profiles as text, those first at which most is spent."""
    own: dict[str, int] = {}
    whole: dict[str, int] = {}
    for profile in profiles:
        for frames, weight in profile.samples.stacks:
            own[frames[-1]] = own.get(frames[-1], 0) + weight
            for frame in set(frames):
                whole[frame] = whole.get(frame, 0) + weight
    total = sum(own.values()) or 1
    lines = [f"{'here':>10} {'%':>5} {'with calls':>10} {'%':>5}  function (file:line)"]
    for frame in sorted(whole, key=lambda each: (-own.get(each, 0), -whole[each]))[:entries]:
        here, all_of_it = own.get(frame, 0), whole[frame]
        lines.append(
            f"{amount(here, mode):>10} {100 * here / total:>5.1f} "
            f"{amount(all_of_it, mode):>10} {100 * all_of_it / total:>5.1f}  {frame}"
        )
    return "\n".join(lines)


def collapsed(profiles: Sequence[Profile]) -> str:
    """Return one line for each stack, as flamegraph.pl and its kind read them: frames with semicolons, a space, the weight."""
    return "".join(
        f"{';'.join(frame.replace(';', ',') for frame in [profile.title, *frames])} {weight}\n"
        for profile in profiles
        for frames, weight in profile.samples.stacks
    )


def speedscope(profiles: Sequence[Profile], mode: str) -> str:
    """Return the profiles in the file format of speedscope, one for each process."""
    numbers: dict[str, int] = {}
    shown = []
    for profile in profiles:
        stacks = profile.samples.stacks
        weights = [weight for _, weight in stacks]
        shown.append(
            {
                "type": "sampled",
                "name": profile.title,
                "unit": "bytes" if mode == MEMORY else "microseconds",
                "startValue": 0,
                "endValue": sum(weights),
                "samples": [
                    [numbers.setdefault(frame, len(numbers)) for frame in frames] for frames, _ in stacks
                ],
                "weights": weights,
            }
        )
    return json.dumps(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "exporter": "skate",
            "shared": {"frames": [{"name": name} for name in numbers]},
            "profiles": shown,
        }
    )


def svg(profiles: Sequence[Profile], mode: str) -> str:
    """Return a flame graph: the outermost frames on top, widths by weight; a pointer over a frame shows all of its text."""
    root = _merged(profiles)
    total = root.weight or 1
    boxes = list(_boxes(root, 0.0, WIDTH / total, 0))
    depth = max((box.depth for box in boxes), default=0)
    height = (depth + 3) * ROW_HEIGHT
    what = {MEMORY: "memory still held"}.get(mode, f"{mode} time")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="monospace" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="4" y="13">{escape(amount(root.weight, mode))} of {what} in {len(profiles)} processes</text>',
    ]
    for box in boxes:
        y = (box.depth + 1) * ROW_HEIGHT
        title = f"{box.name}: {amount(box.weight, mode)}, {100 * box.weight / total:.1f} %"
        parts.append(
            f'<g><title>{escape(title)}</title><rect x="{box.x:.1f}" y="{y}" width="{box.width:.1f}" '
            f'height="{ROW_HEIGHT - 1}" fill="{_colour(box.name)}"/>'
        )
        if box.width >= TEXT_WIDTH_MIN:
            text = box.name[: int((box.width - 4) / LETTER_WIDTH)]
            parts.append(f'<text x="{box.x + 2:.1f}" y="{y + 12}">{escape(text)}</text>')
        parts.append("</g>")
    return "".join([*parts, "</svg>\n"])


def _merged(profiles: Sequence[Profile]) -> _Frame:
    root = _Frame()
    for profile in profiles:
        for frames, weight in profile.samples.stacks:
            at = root
            at.weight += weight
            for name in [profile.title, *frames]:
                at = at.below.setdefault(name, _Frame())
                at.weight += weight
    return root


def _boxes(frame: _Frame, x: float, scale: float, depth: int) -> Iterator[_Box]:
    for name, below in sorted(frame.below.items()):
        width = below.weight * scale
        if width >= WIDTH_MIN:
            yield _Box(x, depth, width, name, below.weight)
            yield from _boxes(below, x, scale, depth + 1)
        x += width


def _colour(name: str) -> str:
    """Return a warm colour, the same for all lines of a file."""
    number = zlib.crc32(name.rpartition("(")[2].rpartition(":")[0].encode())
    return f"hsl({number % 55}, {70 + number // 64 % 20}%, {68 + number // 2048 % 12}%)"
