"""Shared fixtures of the tests of searches."""

from __future__ import annotations

import pytest
from ray.tune import RunConfig, TuneConfig, Tuner


@pytest.fixture
def fit(tmp_path):
    """Runs a search; keywords are those of the configs."""

    def run(trainable, space=None, name="search", **given):
        of_run = {key: given.pop(key) for key in list(given) if key in RunConfig.__dataclass_fields__}
        return Tuner(
            trainable,
            param_space=space,
            tune_config=TuneConfig(**given),
            run_config=RunConfig(name=name, storage_path=str(tmp_path / "storage"), verbose=0, **of_run),
        ).fit()

    return run
