"""The cases of s3_cases.py, in a process of their own: the clients of S3 keep threads and descriptors until they end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).with_name("s3_cases.py")


def test_s3() -> None:
    pytest.importorskip("moto.server", reason="the S3 tests need moto[server]")
    pytest.importorskip("s3fs")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--noconftest",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore",
        str(CASES),
    ]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
