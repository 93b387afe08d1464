"""Libraries in the workers of a run: Transformers, Lightning, XGBoost, LightGBM. Each is skipped where it is not installed."""

from __future__ import annotations

import importlib.util
import os

import pytest
import ray
from ray.train import RunConfig, ScalingConfig

pytestmark = pytest.mark.usefixtures("loaded")


@pytest.fixture(scope="module")
def loaded():
    """A node with two CPUs; Skate's workers begin with the libraries, which take seconds to load."""
    options = {"num_cpus": 2, "num_gpus": 0, "include_dashboard": False, "log_to_driver": False}
    if os.environ.get("SKATE_CONFORMANCE_TARGET", "skate") == "skate":
        wanted = ("pandas", "torch", "transformers.trainer", "lightning.pytorch", "xgboost", "lightgbm")
        options["preload"] = [name for name in wanted if importlib.util.find_spec(name.partition(".")[0])]
    else:
        options["address"] = "local"
    with pytest.MonkeyPatch.context() as patch:
        for name in (
            "OMP_NUM_THREADS",
            "HF_HUB_OFFLINE",
        ):  # two CPUs for two workers, and nothing from the network
            patch.setenv(name, "1")
        ray.init(**options)
        yield
        ray.shutdown()


def installed(library):
    pytest.importorskip(library, reason=f"{library} is not installed")


@pytest.fixture
def fit(tmp_path):
    """Runs a function in workers: ``fit(trainer, function, config)``."""

    def run(trainer, function, config=None, workers=2, **given):
        return trainer(
            function,
            train_loop_config=config,
            scaling_config=ScalingConfig(num_workers=workers),
            run_config=RunConfig(name="run", storage_path=str(tmp_path / "storage")),
            **given,
        ).fit()

    return run


def rows(count):
    return [{"a": float(i % 7), "b": float(i % 5), "label": i % 2} for i in range(count)]


def frame_of_shard():
    import pandas as pd

    return pd.concat(ray.train.get_dataset_shard("train").iter_batches(batch_format="pandas"))


def test_transformers_trainer(fit, tmp_path):
    installed("transformers")
    from ray.train.torch import TorchTrainer

    def loop(config):
        import torch
        from ray.train.huggingface.transformers import RayTrainReportCallback, prepare_trainer
        from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

        torch.manual_seed(0)
        model = GPT2LMHeadModel(GPT2Config(vocab_size=8, n_positions=8, n_embd=8, n_layer=1, n_head=1))
        arguments = TrainingArguments(
            config["folder"],
            per_device_train_batch_size=2,
            max_steps=2,
            save_steps=1,
            logging_steps=1,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
        )
        shard = ray.train.get_dataset_shard("train")
        trainer = Trainer(model, arguments, train_dataset=shard.iter_torch_batches(batch_size=2))
        trainer.add_callback(RayTrainReportCallback())
        found = prepare_trainer(trainer)
        found.train()
        return found is trainer, isinstance(found, Trainer), found.state.global_step

    tokens = [{"input_ids": [1, 2, 3], "labels": [1, 2, 3]} for _ in range(16)]
    result = fit(
        TorchTrainer, loop, {"folder": str(tmp_path / "out")}, datasets={"train": ray.data.from_items(tokens)}
    )
    assert result.return_value == (True, True, 2)
    assert "loss" in result.metrics and len(result.best_checkpoints) == 2
    with result.checkpoint.as_directory() as folder:
        assert "model.safetensors" in os.listdir(os.path.join(folder, "checkpoint"))


def test_accelerate_computes_on_the_device_of_the_worker(fit):
    installed("torch")
    from ray.train.torch import TorchTrainer

    def loop():
        import importlib.util

        from ray.train.torch import get_device

        found = [os.environ["ACCELERATE_TORCH_DEVICE"]]
        if importlib.util.find_spec("accelerate"):
            from accelerate import Accelerator

            found.append(str(Accelerator(cpu=True).device))
        return set(found) == {str(get_device())}

    assert fit(TorchTrainer, loop).return_value is True


@pytest.mark.parametrize("workers", [0, 2])
def test_linear_example(fit, workers):
    installed("torch")
    from ray.train.examples.pytorch.torch_linear_example import train_func
    from ray.train.torch import TorchTrainer

    def loop(config):
        reports = train_func(config)
        assert reports[-1]["loss"] < reports[0]["loss"]
        return [sorted(each) for each in reports]

    result = fit(TorchTrainer, loop, {"lr": 1e-2, "hidden_size": 1, "batch_size": 4, "epochs": 3}, workers)
    assert result.return_value == [["loss"]] * 3
    assert list(result.metrics) == ["loss"]


