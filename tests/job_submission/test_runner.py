"""The process that runs the command of a job, alone: its requests and its reports."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

#: Runs `Command` with requests that are all there before it reads the first, and prints its reports.
PROGRAM = """
import os, socket, sys
from skate.job_submission.runner import Command
here, there = socket.socketpair()
here.sendall(sys.argv[1].encode())
Command(there).run()
there.close()
sys.stdout.write(here.makefile().read())
"""


def test_a_stop_that_comes_together_with_the_request_ends_the_command(tmp_path: Path) -> None:
    log = str(tmp_path / "job.log")
    run: dict[str, Any] = {
        "job": "one",
        "command": "sleep 1005",
        "env": {},
        "cwd": None,
        "log": log,
        "limit_bytes": 1 << 13,
    }
    stop = {"signal": int(signal.SIGTERM), "seconds": 30.0}
    requests = "".join(json.dumps(each) + "\n" for each in (run, stop))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, requests], capture_output=True, text=True, timeout=60, check=True
    )
    started, ended = map(json.loads, done.stdout.splitlines())
    assert started["pid"] > 0 and ended == {"status": -signal.SIGTERM}
