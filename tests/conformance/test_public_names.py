"""Every public name of Ray's is here with its signature, or in `names/absent.py` with the reason why not."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest
from names.absent import ABSENT
from names.comparison import differences

TARGET = os.environ.get("SKATE_CONFORMANCE_TARGET", "skate")
HERE = pathlib.Path(__file__).parent / "names"
TABLE: dict[str, dict[str, Any]] = json.loads((HERE / "table.json").read_text())
PATTERNS = {each: re.compile(re.escape(each).replace(r"\*", ".*")) for each in ABSENT}


@functools.cache
def found_modules() -> dict[str, Any]:
    """The names of the target; a process of its own imports all the modules."""
    ended = subprocess.run(
        [sys.executable, HERE / "make_table.py", TARGET, HERE / "table.json"],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=110,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@functools.cache
def found(module: str) -> dict[str, str]:
    """The differences in a module."""
    return dict(differences(module, TABLE[module], found_modules()[module]))


@pytest.mark.parametrize("module", TABLE)
def test_names_and_signatures_of(module: str) -> None:
    undeclared = [
        f"{name}: {why}"
        for name, why in found(module).items()
        if not any(pattern.fullmatch(name) for pattern in PATTERNS.values())
    ]
    assert not undeclared, "\n".join(undeclared)


@pytest.mark.skipif(TARGET != "skate", reason="the list says what Skate lacks")
def test_what_is_declared_absent_is_absent() -> None:
    names = {name for module in TABLE for name in found(module)}
    stale = [each for each in ABSENT if not any(map(PATTERNS[each].fullmatch, names))]
    assert not stale, f"these are here by now, so take them off the list: {stale}"
