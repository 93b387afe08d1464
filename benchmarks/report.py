"""The table of a run, in colour where rich is installed and plain where it is not."""

from __future__ import annotations

from benchmarks.figures import LIMITS, Figure, Values, show

HEADER = ["figure", "Skate", "Ray", "ratio", "limit", "reach", "met?"]
VERDICTS = {True: "yes", False: "no", None: ""}


def rows(shown: list[Figure], skate: Values, ray: Values, limits: Values) -> list[list[str]]:
    """The cells of each figure: `ratio` says how many times better than Ray, `limit` how far from it."""
    table = []
    for figure in shown:
        ours, limit = skate.get(figure.key), limits.get(figure.limit or "")
        off = figure.better(limit, ours)
        table.append(
            [
                figure.title,
                show(ours, figure.unit),
                show(ray.get(figure.key), figure.unit),
                times(figure.better(ours, ray.get(figure.key))),
                "" if limit is None else show(limit, figure.unit) + (f" ({times(off)})" if off else ""),
                figure.reach(),
                VERDICTS[figure.met(skate, ray, limits)],
            ]
        )
    return table


def times(factor: float | None) -> str:
    """A factor with as many digits as it deserves."""
    if factor is None:
        return ""
    return f"{factor:,.0f}x" if factor >= 20 else f"{factor:.1f}x" if factor >= 2 else f"{factor:.2f}x"


def print_table(shown: list[Figure], skate: Values, ray: Values, limits: Values) -> None:
    """Print the rows and, under them, the limits."""
    table = rows(shown, skate, ray, limits)
    if limits:
        known = [f"{title} {show(limits.get(key), unit)}" for key, (title, unit) in LIMITS.items()]
        below = "Limits of this machine: " + "; ".join(known) + "."
    else:
        below = ""
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print(plain(table))
        print(below)
        return
    drawn = Table(*HEADER, box=None)
    for column in drawn.columns[1:5]:
        column.justify = "right"
    styles = {"yes": "green", "no": "red", "": ""}
    for row in table:
        drawn.add_row(*row[:-1], f"[{styles[row[-1]]}]{row[-1]}[/]" if row[-1] else "")
    console = Console()
    # A pipe has no width of its own: rich would fold the table to 80 columns.
    if not console.is_terminal:
        console = Console(width=160)
    console.print(drawn)
    console.print(below, highlight=False)


def plain(table: list[list[str]]) -> str:
    """The table as aligned text."""
    lines = [HEADER, *table]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if 1 <= column <= 4 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
