"""Run the Python blocks of one page in order, as one program, and compare their output with the page.

    python page_program.py docs/tutorial.md

A ```text block right after a ```python block holds what that block prints; `...` stands for anything. A block behind the
comment `<!-- not run: REASON -->` is left out. The process is the program of the page: its blocks are in `__main__`.
"""

from __future__ import annotations

import contextlib as _contextlib
import doctest as _doctest
import io as _io
import re as _re
import sys as _sys
from pathlib import Path as _Path

_BLOCK = _re.compile(
    r"(?P<unrun><!-- not run: [^\n]+ -->\n+)?^```python\n(?P<code>.*?)^```$(?:\n+```text\n(?P<printed>.*?)^```$)?",
    _re.MULTILINE | _re.DOTALL,
)


def _run_page(page: _Path, replaced: dict[str, str]) -> int:
    text = page.read_text()
    count = 0
    for block in _BLOCK.finditer(text):
        if block["unrun"]:
            continue
        code = block["code"]
        for old, new in replaced.items():
            code = code.replace(old, new)
        line = text.count("\n", 0, block.start("code"))
        printed = _io.StringIO()
        with _contextlib.redirect_stdout(printed):
            # Blank lines in front: a traceback then names the line of the page.
            exec(compile("\n" * line + code, str(page), "exec"), globals())
        expected = block["printed"]
        if expected is not None:
            same = _doctest.OutputChecker().check_output(expected, printed.getvalue(), _doctest.ELLIPSIS)
            if not same:
                raise AssertionError(
                    f"{page.name}:{line + 1}: the block prints\n\n{printed.getvalue()}\nand the page says\n\n{expected}"
                )
        count += 1
    return count


if __name__ == "__main__":
    _page, *_pairs = _sys.argv[1:]
    _count = _run_page(_Path(_page), dict(pair.split("=", 1) for pair in _pairs))
    _sys.__stdout__.write(f"ran {_count} blocks\n")
