"""Folders made into packages: what goes along, and that the same files make the same package."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skate.exceptions import RuntimeEnvSetupError
from skate.runtime_env.archives import unpack
from skate.runtime_env.package import content_hash, members, mib, module_members, pack

NAMES = st.text("abc.é ", min_size=1, max_size=4).filter(lambda name: name not in (".", ".."))
TREES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=3).map(tuple),
    st.tuples(st.binary(max_size=50), st.booleans()),
    max_size=6,
)


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def names(root: Path, *excludes: str) -> list[str]:
    return [member.name for member in members(str(root), excludes)]


def test_files_and_empty_folders_go_along(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "", "deep/b.py": ""})
    (tmp_path / "empty").mkdir()
    assert names(tmp_path) == ["a.py", "deep/b.py", "empty/"]


def test_what_is_left_out(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            ".gitignore": "*.log\n/build\n",
            ".rayignore": "secret\n",
            "a.log": "",
            "build/x": "",
            "secret": "",
            "deep/.gitignore": "!keep.log\n",
            "deep/keep.log": "",
            "deep/other.log": "",
            "deep/build/x": "",
            ".git/config": "",
            "venv/x": "",
            "__pycache__/x.pyc": "",
            "data/big": "",
            "a.py": "",
        },
    )
    assert names(tmp_path, "data/") == [
        *(".gitignore", ".rayignore", "a.py"),
        *("deep/.gitignore", "deep/build/x", "deep/keep.log"),
    ]
    assert "a.log" in names(tmp_path, "!a.log")
    assert "venv/x" in names(tmp_path, "!venv")


def test_links_are_followed_but_never_round_in_circles(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", {"x.txt": "out"})
    root = write(tmp_path / "root", {"deep/a.txt": "in"})
    (root / "link.txt").symlink_to(root / "deep" / "a.txt")
    (root / "shared").symlink_to(outside)
    (root / "deep" / "up").symlink_to(root)
    (root / "broken").symlink_to(root / "nothing")
    (root / "self").symlink_to(root / "self")
    os.mkfifo(root / "pipe")
    assert names(root) == ["deep/a.txt", "link.txt", "shared/x.txt"]
    pack(members(str(root)), tmp_path / "p.zip", "it")
    with zipfile.ZipFile(tmp_path / "p.zip") as archive:
        assert archive.read("shared/x.txt") == b"out"


def test_a_module_goes_under_its_own_name(tmp_path: Path) -> None:
    write(tmp_path, {"pkg/__init__.py": "", "pkg/sub/m.py": "", "pkg/x.log": "", "single.py": ""})
    listed = [member.name for member in module_members(f"{tmp_path}/pkg/", ["*.log"])]
    assert listed == ["pkg/__init__.py", "pkg/sub/m.py"]
    assert [member.name for member in module_members(str(tmp_path / "single.py"))] == ["single.py"]


def make_tree(root: Path, tree: dict[tuple[str, ...], tuple[bytes, bool]], order: int) -> None:
    root.mkdir()
    items = list(tree.items())
    for parts, (content, executable) in items[order:] + items[:order]:
        path = root.joinpath(*parts)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue  # one name both for a file and for a folder
        path.chmod(0o755 if executable else 0o600)
        os.utime(path, ns=(order, order * 10**9))


@settings(max_examples=60, deadline=None)
@given(TREES, st.integers(0, 5))
def test_the_same_files_make_the_same_archive(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[tuple[str, ...], tuple[bytes, bool]], order: int
) -> None:
    # Without names that exclude each other, so that the order of writing does not change what is there.
    tree = {
        parts: value for parts, value in tree.items() if not any(is_above(parts, other) for other in tree)
    }
    base = tmp_path_factory.mktemp("same")
    make_tree(base / "one", tree, 0)
    make_tree(base / "two", tree, order)
    one, two = members(str(base / "one")), members(str(base / "two"))
    hashes = {pack(one, base / "one.zip", "it"), pack(two, base / "two.zip", "it"), content_hash(one)}
    assert len(hashes) == 1
    assert (base / "one.zip").read_bytes() == (base / "two.zip").read_bytes()
    unpack(base / "one.zip", base / "back", source="it")
    again = members(str(base / "back"))
    assert content_hash(again) in hashes


def is_above(parts: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return len(other) > len(parts) and other[: len(parts)] == parts


def test_the_hash_tells_contents_names_and_modes_apart(tmp_path: Path) -> None:
    one = write(tmp_path / "one", {"a": "x", "b": "y"})
    seen = {content_hash(members(str(one)))}
    for change in (
        lambda: (one / "a").write_text("z"),
        lambda: (one / "a").rename(one / "c"),
        lambda: (one / "b").chmod(0o755),
        lambda: (one / "empty").mkdir(),
    ):
        change()
        key = content_hash(members(str(one)))
        assert key not in seen
        seen.add(key)


def test_files_that_did_not_change_are_not_read_again(tmp_path: Path) -> None:
    path = write(tmp_path, {"a": "one"}) / "a"
    os.utime(path, ns=(10**9, 10**9))
    before = content_hash(members(str(tmp_path)))
    path.write_text("two")
    os.utime(path, ns=(10**9, 10**9))
    assert content_hash(members(str(tmp_path))) == before, "same size, time and inode: taken as unchanged"
    os.utime(path, ns=(10**9, 10**9 + 1))
    assert content_hash(members(str(tmp_path))) != before


def test_a_file_that_changed_just_now_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path, {"a": "one"}) / "a"
    now = path.stat().st_mtime_ns
    before = content_hash(members(str(tmp_path)))
    path.write_text("two")
    os.utime(path, ns=(now, now))
    assert content_hash(members(str(tmp_path))) != before


def test_too_large_names_the_largest_files(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "big.bin").write_bytes(os.urandom(300_000))
    (root / "small.txt").write_text("x")
    with pytest.raises(RuntimeEnvSetupError) as caught:
        pack(
            members(str(root)), tmp_path / "p.zip", "runtime_env['working_dir'] = 'root'", limit_bytes=100_000
        )
    text = str(caught.value)
    assert "runtime_env['working_dir'] = 'root' is larger than a package may be: 2 files of 293.0 KiB" in text
    assert text.index("293.0 KiB  big.bin") < text.index("small.txt")
    assert "excludes" in text


def test_far_too_large_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with open(tmp_path / "sparse.bin", "wb") as file:
        file.truncate(2**40)
    with pytest.raises(RuntimeEnvSetupError, match=r"sparse\.bin"):
        pack(members(str(tmp_path)), tmp_path / "p.zip", "it")
    assert not (tmp_path / "p.zip").exists()


def test_what_compresses_well_may_be_larger_than_its_package(tmp_path: Path) -> None:
    (tmp_path / "zeros").write_bytes(b"\0" * 300_000)
    pack(members(str(tmp_path)), tmp_path.parent / f"{tmp_path.name}.zip", "it", limit_bytes=100_000)


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"locked": "x"})
    (tmp_path / "locked").chmod(0)
    with pytest.raises(RuntimeEnvSetupError, match="locked is to be shipped but cannot be read"):
        content_hash(members(str(tmp_path)))


def test_a_file_that_vanished_is_named(tmp_path: Path) -> None:
    listed = members(str(write(tmp_path / "root", {"gone": "x"})))
    (tmp_path / "root" / "gone").unlink()
    with pytest.raises(RuntimeEnvSetupError, match="gone is to be shipped but cannot be read"):
        pack(listed, tmp_path / "p.zip", "it")


def test_a_name_that_is_not_text_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with open(os.fsencode(root) + b"/\xff", "wb"):
        pass
    with pytest.raises(RuntimeEnvSetupError, match="its name is not UTF-8"):
        pack(members(str(root)), tmp_path / "p.zip", "it")


def test_sizes_for_people() -> None:
    assert [mib(0), mib(1536), mib(1024**2), mib(3 * 1024**3)] == [
        "0.0 KiB",
        "1.5 KiB",
        "1.0 MiB",
        "3072.0 MiB",
    ]