def test_lightning_trainer(fit):
    installed("lightning")
    from ray.train.torch import TorchTrainer

    def loop():
        import lightning.pytorch as pl
        import torch
        from ray.train.lightning import (
            RayDDPStrategy,
            RayLightningEnvironment,
            RayTrainReportCallback,
            prepare_trainer,
        )

        class Module(pl.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(1, 1)

            def training_step(self, batch, index):
                loss = (self.layer(batch[0]) - batch[1]).pow(2).mean()
                self.log("loss", loss)
                return loss

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        x = torch.linspace(-1, 1, 8).reshape(-1, 1)
        data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, 3 * x), batch_size=2)
        options = {"enable_checkpointing": False, "enable_progress_bar": False, "logger": False}
        trainer = pl.Trainer(
            max_epochs=2,
            accelerator="cpu",
            devices="auto",
            strategy=RayDDPStrategy(),
            plugins=[RayLightningEnvironment()],
            callbacks=[RayTrainReportCallback()],
            enable_model_summary=False,
            **options,
        )
        message = ""
        try:
            prepare_trainer(pl.Trainer(accelerator="cpu", **options))
        except RuntimeError as error:
            message = str(error)
        prepare_trainer(trainer).fit(Module(), data)
        return trainer.world_size, trainer.global_rank, trainer.global_step, "Ray" in message

    result = fit(TorchTrainer, loop)
    assert result.return_value == (2, 0, 4, True)
    assert {"loss", "epoch", "step"} <= set(result.metrics) and result.metrics["epoch"] == 1
    with result.checkpoint.as_directory() as folder:
        assert "checkpoint.ckpt" in os.listdir(folder)


def test_xgboost_trainer(fit):
    installed("xgboost")
    from ray.train.xgboost import RayTrainReportCallback, XGBoostConfig, XGBoostTrainer

    def loop(config):
        import xgboost

        frame = frame_of_shard()
        data = xgboost.DMatrix(frame[["a", "b"]], label=frame["label"])
        callback = RayTrainReportCallback(metrics={"wrong": "train-error"}, frequency=2)
        params = {"objective": "binary:logistic", "eval_metric": "error", "nthread": 1}
        xgboost.train(
            params, data, config["rounds"], evals=[(data, "train")], callbacks=[callback], verbose_eval=False
        )
        return xgboost.collective.get_rank(), xgboost.collective.get_world_size()

    result = fit(
        XGBoostTrainer,
        loop,
        {"rounds": 3},
        xgboost_config=XGBoostConfig(),
        datasets={"train": ray.data.from_items(rows(60))},
    )
    assert result.return_value == (0, 2)
    assert list(result.metrics) == ["wrong"]
    assert len(result.best_checkpoints) == 2, "after the second round and at the end"
    assert RayTrainReportCallback.get_model(result.checkpoint).num_boosted_rounds() == 3


def test_lightgbm_trainer(fit):
    installed("lightgbm")
    from ray.train.lightgbm import LightGBMConfig, LightGBMTrainer, RayTrainReportCallback, get_network_params

    def loop():
        import lightgbm

        frame = frame_of_shard().astype(float)
        network = get_network_params()
        params = {
            "objective": "binary",
            "metric": "binary_error",
            "verbose": -1,
            "num_threads": 1,
            "min_data_in_leaf": 1,
        }
        data = lightgbm.Dataset(frame[["a", "b"]], label=frame["label"])
        lightgbm.train(
            {**params, "tree_learner": "data", "pre_partition": True, **network},
            data,
            3,
            valid_sets=[data],
            valid_names=["train"],
            callbacks=[RayTrainReportCallback(checkpoint_at_end=True)],
        )
        return sorted(network), network["num_machines"], len(network["machines"].split(","))

    result = fit(
        LightGBMTrainer,
        loop,
        lightgbm_config=LightGBMConfig(),
        datasets={"train": ray.data.from_items(rows(60))},
    )
    assert result.return_value == (["local_listen_port", "machines", "num_machines"], 2, 2)
    assert list(result.metrics) == ["train-binary_error"]
    assert RayTrainReportCallback.get_model(result.checkpoint).current_iteration() == 3


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_checkpoints_of_models(library):
    installed(library)
    import numpy as np

    x, y = np.arange(40.0).reshape(20, 2), np.arange(20) % 2
    if library == "xgboost":
        import xgboost
        from ray.train.xgboost import XGBoostCheckpoint as Kind

        model = xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(x, label=y), 2)
    else:
        import lightgbm
        from ray.train.lightgbm import LightGBMCheckpoint as Kind

        model = lightgbm.train({"objective": "binary", "verbose": -1}, lightgbm.Dataset(x, label=y), 2)
    checkpoint = Kind.from_model(model)
    assert isinstance(checkpoint, ray.train.Checkpoint) and Kind.MODEL_FILENAME in os.listdir(checkpoint.path)
    assert type(checkpoint.get_model()) is type(model)


def test_frames_for_lightgbm():
    installed("lightgbm")
    import pandas as pd
    import pyarrow as pa
    from ray.train.lightgbm import normalize_pandas_for_lightgbm

    frame = pd.DataFrame({"a": [1, 2], "b": [True, False], "c": [0.5, 1.5], "n": [1, 2]})
    frame = frame.astype(
        {"a": pd.ArrowDtype(pa.int32()), "b": pd.ArrowDtype(pa.bool_()), "c": pd.ArrowDtype(pa.float64())}
    )
    found = normalize_pandas_for_lightgbm(frame)
    assert [str(each) for each in found.dtypes] == ["Int32", "boolean", "Float64", "int64"]


def test_the_trainers_of_old_are_refused():
    installed("xgboost")
    from ray.train.xgboost import XGBoostTrainer

    with pytest.raises(DeprecationWarning):
        XGBoostTrainer(label_column="label", params={}, datasets={}, train_loop_per_worker=print)
