"""Cases whose libraries (of S3, Delta, Lance, ...) keep threads and descriptors until their process ends;
each runs in a separate process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", ["s3_cases.py", "systems_cases.py"])
def test_cases(name: str) -> None:
    if name == "s3_cases.py":
        pytest.importorskip("moto.server", reason="the S3 tests need moto[server]")
        pytest.importorskip("s3fs")
    options = ["-q", "-rs", "--noconftest", "-p", "no:cacheprovider", "-W", "ignore"]
    command = [sys.executable, "-m", "pytest", *options, str(HERE / name)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    skipped = re.findall(r"^SKIPPED .*$", done.stdout, re.MULTILINE)
    unexpected = [line for line in skipped if "pylance is not installed" not in line]
    assert not unexpected, "what is skipped in there is seen by nobody: " + "; ".join(unexpected)
