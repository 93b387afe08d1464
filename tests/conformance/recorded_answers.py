"""Answers of Ray to generated questions, kept in files; every target has to give the same.

``SKATE_CONFORMANCE_RECORD=1`` writes them, and only Ray's are the measure: run it with ``make conformance-ray``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "rllib" / "answers"
RECORDING = os.environ.get("SKATE_CONFORMANCE_RECORD") == "1"


def plain(value: Any) -> Any:
    """Return a value as JSON has it: arrays and tuples as lists, sets sorted, numbers rounded."""
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return int(value) if value.is_integer() else round(value, 5)
    return value if value is None or isinstance(value, bool | int | str) else type(value).__name__


def answer(question: Callable[[], Any]) -> Any:
    """Return what a call returned, or the name of the error that it raised."""
    try:
        return plain(question())
    except (IndexError, KeyError, ValueError, TypeError, AssertionError, NotImplementedError) as error:
        return f"raises {type(error).__name__}"


class Answers:
    """The recorded answers to the questions of one file.

    Args:
        name: Of the file, without its suffix.
    """

    def __init__(self, name: str) -> None:
        self.path = FOLDER / f"{name}.json"
        self.by_case: dict[str, list[Any]] = json.loads(self.path.read_text()) if self.path.exists() else {}

    def check(self, case: str, found: list[tuple[str, Any]]) -> None:
        """Compare pairs of question and answer with Ray's."""
        if RECORDING:
            self.by_case[case] = [list(pair) for pair in found]
            lines = [f"{json.dumps(key)}: {json.dumps(pairs)}" for key, pairs in sorted(self.by_case.items())]
            FOLDER.mkdir(exist_ok=True)
            self.path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        expected = self.by_case[case]
        assert [question for question, _ in found] == [question for question, _ in expected]
        for (question, mine), (_, theirs) in zip(found, expected, strict=True):
            assert mine == theirs, f"{case}: {question}\n  here: {mine}\n  Ray:  {theirs}"
