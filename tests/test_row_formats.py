"""Rows on the command line."""

from __future__ import annotations

import json

import pytest
import yaml

from skate.command.state.row_formats import formatted, yaml_text

ROWS = [
    {
        "name": "A.__init__", "id": "00ff", "number": 3, "time": 1e18, "none": None, "yes": True, "no": "no",
        "empty": {}, "list": [1, [2, []], {"a": [{"b": "c: d"}]}], "nested": {"CPU": 2.0, "node:1": {"x": "y"}},
        "text": "two\nlines", "odd": ["- a", "#", " x", "x ", "", "é", "1e5", "0x1", "true", "a: b", "a #b", "\x00", "a:"],
    },
    {"name": "b"},
]  # fmt: skip


@pytest.mark.parametrize("value", [ROWS, {}, [], 1, "x", [[]], {"a": []}, [float("inf"), -0.5]])
def test_yaml_is_read_as_it_was(value: object) -> None:
    assert yaml.safe_load(yaml_text(value)) == value


def test_formats() -> None:
    assert json.loads(formatted(ROWS, "json")) == ROWS
    assert yaml.safe_load(formatted(ROWS, "yaml")) == ROWS
    lines = formatted([{"a": 1, "b": "x"}], "default").splitlines()
    assert lines[-2].split() == ["A", "B"] and lines[-1].split() == ["0", "1", "x"] and "Total: 1" in lines
