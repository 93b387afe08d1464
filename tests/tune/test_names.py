"""Names of Ray's modules that programs import, and the small functions behind them."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate as ray
from skate import compat, tune
from skate.tune import utils
from skate.tune.callback import Callback, CallbackList


@pytest.fixture
def alias() -> Iterator[None]:
    already = sys.modules.get("ray") is sys.modules.get("skate")
    compat.install()
    yield
    if not already:  # the conformance tests have it for the whole run
        compat.uninstall()


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("tune.analysis.experiment_analysis", "ExperimentAnalysis"),
        ("tune.callback", "Callback CallbackList"),
        ("tune.experiment", "Experiment Trial"),
        ("tune.logger.aim", "AimLoggerCallback"),
        ("tune.logger.comet", "CometLoggerCallback"),
        ("tune.logger.csv", "CSVLoggerCallback"),
        ("tune.logger.json", "JsonLoggerCallback"),
        ("tune.logger.logger", "LoggerCallback pretty_print"),
        ("tune.logger.mlflow", "MLflowLoggerCallback"),
        ("tune.logger.tensorboardx", "TBXLoggerCallback"),
        ("tune.logger.wandb", "WandbLoggerCallback"),
        ("tune.registry", "get_trainable_cls is_function_trainable register_trainable validate_trainable"),
        ("tune.result", "DEFAULT_METRIC EXPR_RESULT_FILE TIME_TOTAL_S TRAINING_ITERATION"),
        ("tune.search.ax.ax_search", "AxSearch"),
        ("tune.search.bayesopt.bayesopt_search", "BayesOptSearch"),
        ("tune.search.bohb.bohb_search", "TuneBOHB"),
        ("tune.search.hebo.hebo_search", "HEBOSearch"),
        ("tune.search.hyperopt.hyperopt_search", "HyperOptSearch"),
        ("tune.search.nevergrad.nevergrad_search", "NevergradSearch"),
        ("tune.search.optuna.optuna_search", "OptunaSearch"),
        ("tune.search.zoopt.zoopt_search", "ZOOptSearch"),
        ("tune.stopper.noop", "NoopStopper"),
        ("tune.trainable.function_trainable", "FunctionTrainable wrap_function"),
        ("tune.trainable.util", "with_parameters with_resources"),
        ("tune.utils", "deep_update flatten_dict merge_dicts validate_save_restore wait_for_gpu"),
        ("tune.utils.util", "diagnose_serialization validate_warmstart wait_for_gpu"),
    ],
)
def test_programs_find_what_they_import(alias: None, module: str, names: str) -> None:
    found = importlib.import_module(f"ray.{module}")
    assert importlib.import_module(f"ray.{module}") is found
    for name in names.split():
        assert getattr(found, name) is not None


@pytest.mark.parametrize("package", ["schedulers", "search", "stopper", "logger", "trainable", "utils"])
def test_names_that_are_found_late_are_listed(package: str) -> None:
    home = importlib.import_module(f"skate.tune.{package}")
    assert set(home.__all__) <= set(dir(home))
    assert all(getattr(home, name) is not None for name in home.__all__)


def test_nested_dicts() -> None:
    nested = {"a": {"b": {"c": 1}, "d": [1, {"e": 2}]}, "f": 3}
    assert utils.flatten_dict(nested) == {"f": 3, "a/d": [1, {"e": 2}], "a/b/c": 1}
    opened = utils.flatten_dict(nested, delimiter=".", flatten_list=True)
    assert opened == {"f": 3, "a.b.c": 1, "a.d.0": 1, "a.d.1.e": 2}
    with pytest.raises(ValueError, match="'a/b' contains the delimiter '/'"):
        utils.flatten_dict({"x": {"a/b": 1}}, prevent_delimiter=True)
    assert utils.unflattened_lookup("a/d/1/e", nested) == 2
    assert utils.unflattened_lookup("a/x", nested, default=7) == 7
    with pytest.raises(KeyError, match="a/x"):
        utils.unflattened_lookup("a/x", nested)
    with pytest.raises(IndexError):
        utils.unflattened_lookup("a/d/5", nested)


def test_dicts_put_together() -> None:
    first = {"a": {"b": 1, "c": 2}, "k": {"type": "x", "only": 1}}
    assert utils.merge_dicts(first, {"a": {"b": 5}, "new": 1})["a"] == {"b": 5, "c": 2}
    assert first["a"]["b"] == 1, "merge_dicts changes neither"
    with pytest.raises(KeyError, match="'z' is not a known setting; the settings are: b, c"):
        utils.deep_update(first, {"a": {"z": 1}})
    utils.deep_update(first, {"a": {"z": 1}}, allow_new_subkey_list=["a"])
    assert first["a"] == {"b": 1, "c": 2, "z": 1}
    utils.deep_update(first, {"k": {"type": "y"}}, override_all_if_type_changes=["k"])
    assert first["k"] == {"type": "y"}
    utils.deep_update(first, {"a": {"b": 9}}, override_all_key_list=["a"])
    assert first["a"] == {"b": 9}


def test_warm_starts() -> None:
    utils.validate_warmstart(["x"], [{"x": 1}], [0.5])
    with pytest.raises(TypeError, match="points_to_evaluate must be a list, not dict"):
        utils.validate_warmstart(["x"], {"x": 1}, [0.5])
    with pytest.raises(ValueError, match="has 1 values, the space 2: x, y"):
        utils.validate_warmstart(["x", "y"], [{"x": 1}], [])
    with pytest.raises(ValueError, match="2 points_to_evaluate were given with 1 evaluated_rewards"):
        utils.validate_warmstart(["x"], [{"x": 1}, {"x": 2}], [0.5])


def test_slow_blocks_are_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), utils.warn_if_slow("quick", threshold=60):
        pass
    with caplog.at_level(logging.WARNING), utils.warn_if_slow("saving", threshold=-1):
        pass
    assert [record.getMessage().split(" took ")[0] for record in caplog.records] == ["saving"]


LOCK = threading.Lock()


def test_what_cannot_be_serialized_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    def trainable(config: dict[str, Any]) -> None:
        with inner:
            tune.report({"x": 1})

    inner = LOCK
    assert utils.diagnose_serialization(lambda config: None) is True
    assert utils.diagnose_serialization(trainable) == {"inner"}
    assert "cannot be serialized: create it in the trainable" in capsys.readouterr().out


class Counting(tune.Trainable):
    kept = True

    def setup(self, config: dict[str, Any]) -> None:
        self.count = config["start"]

    def step(self) -> dict[str, Any]:
        self.count += 1
        return {"count": self.count}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        Path(checkpoint_dir, "count").write_text(str(self.count))

    def load_checkpoint(self, checkpoint_dir: Any) -> None:
        self.count = int(Path(checkpoint_dir, "count").read_text())


class Forgetful(Counting):
    def restore(self, checkpoint_path: Any) -> None:
        pass


def test_saving_and_restoring_is_tried() -> None:
    with pytest.raises(RuntimeError, match="call init"):
        utils.validate_save_restore(Counting)
    ray.init(num_cpus=2)
    try:
        assert utils.validate_save_restore(Counting, {"start": 3}) is True
        with pytest.raises(
            RuntimeError, match="was saved after 3 iterations.*calls its next one number 1, not 4"
        ):
            utils.validate_save_restore(Forgetful, {"start": 3})
    finally:
        ray.shutdown()


def nvidia_smi(folder: Path, *used: int) -> None:
    """A program that prints, call by call, the next amount of used memory in MiB."""
    (folder / "left").write_text("\n".join(map(str, used)) + "\n")
    program = folder / "nvidia-smi"
    program.write_text(
        f"#!/bin/sh\ncd {folder}\nread used < left\nsed -i 1d left\n"
        'echo "0, GPU-aaaa-1, $used, 1000"\necho "1, GPU-bbbb-2, 0, 1000"\n'
    )
    program.chmod(0o755)


def test_waiting_for_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    nvidia_smi(tmp_path, 500, 300, 5)
    assert utils.wait_for_gpu(0, delay_s=0) is True
    assert (tmp_path / "left").read_text() == "", "it was looked at three times"
    nvidia_smi(tmp_path, 500, 300)
    with pytest.raises(
        RuntimeError, match="GPU aaaa-1 has 300 MiB of 1000 in use after 2 checks.*the limit is 10"
    ):
        utils.wait_for_gpu("aaaa-1", retry=2, delay_s=0)
    nvidia_smi(tmp_path, 500)
    assert utils.wait_for_gpu("0", gpu_memory_limit=600) is True
    nvidia_smi(tmp_path, 500)
    with pytest.raises(ValueError, match="there is no GPU 7; the GPUs are 0, 1"):
        utils.wait_for_gpu(7)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RuntimeError, match="nvidia-smi, which cannot be run"):
        utils.wait_for_gpu(0)


def test_callbacks_as_one() -> None:
    class Kept(Callback):
        def __init__(self, state: Any) -> None:
            self.state, self.received = state, []

        def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
            self.received.append(trial)

        def get_state(self) -> Any:
            return self.state

        def set_state(self, state: Any) -> None:
            self.state = state

    first, second = Kept(None), Kept({"a": 1})
    both = CallbackList([first, second])
    both.on_trial_start(iteration=1, trials=[], trial="t")
    assert first.received == second.received == ["t"]
    assert both.get_state() == {0: None, 1: {"a": 1}}
    both.set_state({0: {"b": 2}})
    assert (first.state, second.state) == ({"b": 2}, {"a": 1})
    assert not hasattr(both, "on_nothing")


def test_registered_trainables() -> None:
    from skate.tune import registry

    tune.register_trainable("names-function", lambda config: None)
    tune.register_trainable("names-class", Counting)
    assert registry.is_function_trainable("names-function")
    assert not registry.is_function_trainable("names-class")
    assert registry.get_trainable_cls("names-class") is Counting
    with pytest.raises(tune.TuneError, match="Unknown trainable: names-none"):
        registry.validate_trainable("names-none")


@pytest.mark.filterwarnings("ignore")  # TensorFlow's own
def test_keras_reports_to_its_trial(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")

    def train(config: dict[str, Any]) -> None:
        import tensorflow as tf

        from skate.tune.integration.keras import TuneReportCheckpointCallback

        model = tf.keras.Sequential([tf.keras.layers.Input((2,)), tf.keras.layers.Dense(1)])
        model.compile(optimizer="sgd", loss="mse")
        callback = TuneReportCheckpointCallback(metrics={"mse": "loss"}, checkpoint_on="epoch_end")
        model.fit(tf.ones((4, 2)), tf.ones((4, 1)), epochs=2, verbose=0, callbacks=[callback])

    ray.init(num_cpus=2)
    try:
        config = tune.RunConfig(storage_path=str(tmp_path), name="keras")
        (result,) = tune.Tuner(train, run_config=config).fit()
    finally:
        ray.shutdown()
    assert result.error is None
    assert result.metrics["training_iteration"] == 2
    assert result.metrics["mse"] >= 0
    assert any(Path(result.checkpoint.path).iterdir())
