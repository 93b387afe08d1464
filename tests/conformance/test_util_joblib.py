"""ray.util.joblib: joblib's parallel jobs on the cluster."""

from __future__ import annotations

import os

import pytest
from ray.util.joblib import register_ray

joblib = pytest.importorskip("joblib")

pytestmark = pytest.mark.usefixtures("cluster")


def test_util_joblib_runs_jobs_in_order() -> None:
    register_ray()
    with joblib.parallel_config(backend="ray"):
        results = joblib.Parallel(n_jobs=2)(joblib.delayed(lambda n: n * n)(n) for n in range(20))
    assert results == [n * n for n in range(20)]


def test_util_joblib_runs_in_other_processes() -> None:
    register_ray()
    with joblib.parallel_backend("ray", n_jobs=2):
        pids = set(joblib.Parallel()(joblib.delayed(lambda: os.getpid())() for _ in range(6)))
    assert os.getpid() not in pids


def test_util_joblib_error_of_a_job() -> None:
    register_ray()

    def fail() -> None:
        raise ValueError("job failed")

    with joblib.parallel_config(backend="ray"), pytest.raises(ValueError, match="job failed"):
        joblib.Parallel(n_jobs=2)(joblib.delayed(fail)() for _ in range(2))


def test_util_joblib_all_cpus_by_default() -> None:
    register_ray()
    with joblib.parallel_config(backend="ray", n_jobs=-1):
        assert joblib.Parallel()(joblib.delayed(abs)(n) for n in (-1, -2)) == [1, 2]
