"""Values nested so deeply that Arrow's reader would end the process are an error that names the file."""

from __future__ import annotations

from pathlib import Path

import pytest

import skate.data
from skate.data.source.formats.json import DEPTH_MAX, is_too_deep


@pytest.mark.parametrize(
    "text",
    [b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b'{"a":' + b"[\n" * 100_000 + b"]" * 100_000 + b"}"],
    ids=["a line", "lines"],
)
def test_a_deep_value_ends_no_driver(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "x.jsonl").write_bytes(text)
    with pytest.raises(ValueError, match=r"x\.jsonl: values are nested more than"):
        skate.data.read_json(str(tmp_path)).count()


def test_a_deep_array_ends_no_driver(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b'[{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}]")
    with pytest.raises(ValueError, match="nested too deeply"):
        skate.data.read_json(str(tmp_path)).count()


def test_what_is_too_deep() -> None:
    most = b"[" * DEPTH_MAX + b"]" * DEPTH_MAX
    assert not is_too_deep(most)
    assert is_too_deep(b"[" + most + b"]")
    assert not is_too_deep(b"[1]\n" * DEPTH_MAX * 3)
    assert not is_too_deep(b'{"a": "' + b"[" * 3 * DEPTH_MAX + b'"}')
    assert is_too_deep(b'{"a": "' + b"]" * 3 * DEPTH_MAX + b'", "b": [' + most + b"]}")
