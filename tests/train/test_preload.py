"""Workers of a run start with their framework loaded, and other workers do not wait for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate
from skate.train import RunConfig, ScalingConfig
from skate.train.backend import BackendConfig
from skate.train.data_parallel_trainer import DataParallelTrainer

pytestmark = pytest.mark.timeout(60)

#: A module that nothing loads by itself, in the place of a framework.
MODULE = "wave"


class Framework(BackendConfig):
    """Needs a module in its workers."""

    @property
    def preload(self) -> tuple[str, ...]:
        return (MODULE,)


@pytest.fixture(autouse=True)
def no_session() -> Iterator[None]:
    skate.shutdown()
    yield
    skate.shutdown()


def look() -> tuple[bool, int]:
    """Return True if the module is loaded, and the process that this one was forked from."""
    return "wave" in sys.modules, os.getppid()


def fit(tmp_path: Path, **run: Any) -> tuple[bool, int]:
    found: tuple[bool, int] = (
        DataParallelTrainer(
            look,
            backend_config=Framework(),
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(name="run", storage_path=str(tmp_path), **run),
        )
        .fit()
        .return_value
    )
    return found


def test_a_session_that_runs_forks_such_workers_from_a_process_of_their_own(tmp_path: Path) -> None:
    skate.init(num_cpus=2)
    plain = skate.get(skate.remote(look).remote())
    first, second = fit(tmp_path), fit(tmp_path)
    assert plain[0] is False and first[0] is True
    assert first == second, "it is loaded once for all runs"
    assert first[1] != plain[1]


def test_variables_of_the_run_s_own_stay(tmp_path: Path) -> None:
    skate.init(num_cpus=2)

    def variable() -> str | None:
        return os.environ.get("OWN")

    result = DataParallelTrainer(
        variable,
        backend_config=Framework(),
        run_config=RunConfig(
            name="run", storage_path=str(tmp_path), worker_runtime_env={"env_vars": {"OWN": "1"}}
        ),
    ).fit()
    assert result.return_value == "1"


def test_a_session_that_has_loaded_it_needs_no_other_process(tmp_path: Path) -> None:
    skate.init(num_cpus=2, preload=[MODULE])
    plain = skate.get(skate.remote(look).remote())
    assert fit(tmp_path) == plain and plain[0] is True


def test_a_run_that_starts_the_session_has_it_load(tmp_path: Path) -> None:
    found = fit(tmp_path)
    assert found[0] is True
    assert skate.get(skate.remote(look).remote()) == found


def test_what_cannot_be_loaded_is_told_and_the_run_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    skate.init(num_cpus=2)
    monkeypatch.setattr(Framework, "preload", ("no_such_framework",))
    assert fit(tmp_path)[0] is False
    assert "preload of 'no_such_framework' failed: ModuleNotFoundError" in capfd.readouterr().err
