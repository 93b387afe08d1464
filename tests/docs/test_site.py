"""The documentation site builds without a warning, and every link in it leads to a page and a heading that exist.

`make site` checks the site it has built, whose folder is in SKATE_SITE. Elsewhere the pages are built without the
reference, which takes a minute.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]


class Page(HTMLParser):
    """The ids and the links of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = {""}
        self.links: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id" and value:
                self.ids.add(value)
            if name in ("href", "src") and value and tag in ("a", "img", "link", "script"):
                self.links.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if built := os.environ.get("SKATE_SITE"):
        return Path(built)
    for module in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(module)
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "--quiet",
        "--fail-on-warning",
        "--keep-going",
        "--tag",
        "quick",
    ]
    done = subprocess.run(
        [*command, "-d", str(folder / "doctrees"), str(ROOT / "docs"), str(folder / "html")],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    page = cache(Page)
    dead = []
    for path in sorted(site.rglob("*.html")):
        for link in page(path).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                dead.append(f"{path.relative_to(site)}: {link}")
            elif target.suffix == ".html" and unquote(parts.fragment) not in page(target).ids:
                dead.append(f"{path.relative_to(site)}: {link} (no such heading)")
    assert not dead, "\n".join(dead)


def test_every_page_of_the_documents_is_in_the_site_and_in_its_contents(site: Path) -> None:
    contents = (site / "index.html").read_text()
    pages = {
        path.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        for path in (ROOT / "docs").rglob("*.md")
    }
    missing = sorted(name for name in pages - {"index.html"} if f'href="{name}' not in contents)
    assert not missing, f"add {missing} to a toctree of docs/index.md"


def test_the_site_can_be_searched(site: Path) -> None:
    index = (site / "searchindex.js").read_text()
    assert re.search(r'"?placement"?:', index), "the index of the search knows no placement groups"
