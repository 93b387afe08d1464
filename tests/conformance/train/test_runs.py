"""Runs of a training function: its arguments, the API inside it, its results."""

from __future__ import annotations

import functools
import os

import pytest
import ray
from ray import train
from ray.train import Checkpoint, RunConfig, ScalingConfig
from trainers import DataParallelTrainer
from waiting import wait_for


def returning(value):
    return value


pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def fit(tmp_path):
    """Runs a function in workers; keywords are the trainer's, ``workers`` and ``name`` those of its configs."""

    def run(function, workers=1, name="run", run_config=None, **given):
        return DataParallelTrainer(
            function,
            scaling_config=ScalingConfig(num_workers=workers),
            run_config=run_config or RunConfig(name=name, storage_path=str(tmp_path / "storage")),
            **given,
        ).fit()

    return run


def test_function_without_arguments(fit):
    def loop():
        train.report({"done": 1})

    assert fit(loop).metrics in ({"done": 1}, None)


def test_function_gets_the_config(fit, tmp_path):
    def loop(config):
        with open(config["path"], "w") as file:
            file.write(str(config["x"]))

    fit(loop, train_loop_config={"x": 7, "path": str(tmp_path / "out")})
    assert (tmp_path / "out").read_text() == "7"


def test_config_is_an_empty_dict_if_none_is_given(fit):
    def loop(config):
        return config

    assert fit(loop).return_value == {}


def test_result_has_what_rank_zero_returned(fit):
    def loop():
        return train.get_context().get_world_rank() + 100

    assert fit(loop, workers=2).return_value == 100


def test_ranks_and_sizes(fit, tmp_path):
    def loop(config):
        context = train.get_context()
        values = [
            context.get_world_rank(),
            context.get_world_size(),
            context.get_local_rank(),
            context.get_local_world_size(),
            context.get_node_rank(),
            context.get_experiment_name(),
        ]
        with open(f"{config['path']}/{values[0]}", "w") as file:
            file.write(repr(values))

    fit(loop, workers=2, name="mine", train_loop_config={"path": str(tmp_path)})
    assert (tmp_path / "0").read_text() == repr([0, 2, 0, 2, 0, "mine"])
    assert (tmp_path / "1").read_text() == repr([1, 2, 1, 2, 0, "mine"])


