"""Files of a search: names, columns and tags as in Ray's, read back by their readers; and experiment trackers."""

from __future__ import annotations

import json
import os
import pickle
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate as ray
from skate import tune
from skate.air import loggers as air_loggers
from skate.air.loggers import events as event_files
from skate.air.loggers import lines
from skate.tune import logger as tune_loggers

np = pytest.importorskip("numpy")

#: What Ray adds to every result, in its files.
AUTO = (
    *(
        "timestamp",
        "checkpoint_dir_name",
        "done",
        "training_iteration",
        "trial_id",
        "date",
        "time_this_iter_s",
    ),
    *("time_total_s", "pid", "hostname", "node_ip", "time_since_restore", "iterations_since_restore"),
)


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    ray.init(num_cpus=2)
    yield
    ray.shutdown()


def reporting(config: dict[str, Any]) -> None:
    for step in range(3):
        tune.report(
            {
                "loss": 1 / (step + 1),
                "eval": {"accuracy": step / 2, "deep": {"x": step}},
                "flag": True,
                "gap": float("nan"),
                "kind": "text",
                "weights": np.arange(4.0) + step,
                "picture": np.full((3, 4, 5), 0.5),
                "single": np.float32(1.5),
            }
        )


SPACE = {
    "lr": tune.grid_search([0.5]),
    "kind": tune.choice(["sgd"]),
    "net": {"layers": 2},
    "function": len,
    "counts": np.arange(2),
}


def fit(
    folder: Path, trainable: Any, space: dict[str, Any], *callbacks: Any, **given: Any
) -> tune.ResultGrid:
    config = tune.RunConfig(name="search", storage_path=str(folder), callbacks=list(callbacks), **given)
    return tune.Tuner(trainable, param_space=space, run_config=config).fit()


@pytest.fixture(scope="module")
def written(session: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    (result,) = fit(tmp_path_factory.mktemp("runs"), reporting, SPACE)
    assert result.error is None
    return Path(result.path)


def test_there_is_one_class_of_each(written: Path) -> None:
    for name in (
        "CSVLoggerCallback",
        "JsonLoggerCallback",
        "TBXLoggerCallback",
        "LoggerCallback",
        "pretty_print",
    ):
        assert getattr(air_loggers, name) is getattr(tune_loggers, name)
    assert issubclass(tune_loggers.LoggerCallback, tune.Callback)


def test_lines_of_json(written: Path) -> None:
    lines = [json.loads(line) for line in (written / "result.json").read_text().splitlines()]
    assert [line["loss"] for line in lines] == [1.0, 0.5, pytest.approx(1 / 3)]
    assert lines[2]["eval"] == {"accuracy": 1.0, "deep": {"x": 2}}
    assert lines[1]["weights"] == [1.0, 2.0, 3.0, 4.0]
    config = {"lr": 0.5, "kind": "sgd", "net": {"layers": 2}, "function": repr(len), "counts": [0, 1]}
    assert lines[0]["config"] == config
    assert {*AUTO, "config"} <= set(lines[0])


def test_the_settings(written: Path) -> None:
    shown = json.loads((written / "params.json").read_text())
    assert list(shown) == sorted(shown) == ["counts", "function", "kind", "lr", "net"]
    exact = pickle.loads((written / "params.pkl").read_bytes())
    assert exact["function"] is len
    assert exact["counts"].tolist() == [0, 1]


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"lr": 0.1, "b": "\u00e4\n", "a": None, "on": True, "n": 3},
        {"x": float("inf")},
        {"net": {"b": 1, "a": 2}},
    ],
)
def test_settings_are_indented_as_python_does_it(config: dict[str, Any]) -> None:
    assert lines._indented(config) == json.dumps(config, indent=2, sort_keys=True)


def test_a_table_that_pandas_reads(written: Path) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.read_csv(written / "progress.csv")
    assert table["loss"].tolist() == [1.0, 0.5, pytest.approx(1 / 3)]
    assert table["eval/deep/x"].tolist() == [0, 1, 2]
    assert set(AUTO) <= set(table.columns)
    assert "config" not in table.columns
    assert list(table.columns)[-2:] == ["eval/accuracy", "eval/deep/x"], (
        "as in Ray, what is nested comes last"
    )


