"""`skate symmetric-run` on one machine, and the command lines that it refuses."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import skate
from skate.command import main

PROGRAM = """
import sys
import skate
skate.init()
nodes = skate.nodes()
assert skate.get(skate.remote(lambda: 7).remote()) == 7
print(len(nodes), skate.cluster_resources()["CPU"], sys.argv[1:])
sys.exit(int(sys.argv[1]))
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command with a folder of its own, as a user without a token."""
    kept = {name: value for name, value in os.environ.items() if "AUTH_TOKEN" not in name}
    path = str(Path(skate.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-m", "skate", "symmetric-run", *words], capture_output=True, text=True, timeout=90, check=False,
        env={**kept, "HOME": str(folder), "PYTHONPATH": path},
    )  # fmt: skip


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_head_runs_the_command_and_ends(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    where = tmp_path / "node"
    done = run(
        tmp_path, "--address", f"127.0.0.1:{free_port()}", "--temp-dir", str(where), "--num-cpus=2", "--num-gpus", "0",
        "--object-store-memory=100000000", "--", sys.executable, str(tmp_path / "program.py"), "3", "--min-nodes", "x y",
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "1 2.0 ['3', '--min-nodes', 'x y']" in done.stdout
    assert "the command has ended with 3" in done.stderr
    # The node has ended, too.
    status = subprocess.run(
        [sys.executable, "-m", "skate", "status", "--temp-dir", str(where)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert status.returncode == 1, status.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--", "true"], "--address"),
        (["--address", "a:1", "true"], "the command is missing"),
        (["--address", "a:1", "--head", "--", "true"], "--head is decided by symmetric-run"),
        (["--address", "a:1", "--port=3", "--", "true"], "--port is decided by symmetric-run"),
    ],
)
def test_command_lines_are_checked(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["symmetric-run", *words])
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--address", "127.0.0.1"], "must be HOST:PORT"),
        (["--address", "127.0.0.1:6379", "--min-nodes", "2"], "is every machine's own"),
    ],
)
def test_addresses_are_checked(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["symmetric-run", *words, "--", "true"]) == 1
    assert message in capsys.readouterr().err


def test_several_machines_need_a_token(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 1))  # no packet is sent
        own = probe.getsockname()[0]
    done = run(
        tmp_path,
        "--address",
        f"{own}:{free_port()}",
        "--min-nodes",
        "2",
        "--temp-dir",
        str(tmp_path / "n"),
        "--",
        "true",
    )
    assert done.returncode == 1
    assert "all machines need the same token. On machines with a common home folder" in done.stderr