@pytest.mark.parametrize(
    "name",
    ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"],
)
def test_torch_workers_have_the_variables_that_launchers_set(tmp_path, name):
    pytest.importorskip("torch")
    from ray.train.torch import TorchTrainer

    def loop():
        return os.environ[name]

    found = TorchTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="run", storage_path=str(tmp_path)),
    ).fit()
    assert found.return_value == {"WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}.get(name, found.return_value)
    if name.endswith("RANK"):
        assert found.return_value == "0"


def test_workers_run_at_the_same_time(fit, tmp_path):
    def loop(config):
        rank = train.get_context().get_world_rank()
        open(f"{config['path']}/{rank}", "w").close()
        wait_for(lambda: len(os.listdir(config["path"])) == 2, 30, "the other rank")

    fit(loop, workers=2, train_loop_config={"path": _folder(tmp_path)})


def _folder(tmp_path):
    folder = tmp_path / "meeting"
    folder.mkdir()
    return str(folder)


def test_result_path_is_the_run_s_folder(fit, tmp_path):
    result = fit(lambda: None, name="where")
    assert result.path == str(tmp_path / "storage" / "where")
    assert os.path.isdir(result.path)


def test_result_without_reports_has_nothing(fit):
    result = fit(lambda: None)
    assert result.metrics is None and result.checkpoint is None and result.error is None


def test_result_of_a_run_is_read_from_its_folder(fit, tmp_path):
    def loop():
        for i in range(2):
            folder = f"{tmp_path}/c{i}"
            os.makedirs(folder)
            train.report({"i": i}, checkpoint=Checkpoint.from_directory(folder))

    result = fit(loop)
    again = train.Result.from_path(result.path)
    assert again.metrics == result.metrics == {"i": 1}
    assert again.checkpoint.path == result.checkpoint.path


@pytest.mark.chosen_difference("metrics of a report without a checkpoint are kept", id="D-train-metrics")
def test_last_metrics_are_those_of_the_last_report(fit):
    def loop():
        for i in range(3):
            train.report({"i": i})

    result = fit(loop, workers=2)
    assert result.metrics == {"i": 2}
    assert list(result.metrics_dataframe["i"]) == [0, 1, 2]


def test_metrics_of_rank_zero_are_the_run_s(fit, tmp_path):
    def loop():
        rank = train.get_context().get_world_rank()
        folder = f"{tmp_path}/r{rank}"
        os.makedirs(folder)
        train.report({"rank": rank}, checkpoint=Checkpoint.from_directory(folder))

    assert fit(loop, workers=2).metrics == {"rank": 0}


def test_tasks_and_actors_run_in_a_training_function(fit):
    @ray.remote(num_cpus=0)
    def double(x):
        return 2 * x

    def loop():
        return ray.get(double.remote(21))

    assert fit(loop).return_value == 42


def test_barrier_and_broadcast(fit, tmp_path):
    from ray.train.collective import barrier, broadcast_from_rank_zero

    def loop(config):
        rank = train.get_context().get_world_rank()
        found = [broadcast_from_rank_zero({"from": rank, "i": i}) for i in range(3)]
        open(f"{config['path']}/{rank}", "w").close()
        barrier()
        assert len(os.listdir(config["path"])) == 2
        with open(f"{config['path']}/{rank}", "w") as file:
            file.write(repr(found))

    folder = _folder(tmp_path)
    fit(loop, workers=2, train_loop_config={"path": folder})
    for rank in (0, 1):
        with open(f"{folder}/{rank}") as file:
            assert file.read() == repr([{"from": 0, "i": i} for i in range(3)])


def test_callback_is_told_of_reports(fit, tmp_path):
    class Notes(train.UserCallback):
        def after_report(self, run_context, metrics, checkpoint):
            with open(tmp_path / "notes", "a") as file:
                file.write(f"{[each['n'] for each in metrics]} {checkpoint is None}\n")

    def loop():
        for n in range(2):
            train.report({"n": 10 * n + train.get_context().get_world_rank()})

    config = RunConfig(name="run", storage_path=str(tmp_path / "s"), callbacks=[Notes()])
    fit(loop, workers=2, run_config=config)
    assert (tmp_path / "notes").read_text() == "[0, 1] True\n[10, 11] True\n"


def test_several_runs_one_after_the_other(fit):
    for i in range(3):
        assert fit(functools.partial(returning, i), name=f"run{i}", workers=2).return_value == i


def test_resources_are_free_after_a_run(fit):
    fit(lambda: None, workers=2)
    wait_for(lambda: ray.available_resources().get("CPU", 0) == 2, 20, "both CPUs")


def test_run_without_workers_is_in_this_process(tmp_path):
    seen = []

    def loop(config):
        context = train.get_context()
        seen.append((os.getpid(), context.get_world_size(), context.get_world_rank(), config["x"]))
        train.report({"x": 1})

    DataParallelTrainer(
        loop,
        train_loop_config={"x": 5},
        scaling_config=ScalingConfig(num_workers=0),
        run_config=RunConfig(name="run", storage_path=str(tmp_path)),
    ).fit()
    assert seen == [(os.getpid(), 1, 0, 5)]


@pytest.mark.parametrize("ask", [lambda: train.report({}), train.get_context, train.get_checkpoint])
def test_asking_outside_of_a_worker_says_so(ask):
    with pytest.raises(Exception, match=r"."):  # the type is not the same for all of them in Ray
        found = ask()
        if hasattr(found, "get_world_rank"):
            found.get_world_rank()
        elif found is None:
            raise RuntimeError("nothing to ask")


@pytest.mark.chosen_difference("names the function and where to call it", id="D-train-outside")
def test_report_outside_of_a_worker_names_what_to_do():
    with pytest.raises(
        RuntimeError, match="`report` cannot be used outside of a Ray Train training function"
    ):
        train.report({"a": 1})


def test_options_of_the_datasets_of_a_run(fit):
    from ray.data import DataContext, ExecutionOptions, ExecutionResources

    context = DataContext.get_current().execution_options
    given = ExecutionOptions(exclude_resources=ExecutionResources(cpu=0.5, gpu=1), preserve_order=True)
    before = context.verbose_progress

    def loop():
        options = {
            name: train.get_dataset_shard(name).get_context().execution_options for name in ("one", "two")
        }
        excluded = [options[name].exclude_resources for name in ("one", "two")]
        assert [(each.cpu, each.gpu) for each in excluded] == [(0.5, 1), (0, 0)]
        assert [options[name].verbose_progress for name in ("one", "two")] == [True, False]
        assert options["one"].preserve_order is True
        return sum(1 for name in ("one", "two") for row in train.get_dataset_shard(name).iter_rows())

    context.verbose_progress = False
    try:
        config = train.DataConfig(execution_options={"one": given})
        defaults = train.DataConfig.default_ingest_options()
        datasets = {name: ray.data.range(4) for name in ("one", "two")}
        result = fit(loop, datasets=datasets, dataset_config=config)
    finally:
        context.verbose_progress = before
    assert (defaults.verbose_progress, defaults.exclude_resources.cpu) == (False, 0)
    assert result.return_value == 8
