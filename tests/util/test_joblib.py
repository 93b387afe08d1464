"""joblib's Parallel on the backend "ray"."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

joblib = pytest.importorskip("joblib", reason="joblib is an optional dependency")
numpy = pytest.importorskip("numpy", reason="numpy is an optional dependency")

from skate.util.joblib import register_ray  # noqa: E402  (after the skips)

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register_ray()
    with joblib.parallel_config(backend="ray", n_jobs=2):
        yield


def where(value: Any) -> tuple[int, Any]:
    return os.getpid(), value


def test_calls_run_in_other_processes_and_keep_their_order() -> None:
    results = joblib.Parallel()(joblib.delayed(where)(value) for value in range(40))
    assert [value for _, value in results] == list(range(40))
    assert os.getpid() not in {pid for pid, _ in results}


def test_all_cpus_of_the_cluster() -> None:
    with joblib.parallel_config(backend="ray", n_jobs=-1):
        assert joblib.effective_n_jobs() == 2


def test_a_large_argument_is_stored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import skate

    puts: list[Any] = []
    real_put = skate.put
    monkeypatch.setattr(skate, "put", lambda value: puts.append(value) or real_put(value), raising=False)
    shared = numpy.ones(300_000)

    def total(values: Any, factor: int, *, more: Any) -> float:
        return float(values.sum()) * factor + float(more.sum())

    results = joblib.Parallel()(joblib.delayed(total)(shared, factor, more=shared) for factor in range(4))
    assert results == [300_000.0, 600_000.0, 900_000.0, 1_200_000.0]
    assert [value is shared for value in puts] == [True]


def test_an_error_arrives_as_itself() -> None:
    def fail(value: int) -> int:
        if value == 3:
            raise KeyError(value)
        return value

    with pytest.raises(KeyError, match="3"):
        joblib.Parallel()(joblib.delayed(fail)(value) for value in range(8))
    assert joblib.Parallel()(joblib.delayed(fail)(value) for value in range(2)) == [0, 1]


def test_results_as_a_generator() -> None:
    results = joblib.Parallel(return_as="generator")(joblib.delayed(abs)(-value) for value in range(5))
    assert list(results) == [0, 1, 2, 3, 4]


def test_nested_calls_run_inside_the_actor() -> None:
    def outer(count: int) -> list[tuple[int, Any]]:
        inner: list[tuple[int, Any]] = joblib.Parallel(n_jobs=2)(
            joblib.delayed(where)(value) for value in range(count)
        )
        return [(os.getpid(), inner)]

    for ((outer_pid, inner),) in joblib.Parallel()(joblib.delayed(outer)(3) for _ in range(2)):
        assert inner == [(outer_pid, 0), (outer_pid, 1), (outer_pid, 2)]


def test_remote_args_and_inner_threads_reach_the_actors() -> None:
    options = {"runtime_env": {"env_vars": {"JOBLIB_COLOUR": "green"}}}
    with joblib.parallel_config(backend="ray", n_jobs=2, ray_remote_args=options, inner_max_num_threads=3):
        names = ["JOBLIB_COLOUR", "OMP_NUM_THREADS"]
        assert joblib.Parallel()(joblib.delayed(os.getenv)(name) for name in names) == ["green", "3"]


def test_one_job_runs_here() -> None:
    with joblib.parallel_config(backend="ray", n_jobs=1):
        results = joblib.Parallel()(joblib.delayed(where)(value) for value in range(2))
    assert results == [(os.getpid(), 0), (os.getpid(), 1)]


def test_without_joblib_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['joblib'] = None\n"
        "from skate.util.joblib import register_ray\n"
        "try: register_ray()\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert "pip install joblib" in done.stdout
