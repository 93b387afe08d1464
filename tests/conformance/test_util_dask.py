"""ray.util.dask: Dask's collections computed by tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import ray

dask = pytest.importorskip("dask")
array = pytest.importorskip("dask.array")
from ray.util import dask as rayed  # noqa: E402

# Dask and what it stands on warn of things to come.
pytestmark = [pytest.mark.usefixtures("cluster"), pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def enabled() -> Iterator[None]:
    rayed.enable_dask_on_ray()
    yield
    rayed.disable_dask_on_ray()


def three() -> int:
    return 3


def test_an_array_is_summed() -> None:
    assert array.ones((100, 100), chunks=(50, 50)).sum().compute(scheduler=rayed.ray_dask_get) == 10_000


def test_delayed_calls_depend_on_each_other() -> None:
    add = dask.delayed(lambda a, b: a + b)
    assert add(1, dask.delayed(three)()).compute(scheduler=rayed.ray_dask_get) == 4


def test_several_collections_at_once() -> None:
    found = dask.compute(array.ones(4).sum(), array.arange(5, chunks=2).max(), scheduler=rayed.ray_dask_get)
    assert found == (4.0, 4)


def test_it_is_the_scheduler_inside_of_a_with() -> None:
    with rayed.enable_dask_on_ray():
        assert dask.config.get("scheduler") is rayed.ray_dask_get
        assert array.arange(10, chunks=3).sum().compute() == 45
    assert dask.config.get("scheduler", None) is None


def test_it_is_the_scheduler_until_it_is_disabled(enabled: None) -> None:
    assert array.arange(10, chunks=3).sum().compute() == 45
    rayed.disable_dask_on_ray()
    assert dask.config.get("scheduler", None) is None


def test_a_dataframe_is_grouped_and_shuffled(enabled: None) -> None:
    pandas = pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe")
    frame = frames.from_pandas(pandas.DataFrame({"a": [1, 2, 3, 4] * 5, "b": range(20)}), npartitions=3)
    assert frame.groupby("a").b.sum().compute().to_dict() == {1: 40, 2: 45, 3: 50, 4: 55}
    assert sorted(frame.shuffle("a").b.compute()) == list(range(20))
    assert frame.set_index("b").a.compute().tolist() == [1, 2, 3, 4] * 5


def test_persisted_collections_are_refs(enabled: None) -> None:
    kept = array.ones(6, chunks=2).persist()
    assert all(isinstance(each, ray.ObjectRef) for each in dict(kept.dask).values())
    assert kept.sum().compute() == 6.0
    (again,) = dask.persist(array.ones(4, chunks=2))
    assert (again + 1).sum().compute() == 8.0


@pytest.mark.parametrize(("keys", "wanted"), [("b", 2), (["c", "b"], [3, 2]), ([["a"], ["b"]], ((1,), (2,)))])
def test_keys_of_a_plain_graph(keys: Any, wanted: Any) -> None:
    graph = {"a": 1, "b": (lambda value: value + 1, "a"), "c": (sum, ["a", "b"])}
    found = rayed.ray_dask_get(graph, keys)
    assert list(found) == list(wanted) if isinstance(wanted, tuple | list) else found == wanted


def test_the_error_of_a_task_is_raised(enabled: None) -> None:
    with pytest.raises(ZeroDivisionError):
        dask.delayed(lambda: 1 / 0)().compute()


def test_callbacks_see_each_step(enabled: None) -> None:
    seen: list[Any] = []

    class Watching(rayed.RayDaskCallback):
        def _ray_presubmit(self, task: Any, key: Any, deps: Any) -> None:
            seen.append(("before", key))

        def _ray_postsubmit(self, task: Any, key: Any, deps: Any, object_ref: Any) -> None:
            seen.append(("after", key, isinstance(object_ref, ray.ObjectRef)))

        def _ray_postsubmit_all(self, object_refs: Any, dsk: Any) -> None:
            seen.append(("all", len(object_refs)))

        def _ray_finish(self, result: Any) -> None:
            seen.append(("done", list(result)))

    with Watching():
        assert dask.delayed(three)(dask_key_name="k").compute() == 3
    assert seen == [("before", "k"), ("after", "k", True), ("all", 1), ("done", [3])]
    dask.delayed(three)(dask_key_name="k").compute()
    assert len(seen) == 4


def test_a_callback_may_answer_for_a_task(enabled: None) -> None:
    with rayed.RayDaskCallback(ray_presubmit=lambda task, key, deps: 42):
        assert dask.delayed(three)().compute() == 42


def test_callbacks_around_a_task_run_where_it_runs(enabled: None) -> None:
    @ray.remote(num_cpus=0)
    class Log:
        def __init__(self) -> None:
            self.lines: list[Any] = []

        def add(self, *line: Any) -> None:
            self.lines.append(line)

        def read(self) -> list[Any]:
            return self.lines

    log = Log.remote()

    def before(key: Any, object_refs: Any) -> str:
        ray.get(log.add.remote("before", key))
        return "state"

    def after(key: Any, result: Any, pre_state: Any) -> None:
        ray.get(log.add.remote("after", key, result, pre_state))

    with rayed.RayDaskCallback(ray_pretask=before, ray_posttask=after):
        dask.delayed(three)(dask_key_name="k").compute()
    assert ray.get(log.read.remote()) == [("before", "k"), ("after", "k", 3, "state")]


def test_options_of_tasks(enabled: None) -> None:
    def held() -> float:
        return ray.get_runtime_context().get_assigned_resources()["CPU"]

    assert dask.delayed(held)().compute(ray_remote_args={"num_cpus": 0.5}) == 0.5
    with dask.annotate(ray_remote_args={"num_cpus": 2}):
        annotated = dask.delayed(held)()
    assert annotated.compute(optimize_graph=False) == 2.0


def test_what_is_no_callback_is_refused() -> None:
    from ray.util.dask import callbacks

    with pytest.raises(
        TypeError, match="Callbacks must be either 'RayDaskCallback' or 'RayCallback' namedtuple"
    ):
        callbacks.normalize_ray_callback(3)
