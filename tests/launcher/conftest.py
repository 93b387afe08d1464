"""Machines behind a fake `ssh` and `rsync`, which run each line here, in a home folder per machine, and record it."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

#: Appends its arguments to a file as JSON, then runs the remote line as the machine's user would.
SSH = """
import json, os, sys
words, root = sys.argv[1:], os.environ["FAKE_MACHINES"]
with open(os.path.join(root, "calls"), "a") as file:
    file.write(json.dumps(words) + "\\n")
at = 0
while words[at].startswith("-"):
    at += 1 if words[at] == "-tt" else 2
host = words[at].rpartition("@")[2]
if host == "10.0.0.99":
    print(f"ssh: connect to host {host} port 22: No route to host", file=sys.stderr)
    sys.exit(255)
home = os.path.join(root, host)
os.makedirs(home, exist_ok=True)
os.chdir(home)
os.environ.update(HOME=home, HOST=host)
os.execvp("sh", ["sh", "-c", " ".join(words[at + 1 :])])
"""
#: Copies between a path here and one below a machine's home folder.
RSYNC = """
import json, os, shutil, sys
words, root = sys.argv[1:], os.environ["FAKE_MACHINES"]
with open(os.path.join(root, "copies"), "a") as file:
    file.write(json.dumps(words) + "\\n")
def place(word):
    host, colon, path = word.partition(":")
    path = path.replace("~/", "")
    return os.path.join(root, host.rpartition("@")[2], path) if colon else word
source, target = map(place, words[words.index("--") + 1 :])
if source.endswith("/"):
    shutil.copytree(source, target, dirs_exist_ok=True)
else:
    shutil.copy(source, target)
"""
#: Records its arguments and what the launcher puts into the environment.
SKATE = """
import os, sys
shown = [os.environ["HOST"], *sys.argv[1:]]
with open(os.path.join(os.environ["FAKE_MACHINES"], "nodes"), "a") as file:
    print(" ".join(shown), "head=" + os.environ["RAY_HEAD_IP"], file=file)
with open(os.environ["SKATE_AUTH_TOKEN_PATH"]) as file:
    file.read()
print("skate", *sys.argv[1:])
sys.exit(os.environ.get("FAKE_HEALTH", 0) if sys.argv[1] == "health-check" else 0)
"""


@dataclass
class Machines:
    """The fake machines, and what has reached them."""

    root: Path

    def calls(self) -> list[list[str]]:
        """Return the arguments of each run of ssh."""
        return self._records("calls")

    def copies(self) -> list[list[str]]:
        """Return the arguments of each run of rsync."""
        return self._records("copies")

    def nodes(self) -> list[str]:
        """Return each run of skate: machine, arguments, and the head that it was given."""
        path = self.root / "nodes"
        return path.read_text().splitlines() if path.exists() else []

    def home(self, host: str) -> Path:
        """Return the home folder of a machine."""
        return self.root / host

    def _records(self, name: str) -> list[Any]:
        path = self.root / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    """Replace ssh, rsync and skate by fakes."""
    root, programs = tmp_path / "machines", tmp_path / "programs"
    root.mkdir()
    programs.mkdir()
    for name, text in (("ssh", SSH), ("rsync", RSYNC), ("skate", SKATE), ("tmux", "")):
        path = programs / name
        path.write_text(f"#!{sys.executable} -S\n{text}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_MACHINES", str(root))
    monkeypatch.setenv("HOME", str(tmp_path / "laptop"))
    # A profile of the system may replace PATH; the one of the user comes after it.
    for host in ("10.0.0.1", "10.0.0.2", "10.0.0.3"):
        (root / host).mkdir()
        (root / host / ".bash_profile").write_text(f"export PATH={programs}:$PATH\n")
    yield Machines(root)
