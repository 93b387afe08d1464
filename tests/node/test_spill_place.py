"""The place of spilled values: `init`, `_system_config` and the environment, their precedence, and rejected
settings."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from skate.core.memory.memory_plan import DISK_STRIDE
from skate.node.memory.overflow_file import overflow_files
from skate.node.settings import Settings
from skate.node.spill.spill_target import SpillPlace

FILES = {"type": "filesystem", "params": {"directory_path": "/a"}}
BOTH = {"type": "filesystem", "params": {"directory_path": ["/a", "/b"]}}
BUCKET = {"type": "smart_open", "params": {"uri": "s3://bucket/prefix"}}

SETTINGS: list[tuple[dict[str, Any], dict[str, str], SpillPlace]] = [
    ({}, {}, SpillPlace()),
    ({"object_spilling_directory": "/a"}, {}, SpillPlace(("/a",))),
    ({"object_spilling_directory": "s3://b/c"}, {}, SpillPlace(uri="s3://b/c")),
    ({"_system_config": {"object_spilling_directory": "/a"}}, {}, SpillPlace(("/a",))),
    ({"_system_config": {"object_spilling_config": json.dumps(FILES)}}, {}, SpillPlace(("/a",))),
    ({"_system_config": {"object_spilling_config": FILES}}, {}, SpillPlace(("/a",))),
    ({"_system_config": {"object_spilling_config": json.dumps(BOTH)}}, {}, SpillPlace(("/a", "/b"))),
    (
        {"_system_config": {"object_spilling_config": json.dumps(BUCKET)}},
        {},
        SpillPlace(uri="s3://bucket/prefix"),
    ),
    ({"_system_config": {"local_fs_capacity_threshold": 0.5}}, {}, SpillPlace(full_at=0.5)),
    ({"_system_config": {"automatic_object_spilling_enabled": False}}, {}, SpillPlace(enabled=False)),
    ({}, {"SKATE_OBJECT_SPILLING_DIRECTORY": "/a"}, SpillPlace(("/a",))),
    ({}, {"RAY_object_spilling_directory": "/a"}, SpillPlace(("/a",))),
    ({}, {"RAY_object_spilling_config": json.dumps(BUCKET)}, SpillPlace(uri="s3://bucket/prefix")),
    ({}, {"SKATE_LOCAL_FS_CAPACITY_THRESHOLD": "0.5"}, SpillPlace(full_at=0.5)),
    ({}, {"RAY_automatic_object_spilling_enabled": "false"}, SpillPlace(enabled=False)),
    ({"object_spilling_directory": "/a"}, {"SKATE_OBJECT_SPILLING_DIRECTORY": "/b"}, SpillPlace(("/a",))),
    ({"_temp_dir": "/t"}, {}, SpillPlace(("/t",))),
    ({"_temp_dir": "/t"}, {"SKATE_OBJECT_SPILLING_DIRECTORY": "/b"}, SpillPlace(("/b",))),
]

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"object_spilling_directory": 3}, "object_spilling_directory must be the path of a folder, got 3"),
    ({"object_spilling_directory": ["/a", "s3://b"]}, "one URL, or paths of folders"),
    ({"_system_config": "x"}, "_system_config must be a dict"),
    ({"_system_config": {"object_spilling_config": "{"}}, "object_spilling_config is not JSON"),
    ({"_system_config": {"object_spilling_config": '{"type": "tape"}'}}, '"type": "filesystem"'),
    ({"_system_config": {"object_spilling_config": {"type": "filesystem", "params": {}}}}, "directory_path"),
    (
        {"_system_config": {"local_fs_capacity_threshold": 2}},
        "local_fs_capacity_threshold must be a fraction of the disk",
    ),
    ({"_system_config": {"automatic_object_spilling_enabled": "perhaps"}}, "true or false"),
    (
        {"object_spilling_directory": "/a", "_system_config": {"object_spilling_config": FILES}},
        "pass only one",
    ),
]


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("object_spilling_directory", "object_spilling_config", "local_fs_capacity_threshold"):
        monkeypatch.delenv(f"SKATE_{name.upper()}", raising=False)
        monkeypatch.delenv(f"RAY_{name}", raising=False)


@pytest.mark.parametrize(("given", "environment", "place"), SETTINGS, ids=str)
def test_what_is_said_is_done(
    given: dict[str, Any], environment: dict[str, str], place: SpillPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert SpillPlace.of(given) == place
    assert Settings.of(None, given).spill == place


@pytest.mark.parametrize(("given", "text"), REFUSED, ids=str)
def test_what_cannot_be_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(text)):
        SpillPlace.of(given)


def test_the_folder_with_most_room_comes_first_and_nothing_is_left_in_any(tmp_path: Path) -> None:
    folders = tuple(str(tmp_path / name) for name in "ab")
    files = overflow_files(SpillPlace(folders))
    assert sorted(file.folder for file in files) == list(folders)
    assert all(0 < file.capacity <= DISK_STRIDE for file in files)
    assert not files[0].reserve(0, 1 << 20)
    for file in files:
        file.close()
    assert not list((tmp_path / "a").iterdir()) and not list((tmp_path / "b").iterdir())


def test_a_folder_that_cannot_be_written_to_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="file/below"):
        overflow_files(SpillPlace((str(tmp_path), str(tmp_path / "file" / "below"))))


def test_without_spilling_there_is_no_file() -> None:
    (file,) = overflow_files(SpillPlace(enabled=False))
    assert file.fd == -1 and file.capacity == 0
