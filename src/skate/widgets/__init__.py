"""Ray's HTML for notebooks, which Skate replaces with plain text.

The two names exist for programs that import them.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any


class Template:
    """Raises NotImplementedError: Skate has no HTML templates."""

    def __init__(self, file: str) -> None:
        raise NotImplementedError(
            f"Skate has no HTML template {file!r}: its objects are shown as text in notebooks"
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


__all__ = ["Template", "make_table_html_repr"]