def accumulated(folder: Path) -> Any:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # slow, and only here

    found = EventAccumulator(str(folder))
    found.Reload()
    return found


def test_events_that_tensorboard_reads(written: Path) -> None:
    pytest.importorskip("tensorboardX")
    found = accumulated(written)
    tags = found.Tags()
    beside = ("done", "time_this_iter_s", "time_since_restore", "iterations_since_restore")
    assert sorted(tags["scalars"]) == sorted(
        f"ray/tune/{name}" for name in ("loss", "flag", "single", "eval/accuracy", "eval/deep/x", *beside)
    )
    assert [(each.step, each.value) for each in found.Scalars("ray/tune/loss")] == [
        (1, 1.0),
        (2, 0.5),
        (3, pytest.approx(1 / 3)),
    ]
    assert tags["histograms"] == ["ray/tune/weights"]
    last = found.Histograms("ray/tune/weights")[-1].histogram_value
    assert (last.min, last.max, last.num, last.sum) == (2.0, 5.0, 4.0, 14.0)
    assert tags["images"] == ["ray/tune/picture"]
    assert (found.Images("ray/tune/picture")[0].width, found.Images("ray/tune/picture")[0].height) == (5, 4)


def test_settings_that_tensorboard_reads(written: Path) -> None:
    found = accumulated(written)
    plugin = pytest.importorskip("tensorboard.plugins.hparams.plugin_data_pb2")
    tags = found.PluginTagToContent("hparams")
    start = plugin.HParamsPluginData.FromString(tags["_hparams_/session_start_info"]).session_start_info
    assert {name: value.number_value or value.string_value for name, value in start.hparams.items()} == {
        "lr": 0.5,
        "kind": "sgd",
    }
    experiment = plugin.HParamsPluginData.FromString(tags["_hparams_/experiment"]).experiment
    assert "ray/tune/loss" in [info.name.tag for info in experiment.metric_infos]
    assert {info.name: info.type for info in experiment.hparam_infos} == {"lr": 3, "kind": 1}


def test_our_events_are_those_of_tensorboardx() -> None:
    theirs = pytest.importorskip("tensorboardX.summary")
    from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData  # as above
    from tensorboardX.proto.summary_pb2 import Summary

    values = {"rate": 0.5, "layers": 2, "kind": "sgd", "nesterov": True, "nothing": None}
    for mine, expected in zip(
        event_files.settings(values, ["loss"]), theirs.hparams(values, {"loss": 1.0}), strict=True
    ):
        (found,), (other,) = Summary.FromString(mine).value, expected.value
        assert (found.tag, found.metadata.plugin_data.plugin_name) == (other.tag, "hparams")
        contents = [
            HParamsPluginData.FromString(each.metadata.plugin_data.content) for each in (found, other)
        ]
        assert contents[0] == contents[1]
    mine = event_files.scalars({"loss": 0.25, "huge": 1e300, "endless": float("-inf")})
    assert [(each.tag, each.simple_value) for each in Summary.FromString(mine).value] == [
        ("loss", 0.25),
        ("huge", pytest.approx(3.4028235e38)),
        ("endless", float("-inf")),
    ]


def test_what_cannot_be_drawn_is_left_out_and_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("tensorboardX", "torch", "torch.utils", "torch.utils.tensorboard", "tensorboard"):
        monkeypatch.setitem(sys.modules, module, None)
    for library in ("tensorboardX", "torch.utils.tensorboard"):
        monkeypatch.delitem(sys.modules, f"{library}.summary", raising=False)
    with pytest.warns(UserWarning, match="pip install tensorboardX") as warned:
        (result,) = fit(tmp_path, reporting, {})
    assert len(warned) == 1
    monkeypatch.undo()
    tags = accumulated(Path(result.path)).Tags()
    assert "ray/tune/loss" in tags["scalars"]
    assert tags["histograms"] == []


