"""The checks of ``conftest.py`` themselves: a test that leaves something behind fails, and says what."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

# What is planted: (kind, program).
LEAKS = {
    "a thread": (
        "threads",
        """
        import threading
        threading.Thread(target=threading.Event().wait, name="skate-loop", daemon=True).start()
        """,
    ),
    "a memfd": (
        "descriptors",
        """
        import os
        os.memfd_create("arena")
        """,
    ),
    "a socket pair": (
        "descriptors",
        """
        import socket
        keep.extend(socket.socketpair())
        """,
    ),
    "a pipe": (
        "descriptors",
        """
        import os
        os.pipe()
        """,
    ),
    "a poller": (
        "descriptors",
        """
        import select
        keep.append(select.epoll())
        """,
    ),
    "an eventfd": (
        "descriptors",
        """
        import os
        os.eventfd(0)
        """,
    ),
    "a child": (
        "processes",
        """
        import subprocess, sys
        program = [sys.executable, "-c", "import sys; sys.stdin.read()"]
        keep.append(subprocess.Popen(program, stdin=subprocess.PIPE))
        """,
    ),
    "an orphan in a session of its own": (
        "processes",
        """
        import subprocess, sys
        waits = "import time; time.sleep(3)"
        starts = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {waits!r}], start_new_session=True)"
        subprocess.run([sys.executable, "-c", starts], check=True)
        """,
    ),
    "a temporary file": (
        "files",
        """
        import tempfile
        open(tempfile.gettempdir() + "/skate-session", "w").close()
        """,
    ),
    "a segment of shared memory": (
        "files",
        """
        import atexit, os
        path = f"/dev/shm/skate-{os.getpid()}"
        open(path, "w").close()
        atexit.register(os.unlink, path)
        """,
    ),
}


def run(folder: Path, body: str) -> subprocess.CompletedProcess[str]:
    """A pytest of its own over one test, under the conftest of this folder with a short grace."""
    test = folder / "test_one.py"
    test.write_text(
        "keep = []\n\ndef test_one():\n"
        + textwrap.indent(textwrap.dedent(body), "    ")
        + "\n    assert True\n"
    )
    (folder / "pytest.ini").write_text("[pytest]\n")
    code = (
        "import conftest, pytest, sys; conftest.GRACE_S = 0.2; "
        "sys.exit(pytest.main(['-q', '-p', 'conftest', sys.argv[1]]))"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "SKATE_"))}
    return subprocess.run(
        [sys.executable, "-c", code, str(test)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        env={**environment, "PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS.parent}"},
        check=False,
    )


@pytest.mark.parametrize("what", LEAKS)
def test_what_a_test_leaves_behind_fails_it(what: str, tmp_path: Path) -> None:
    kind, body = LEAKS[what]
    done = run(tmp_path, body)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "left behind" in done.stdout
    assert f"  {kind}: " in done.stdout


def test_a_test_that_leaves_nothing_passes(tmp_path: Path) -> None:
    done = run(tmp_path, "import tempfile\nwith tempfile.TemporaryFile() as file:\n    file.write(b'x')")
    assert done.returncode == 0, done.stdout + done.stderr
