"""The files of npm packages in the repository: what VENDOR.toml says of them, and a comparison with npm.

`python -m tests.pages.vendored` asks npm for the packages and compares each file; `make vendor-check` does that.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "src/skate/dashboard/page/vendor", ROOT / "tests/pages/vendor")
RECORD = "VENDOR.toml"


class Vendored(NamedTuple):
    """A file here, the package and version that it is from, its path there, and its hash."""

    path: Path
    package: str
    version: str
    source: str
    sha256: str


def packages(folder: Path) -> list[dict[str, Any]]:
    """Return what the record of a folder says of each package."""
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib  # type: ignore[import-not-found,no-redef]
    found: list[dict[str, Any]] = tomllib.loads((folder / RECORD).read_text())["package"]
    return found


def files() -> Iterator[Vendored]:
    """Yield all files."""
    for folder in FOLDERS:
        for package in packages(folder):
            for file in package["file"]:
                yield Vendored(
                    folder / file["name"], package["name"], package["version"], file["from"], file["sha256"]
                )


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def main() -> int:
    """Compare all files with npm; return the exit status."""
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        archives: dict[str, Path] = {}
        for each in files():
            name = f"{each.package}@{each.version}"
            if name not in archives:
                packed = subprocess.run(
                    ["npm", "pack", "--silent", name], cwd=folder, check=True, capture_output=True, text=True
                )
                archives[name] = Path(folder) / packed.stdout.split()[-1]
            with tarfile.open(archives[name]) as archive:
                member = archive.extractfile(f"package/{each.source}")
                theirs = sha256_of(member.read()) if member is not None else "nothing"
            same = theirs == each.sha256 == sha256_of(each.path.read_bytes())
            wrong += not same
            print(f"{'same' if same else 'DIFFERS'}  {name} {each.source} -> {each.path.relative_to(ROOT)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