class Failing(tune.Trainable):
    def setup(self, config: dict[str, Any]) -> None:
        self.count = 0

    def step(self) -> dict[str, Any]:
        self.count += 1
        if self.count == 3 and not Path(self.config["mark"]).exists():
            Path(self.config["mark"]).touch()
            raise ValueError("once")
        return {"count": self.count, "done": self.count == 4}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        Path(checkpoint_dir, "count").write_text(str(self.count))

    def load_checkpoint(self, checkpoint_dir: Any) -> None:
        self.count = int(Path(checkpoint_dir, "count").read_text())


def test_a_trial_that_starts_again_goes_on_in_its_files(tmp_path: Path) -> None:
    (result,) = fit(
        tmp_path,
        Failing,
        {"mark": str(tmp_path / "mark")},
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1),
        failure_config=tune.FailureConfig(max_failures=1),
    )
    folder = Path(result.path)
    lines = [json.loads(line)["count"] for line in (folder / "result.json").read_text().splitlines()]
    assert lines == [1, 2, 3, 4]
    assert len((folder / "progress.csv").read_text().splitlines()) == 5
    assert len(list(folder.glob("events.out.tfevents.*"))) == 2, "each start has an event file of its own"
    assert [each.value for each in accumulated(folder).Scalars("ray/tune/count")] == [1, 2, 3, 4]


class RecordingCallback(tune_loggers.LoggerCallback):
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def log_trial_start(self, trial: Any) -> None:
        self.calls.append("start")

    def log_trial_restore(self, trial: Any) -> None:
        self.calls.append("restore")

    def log_trial_save(self, trial: Any) -> None:
        self.calls.append("save")

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        self.calls.append(result["count"])

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        self.calls.append(("end", failed))


def test_a_logger_is_told_of_every_start(tmp_path: Path) -> None:
    recorder = RecordingCallback()
    fit(
        tmp_path,
        Failing,
        {"mark": str(tmp_path / "mark")},
        recorder,
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=2),
        failure_config=tune.FailureConfig(max_failures=1),
    )
    assert recorder.calls == ["start", 1, 2, "save", "restore", "start", 3, 4, "save", ("end", False)], (
        "as in Ray"
    )


# -- services, with their real libraries where these are installed


def one(config: dict[str, Any]) -> None:
    for step in range(2):
        tune.report({"loss": 1.0 - step / 2, "eval": {"x": step}, "kind": "text"})


def broken(config: dict[str, Any]) -> None:
    tune.report({"loss": 1.0})
    raise ValueError("over")


SETTINGS = {"lr": tune.grid_search([0.1, 0.2]), "net": {"layers": 2}}


@pytest.mark.filterwarnings("ignore")  # what the library itself warns of
def test_mlflow_keeps_trials_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = f"file://{tmp_path}/mlruns"
    callback = tune_loggers.MLflowLoggerCallback(
        uri, experiment_name="mine", tags={"by": "me"}, save_artifact=True
    )
    fit(tmp_path / "runs", one, SETTINGS, callback)
    fit(tmp_path / "runs", broken, {}, tune_loggers.MLflowLoggerCallback(uri, experiment_name="bad"))
    client = mlflow.tracking.MlflowClient(uri)
    runs = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
    assert sorted(run.data.params["lr"] for run in runs) == ["0.1", "0.2"]
    for run in runs:
        assert run.data.params["net/layers"] == "2"
        assert run.data.metrics["loss"] == 0.5
        assert run.data.metrics["eval/x"] == 1
        assert run.data.tags["by"] == "me"
        assert run.info.status == "FINISHED"
        history = client.get_metric_history(run.info.run_id, "loss")
        assert [(each.step, each.value) for each in history] == [(1, 1.0), (2, 0.5)]
        assert "result.json" in [each.path for each in client.list_artifacts(run.info.run_id)]
    (bad,) = client.search_runs([client.get_experiment_by_name("bad").experiment_id])
    assert bad.info.status == "FAILED"


def with_mlflow(config: dict[str, Any]) -> None:
    from skate.air.integrations.mlflow import setup_mlflow

    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    mlflow = setup_mlflow(
        config, config.pop("uri"), experiment_name="inside", create_experiment_if_not_exists=True
    )
    mlflow.log_metrics({"loss": 0.5}, step=1)
    mlflow.end_run()
    tune.report({"loss": 0.5})


