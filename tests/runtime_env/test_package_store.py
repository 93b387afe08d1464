"""The store of uploaded packages: names, limits, and what is visible when."""

from __future__ import annotations

from pathlib import Path

import pytest

from skate.runtime_env.package_store import PackageRefused, PackageStore, name_of

NAME = "_ray_pkg_0123456789abcdef.zip"


def test_a_package_appears_when_it_is_complete(tmp_path: Path) -> None:
    store = PackageStore(str(tmp_path))
    assert not store.exists(NAME) and store.size_bytes() == 0
    upload = store.upload(NAME)
    upload.write(b"one ")
    assert not store.exists(NAME)
    upload.write(b"two")
    assert upload.finish().read_bytes() == b"one two"
    upload.close()
    assert store.exists(NAME)
    assert [path.name for path in store.folder.iterdir()] == [NAME]
    assert store.folder.stat().st_mode & 0o077 == 0 == store.path(NAME).stat().st_mode & 0o077
    assert store.put(NAME, [b"the same contents, said the client"]).read_bytes() == b"one two"


def test_what_is_too_large_leaves_nothing(tmp_path: Path) -> None:
    store = PackageStore(str(tmp_path), limit_bytes=10, total_bytes=15)
    with pytest.raises(PackageRefused, match="larger than a package may be"):
        store.put(NAME, [b"x" * 6, b"x" * 5])
    store.put(NAME, [b"x" * 10])
    with pytest.raises(PackageRefused, match="does not fit"):
        store.put("other.whl", [b"x" * 6])
    assert [path.name for path in store.folder.iterdir()] == [NAME]


@pytest.mark.parametrize(
    "name", ["", ".zip", "../x.zip", "a/b.zip", ".hidden.zip", "x.txt", "x.zip\n", "a" * 300 + ".zip"]
)
def test_names_that_could_leave_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(PackageRefused, match="cannot be the name"):
        PackageStore(str(tmp_path)).path(name)


def test_the_name_in_a_uri() -> None:
    assert name_of(f"gcs://{NAME}") == NAME
    assert name_of(f"https://example.org/{NAME}") is None
