"""Archives from anywhere: nothing in them reaches outside."""

from __future__ import annotations

import contextlib
import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skate.exceptions import RuntimeEnvSetupError
from skate.runtime_env.archives import unpack


def make_zip(path: Path, entries: list[tuple[str, str, int]]) -> Path:
    """Entries are name, content and Unix mode."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content, mode in entries:
            info = zipfile.ZipInfo(name)
            info.create_system = 3
            info.external_attr = mode << 16
            archive.writestr(info, content)
    return path


def make_tar(path: Path, infos: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for info, content in infos:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def tar_info(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    return info


FILE = stat.S_IFREG | 0o644
LINK = stat.S_IFLNK | 0o777


def tree(root: Path) -> dict[str, str]:
    return {str(p.relative_to(root)): p.read_text() for p in sorted(root.rglob("*")) if p.is_file()}


def test_zip(tmp_path: Path) -> None:
    entries = [
        ("a/b.txt", "b", FILE),
        ("run.sh", "x", stat.S_IFREG | 0o755),
        ("e/", "", stat.S_IFDIR | 0o755),
    ]
    entries += [("link", "a/b.txt", LINK), ("no_mode.txt", "n", 0)]
    unpack(make_zip(tmp_path / "x.zip", entries), tmp_path / "out", source="x.zip")
    out = tmp_path / "out"
    assert tree(out) == {"a/b.txt": "b", "link": "b", "no_mode.txt": "n", "run.sh": "x"}
    assert (out / "e").is_dir()
    assert (out / "run.sh").stat().st_mode & 0o100
    assert not (out / "a/b.txt").stat().st_mode & 0o111


def test_tar(tmp_path: Path) -> None:
    infos = [
        (tar_info(".", tarfile.DIRTYPE), b""),
        (tar_info("./a/b.txt"), b"b"),
        (tar_info("run.sh", mode=0o755), b"x"),
        (tar_info("a/link", tarfile.SYMTYPE, "../run.sh"), b""),
        (tar_info("hard", tarfile.LNKTYPE, "./a/b.txt"), b""),
    ]
    unpack(make_tar(tmp_path / "x.tar.gz", infos), tmp_path / "out", source="x.tar.gz")
    assert tree(tmp_path / "out") == {"a/b.txt": "b", "a/link": "x", "hard": "b", "run.sh": "x"}
    assert (tmp_path / "out/run.sh").stat().st_mode & 0o100


@pytest.mark.parametrize(
    ("entries", "lifted"),
    [
        ([("top/a", "1", FILE), ("top/b/c", "2", FILE)], {"a": "1", "b/c": "2"}),
        ([("top/", "", stat.S_IFDIR | 0o755), ("top/a", "1", FILE)], {"a": "1"}),
        ([("top/a", "1", FILE), ("other/b", "2", FILE)], {"top/a": "1", "other/b": "2"}),
        ([("a", "1", FILE)], {"a": "1"}),
    ],
)
def test_a_single_folder_is_lifted(
    tmp_path: Path, entries: list[tuple[str, str, int]], lifted: dict[str, str]
) -> None:
    archive = make_zip(tmp_path / "x.zip", entries)
    unpack(archive, tmp_path / "out", source="x", lift_single_folder=True)
    assert tree(tmp_path / "out") == lifted


@pytest.mark.parametrize(
    "entries",
    [
        [("../evil", "x", FILE)],
        [("a/../../evil", "x", FILE)],
        [("/evil", "x", FILE)],
        [("pipe", "x", stat.S_IFIFO | 0o644)],
        [("link", "/etc/passwd", LINK)],
        [("link", "../outside", LINK)],
        [("a/link", "../../outside", LINK)],
        # Each of these looks harmless by its text, but the second passes through the first.
        [("d/e/deep", "../..", LINK), ("out", "d/e/deep/../outside", LINK)],
        [("out", "b", LINK), ("b", "c", LINK), ("c", "../outside", LINK)],
    ],
)
def test_what_reaches_outside_is_refused(tmp_path: Path, entries: list[tuple[str, str, int]]) -> None:
    (tmp_path / "outside").write_text("secret")
    archive = make_zip(tmp_path / "x.zip", entries)
    with pytest.raises(RuntimeEnvSetupError, match=r"x\.zip is not safe to unpack"):
        unpack(archive, tmp_path / "in" / "out", source="x.zip")
    assert not (tmp_path / "evil").exists()
    assert not (tmp_path / "in" / "evil").exists()


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    entries = [("link", "../outside", LINK), ("link/evil", "x", FILE)]
    with pytest.raises(RuntimeEnvSetupError, match="cannot be unpacked"):
        unpack(make_zip(tmp_path / "x.zip", entries), tmp_path / "out", source="x.zip")
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize(
    "info",
    [
        tar_info("../evil"),
        tar_info("/evil"),
        tar_info("link", tarfile.SYMTYPE, "/etc"),
        tar_info("device", tarfile.CHRTYPE),
        tar_info("pipe", tarfile.FIFOTYPE),
    ],
)
def test_tar_that_reaches_outside_is_refused(tmp_path: Path, info: tarfile.TarInfo) -> None:
    archive = make_tar(tmp_path / "x.tar.gz", [(info, b"")])
    with pytest.raises(RuntimeEnvSetupError, match="not safe to unpack"):
        unpack(archive, tmp_path / "out", source="x.tar.gz")


def test_a_name_that_comes_twice_is_refused(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        archive = make_zip(tmp_path / "x.zip", [("a", "1", FILE), ("a", "2", FILE)])
    with pytest.raises(RuntimeEnvSetupError, match="cannot be unpacked"):
        unpack(archive, tmp_path / "out", source="x.zip")


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_text("hello")
    with pytest.raises(RuntimeEnvSetupError, match="neither a zip nor a tar archive"):
        unpack(tmp_path / "x.zip", tmp_path / "out", source="x.zip")


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 400), st.binary(min_size=1, max_size=8))
def test_a_damaged_archive_is_unpacked_or_refused_but_never_anything_else(
    tmp_path_factory: pytest.TempPathFactory, at: int, noise: bytes
) -> None:
    base = tmp_path_factory.mktemp("damaged")
    archive = base / "x.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a/b.txt", "hello " * 50)
        made.writestr("c.txt", "x")
    content = bytearray(archive.read_bytes())
    content[at : at + len(noise)] = noise
    archive.write_bytes(content)
    with contextlib.suppress(RuntimeEnvSetupError):
        unpack(archive, base / "in" / "out", source="x.zip")
    assert {path.name for path in base.iterdir()} <= {"x.zip", "in"}
    assert not (base / "in").exists() or {path.name for path in (base / "in").iterdir()} == {"out"}