@pytest.mark.filterwarnings("ignore")  # as above
def test_setup_mlflow_within_a_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = f"file://{tmp_path}/mlruns"
    (result,) = fit(tmp_path / "runs", with_mlflow, {"uri": uri, "lr": 0.1})
    assert result.error is None
    client = mlflow.tracking.MlflowClient(uri)
    (run,) = client.search_runs([client.get_experiment_by_name("inside").experiment_id])
    assert (run.data.params["lr"], run.data.metrics["loss"]) == ("0.1", 0.5)


@pytest.mark.filterwarnings("ignore")  # as above
def test_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    grid = fit(tmp_path, one, SETTINGS, tune_loggers.WandbLoggerCallback("project"))
    for result in grid:
        (kept,) = Path(result.path, "wandb").glob("offline-run-*/*.wandb")
        assert b"eval/x" in kept.read_bytes()


@pytest.mark.filterwarnings("ignore")  # as above
def test_comet_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("comet_ml")
    import zipfile  # what an offline experiment is

    monkeypatch.setenv("COMET_API_KEY", "none")
    callback = tune_loggers.CometLoggerCallback(
        online=False, project_name="mine", offline_directory=str(tmp_path / "comet")
    )
    fit(tmp_path, one, SETTINGS, callback)
    kept = list((tmp_path / "comet").glob("*.zip"))
    assert len(kept) == 2
    for each in kept:
        lines = zipfile.ZipFile(each).read("messages.json").decode()
        assert lines.count('"metricName":"eval/x"') == 2
        assert "net/layers" in lines


class AimRun(dict[str, Any]):
    """Stands for `aim.Run`: Aim 3.29 does not read its own runs back in the process that wrote them."""

    made: list[AimRun] = []

    def __init__(self, **given: Any) -> None:
        self.given, self.tracked, self.closed = given, [], False
        AimRun.made.append(self)

    def track(self, value: float, **where: Any) -> None:
        assert not self.closed
        self.tracked.append((where["name"], where["step"], value, where["context"]))

    def close(self) -> None:
        self.closed = True


def with_context(config: dict[str, Any]) -> None:
    tune.report({"loss": 1.0, "eval": {"x": 2}, "gap": float("nan"), "context": {"subset": "val"}})


def test_aim_gets_a_run_a_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aim", types.SimpleNamespace(Run=AimRun))
    callback = tune_loggers.AimLoggerCallback(metrics=["loss", "gap", "eval/x"], capture_terminal_logs=False)
    (result,) = fit(tmp_path, with_context, {"lr": tune.choice([0.1]), "net": {"layers": 2}}, callback)
    (run,) = AimRun.made
    home = str(tmp_path / "search")
    assert run.given == {"repo": home, "experiment": "search", "capture_terminal_logs": False}
    assert (run["hparams"], run["trial_log_dir"]) == ({"lr": 0.1}, result.path)
    context = {"subset": "val"}
    assert run.tracked == [("ray/tune/loss", 1, 1.0, context), ("ray/tune/eval/x", 1, 2.0, context)]
    assert run.closed


def test_aim_wants_a_metric_to_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aim", types.SimpleNamespace(Run=AimRun))
    with pytest.raises(ValueError, match="metrics=\\[\\] would log nothing"):
        tune_loggers.AimLoggerCallback(metrics=[])
    monkeypatch.setitem(sys.modules, "aim", None)
    with pytest.raises(ImportError, match="AimLoggerCallback needs aim.*pip install aim"):
        tune_loggers.AimLoggerCallback()


class Unclosable(tune.Callback):
    """Fails at the end of a search, as a file does on a full disk."""

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        raise OSError(28, "No space left on device")


class Closing(tune.Callback):
    ended = False

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        Closing.ended = True


def test_a_logger_that_cannot_end_does_not_keep_others_open(tmp_path: Path) -> None:
    config = tune.RunConfig(storage_path=str(tmp_path), callbacks=[Unclosable(), Closing()], verbose=0)
    with pytest.raises(OSError, match="No space left on device"):
        tune.Tuner(lambda config: None, run_config=config).fit()
    assert Closing.ended
