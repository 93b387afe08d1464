"""Tables for notebooks. `Template` and `make_table_html_repr` are Ray's names, for programs that import them."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


class Template:
    """Raises NotImplementedError: Skate has no HTML templates."""

    def __init__(self, file: str) -> None:
        raise NotImplementedError(
            f"Skate has no HTML template {file!r}: its objects make their own HTML for notebooks"
        )


def make_table_html_repr(obj: Any, title: str | None = None, max_height: str = "none") -> str:
    """Return the attributes of an object, or the entries of a dict, as an HTML table of two columns."""
    entries = obj if isinstance(obj, Mapping) else vars(obj)
    rows = "".join(
        f"<tr><td>{html.escape(str(name))}</td><td>{html.escape(str(value))}</td></tr>"
        for name, value in entries.items()
    )
    heading = f"<h3>{html.escape(title)}</h3>" if title else ""
    style = f"max-height: {html.escape(max_height)}; overflow: auto"
    return f'{heading}<div style="{style}"><table>{rows}</table></div>'


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> str:
    """Return an HTML table.

    Args:
        columns: The names above the columns.
        rows: The cells of each row; numbers that are not whole are rounded to four digits.
        title: A heading; empty for none.
    """

    def line(kind: str, cells: Iterable[object]) -> str:
        texts = (f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in cells)
        return f"<tr>{''.join(f'<{kind}>{html.escape(text)}</{kind}>' for text in texts)}</tr>"

    heading = f"<h4>{html.escape(title)}</h4>" if title else ""
    body = "".join(line("td", row) for row in rows)
    return f"{heading}<table><thead>{line('th', columns)}</thead><tbody>{body}</tbody></table>"


__all__ = ["Template", "html_table", "make_table_html_repr"]
