"""The contract of the public API, run on Skate (the default) or unchanged on Ray itself.

``SKATE_CONFORMANCE_TARGET`` names the package under test. The test files say ``import ray``; on Skate
the name is an alias, installed here before any of them is imported. With real Ray in a virtual environment:

    SKATE_CONFORMANCE_TARGET=ray python -m pytest -W ignore tests/conformance

``SKATE_CONFORMANCE_ATTACHED=1`` has the drivers join nodes in processes of their own (``skate start``) instead of hosting them.
With ``member``, such a node joins a cluster whose head is another node, without CPUs: all that the head decides then comes
over the network.
"""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from waiting import Gate, Tally

TARGET = os.environ.get("SKATE_CONFORMANCE_TARGET", "skate")
ON_SKATE = TARGET == "skate"
ATTACHED = ON_SKATE and os.environ.get("SKATE_CONFORMANCE_ATTACHED") in ("1", "member")
MEMBER = ON_SKATE and os.environ.get("SKATE_CONFORMANCE_ATTACHED") == "member"
#: Settings that are the node's, by the flag of `skate start` that says them.
OF_THE_NODE = (
    "num_cpus", "num_gpus", "object_store_memory", "_memory", "resources", "labels", "object_spilling_directory",
    "_node_name",
)  # fmt: skip

HERE = pathlib.Path(__file__).parent

# Workers import what the tests pass by reference (gates, classes at module level) from here.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [*map(str, (HERE, HERE.parent.parent)), *filter(None, [os.environ.get("PYTHONPATH")])]
)

if ON_SKATE:
    importlib.import_module("skate.compat").install()
else:
    # A worker pool that is asked for GPUs on a machine without any warns about a coming default.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray  # noqa: E402  (the alias must be in place first)

QUIET: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "num_gpus": 0}
if not ON_SKATE:
    # Other clusters on this machine must not be joined by mistake.
    QUIET["address"] = "local"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "chosen_difference(reason, id): Skate departs from Ray here on purpose; not run on other targets",
    )
    if not ON_SKATE:
        # What Ray itself warns about is not under test here.
        config.addinivalue_line("filterwarnings", "ignore")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        difference = item.get_closest_marker("chosen_difference")
        if difference is None:
            continue
        if not difference.args or "id" not in difference.kwargs:
            raise pytest.UsageError(f"{item.nodeid}: chosen_difference needs a reason and id='D-...'")
        if not ON_SKATE:
            why = f"{difference.kwargs['id']}: {difference.args[0]}"
            item.add_marker(pytest.mark.skip(reason=why))


class Host:
    """Starts the cluster that a test asks for and keeps it while the next test asks for the same."""

    def __init__(self) -> None:
        self._running_with: dict[str, Any] | None = None
        self._has_head = False

    def start(self, **options: Any) -> Any:
        """Start a cluster unconditionally; ``options`` go to ``init`` over the suite's quiet defaults."""
        given = options = QUIET | options
        if ATTACHED and not options.get("local_mode") and "address" not in options:
            self._skate("stop")
            options = dict(options)
            flags = ["start", *(self._join() if MEMBER else ["--head"])]
            for name in OF_THE_NODE:
                value = options.pop(name, None)
                if value is not None:
                    text = json.dumps(value) if isinstance(value, dict) else str(value)
                    flags += [f"--{name.lstrip('_').replace('_', '-')}", text]
            if not self._skate(*flags):  # what is wrong with them is for init to say
                return ray.init(**given)
            options["address"] = "auto"
        return ray.init(**options)

    def _join(self) -> list[str]:
        """Start a head, if there is none yet; return the flags with which a node joins its cluster."""
        folder = pathlib.Path(tempfile.gettempdir()) / "head"
        here = ["--node-ip-address", "127.0.0.1"]
        if not self._has_head:
            self._has_head = True
            self._skate("start", "--head", "--port", "0", "--num-cpus", "0", *here, "--temp-dir", str(folder))
        token = str(folder / "cluster-token")
        return [f"--address={(folder / 'cluster').read_text()}", "--token-file", token, *here]

    def _skate(self, *words: str) -> bool:
        os.environ["SKATE_TMPDIR"] = str(pathlib.Path(tempfile.gettempdir()) / "attached")
        done = subprocess.run([sys.executable, "-m", "skate", *words], stdout=subprocess.DEVNULL)
        return done.returncode == 0

    def ensure(self, **options: Any) -> None:
        """Have a running cluster with exactly these options, reusing the present one when it fits."""
        if self._running_with == options and ray.is_initialized():
            return
        self.stop()
        self.start(**options)
        self._running_with = options

    def stop(self) -> None:
        self._running_with = None
        ray.shutdown()
        if ATTACHED:
            self._skate("stop")
        if self._has_head:
            self._has_head = False
            self._skate("stop", "--temp-dir", str(pathlib.Path(tempfile.gettempdir()) / "head"))


_host = Host()


@pytest.fixture(autouse=True, scope="module")
def own_cluster() -> Iterator[None]:
    """End with each module the cluster that it used; what is left then is checked by tests/conftest.py."""
    yield
    _host.stop()


if not ON_SKATE:
    # Leaving nothing behind is a promise of Skate's alone: these take the place of its checks.
    @pytest.fixture(scope="session")
    def nothing_left_by_the_run() -> None:
        pass

    @pytest.fixture(scope="module")
    def nothing_left_by_the_module() -> None:
        pass

    @pytest.fixture
    def nothing_left_by_the_test() -> None:
        pass


@pytest.fixture
def cluster() -> None:
    """A node with two CPUs and no GPU, shared by the tests of a module that ask for it."""
    _host.ensure(num_cpus=2)


@pytest.fixture
def gpus() -> None:
    """A node with four CPUs and two (logical) GPUs, shared by the tests of a module that ask for it."""
    _host.ensure(num_cpus=4, num_gpus=2)


@pytest.fixture
def short_of_memory() -> int:
    """A node with two CPUs and as little shared memory as there can be; the value is the bytes of it."""
    store = 78_643_200
    _host.ensure(num_cpus=2, object_store_memory=store)
    return store


@pytest.fixture
def fresh() -> Iterator[Callable[..., Any]]:
    """Nothing runs before and after the test; the value starts a cluster, quietly: ``fresh(num_cpus=1)``."""
    _host.stop()
    yield _host.start
    _host.stop()


@pytest.fixture
def script(tmp_path: pathlib.Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program of its own to its end: ``script("import ray; ...", VARIABLE="value").stdout``.

    ``START`` in its text stands for the options that every cluster of the suite is started with.
    """

    def run(text: str, timeout_s: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
        options = ", ".join(f"{name}={value!r}" for name, value in QUIET.items())
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(text).replace("START", options))
        return subprocess.run(
            [sys.executable, *(["-m", "skate"] if ON_SKATE else []), str(path)],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )

    return run


@pytest.fixture
def gate(tmp_path: pathlib.Path) -> Iterator[Callable[[str], Gate]]:
    """Makes named signals between this process and tasks: ``gate("started")``."""
    made: list[Gate] = []

    def make(name: str) -> Gate:
        made.append(Gate(tmp_path / name))
        return made[-1]

    yield make
    for each in made:
        # A test that failed half way must not leave tasks that hold the CPUs of the next one.
        each.open()


@pytest.fixture
def tally(tmp_path: pathlib.Path) -> Callable[[str], Tally]:
    """Makes named counters that tasks add to and the test reads: ``tally("attempts")``."""
    return lambda name: Tally(tmp_path / name)
