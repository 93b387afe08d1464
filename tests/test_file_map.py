"""The map of the files is current, and each file says what it holds."""

from __future__ import annotations

import re

from tests import file_map


def test_the_map_of_the_files_is_current() -> None:
    assert file_map.MAP.read_text() == file_map.build(), "run python -m tests.file_map"


def test_every_file_says_what_it_holds() -> None:
    silent = [
        path.relative_to(file_map.ROOT).as_posix()
        for path in file_map.SOURCE.rglob("*.py")
        if path.read_text().strip() and not file_map.first_line(path)
    ]
    assert silent == []


def test_the_files_that_architecture_names_exist() -> None:
    text = (file_map.ROOT / "ARCHITECTURE.md").read_text()
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", text))
    places = (file_map.SOURCE, file_map.ROOT, file_map.ROOT / "tests" / "train")
    assert sorted(name for name in named if not any((place / name).exists() for place in places)) == []
