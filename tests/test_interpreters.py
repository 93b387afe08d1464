"""Every CPython that Skate promises to run on, where this machine has it, runs the examples and a small suite.

Each has an environment of its own: with the required packages alone for the examples, and with what the tests need for the
suite, which only `make test-interpreters` runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: "t" is the free-threaded build.
PROMISED = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.14t")
EXAMPLES = ("actors.py", "generators.py", "resources.py", "search.py")
#: Processes, the wire and the calls of every program. The tests of TLS need a package that makes certificates.
SUITE = (
    "tests/worker",
    "tests/wire",
    "--ignore=tests/wire/test_tls_channel.py",
    "tests/core/test_actors.py",
    "tests/core/test_objects.py",
    "tests/core/test_scheduler.py",
    "tests/conformance/test_actors.py",
    "tests/conformance/test_errors.py",
    "tests/conformance/test_generators.py",
    "tests/conformance/test_named_actors.py",
    "tests/conformance/test_tasks.py",
    "tests/conformance/test_wait.py",
)


def interpreter(version: str) -> str | None:
    """A working interpreter of this version: on the PATH, or among pyenv's or uv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", Path.home() / ".local/share/uv/python"))
    number, build = version.rstrip("t"), version.lstrip("0123456789.")
    free = "+freethreaded" if build else ""
    candidates = [
        shutil.which(f"python{version}"),
        *sorted(pyenv.glob(f"versions/{number}.*[0-9]{build}/bin/python3")),
        *sorted(uv.glob(f"cpython-{number}.*[0-9]{free}-linux-*/bin/python3")),
    ]
    for candidate in candidates:
        # pyenv's shims lie on the PATH for versions that are not selected, and fail when called.
        if (
            candidate
            and subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0
        ):
            return str(candidate)
    return None


@pytest.fixture(scope="module", params=PROMISED)
def python(request: pytest.FixtureRequest) -> str:
    """The interpreter of an environment with Skate and its required packages, built once per checkout."""
    version = request.param
    if f"{sys.version_info[0]}.{sys.version_info[1]}{sys.abiflags.replace('d', '')}" == version:
        pytest.skip(f"the rest of the suite runs on {version} already")
    base = interpreter(version)
    if base is None:
        pytest.skip(f"no Python {version} on this machine")
    return prepared(base, version, ".core")


def prepared(base: str, version: str, packages: str) -> str:
    """Build the environment of an interpreter with a set of packages, as the Makefile names it; return its interpreter."""
    environment = f".venv-{version}"
    done = subprocess.run(
        ["make", f"PYTHON={base}", f"VENV={environment}", f"{environment}/{packages}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"cannot set up {environment}:\n{done.stdout}\n{done.stderr}"
    return str(ROOT / environment / "bin" / "python")


# Setting an environment up counts against the first of its tests.
@pytest.mark.timeout(700)
@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_run(python: str, example: str) -> None:
    done = subprocess.run(
        [python, "-W", "error", str(ROOT / "examples" / example)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, f"{example}:\n{done.stdout}\n{done.stderr}"
    assert done.stderr == ""


@pytest.mark.interpreters
@pytest.mark.timeout(1300)
def test_the_small_suite_passes(python: str) -> None:
    version = Path(python).parents[1].name.removeprefix(".venv-")
    prepared(python, version, ".small")
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SUITE],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr}"
