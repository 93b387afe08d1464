"""Shared fixtures of tests of libraries in workers: a node of two CPUs, and runs that keep their files."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import skate

# Read by libraries when workers load them: one thread each, as there are two CPUs, and nothing from the network.
QUIET = {
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
}


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[None]:
    """A node with two CPUs whose workers preload the modules in the test module's `PRELOAD`."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in QUIET.items():
            patch.setenv(name, value)
        patch.setenv("PYTHONWARNINGS", "ignore")
        wanted = getattr(request.module, "PRELOAD", ["torch"])
        present = [name for name in wanted if importlib.util.find_spec(name.partition(".")[0]) is not None]
        skate.init(num_cpus=2, num_gpus=0, preload=present)
        yield
        skate.shutdown()


@pytest.fixture
def fit(cluster: None, tmp_path: Path) -> Callable[..., Any]:
    """Runs a function in two workers: `fit(TorchTrainer, loop, config, datasets={...})`."""
    from skate.train import FailureConfig, RunConfig, ScalingConfig

    def run(
        trainer: Any,
        loop: Any,
        config: dict[str, Any] | None = None,
        workers: int = 2,
        failures: int = 0,
        **given: Any,
    ) -> Any:
        return trainer(
            loop,
            train_loop_config=config,
            scaling_config=ScalingConfig(num_workers=workers),
            run_config=RunConfig(
                name="run",
                storage_path=str(tmp_path / "storage"),
                failure_config=FailureConfig(max_failures=failures),
            ),
            **given,
        ).fit()

    return run
