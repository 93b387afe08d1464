"""XGBoost and LightGBM: two workers, each with half of the rows, build the model that one process builds of all rows."""

from __future__ import annotations

import importlib.util
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import skate
import skate.train

np = pytest.importorskip("numpy", reason="the extra skate[data] is not installed")
pytest.importorskip("sklearn", reason="its table of tumours is the data")

LIBRARIES = [name for name in ("xgboost", "lightgbm") if importlib.util.find_spec(name) is not None]
PRELOAD = ["pandas", *LIBRARIES]
PARAMS: dict[str, dict[str, Any]] = {
    # One thread, and exact sums: whole numbers as features make bins that do not hang on who counts what.
    "xgboost": {
        "objective": "binary:logistic",
        "max_depth": 3,
        "nthread": 1,
        "eval_metric": ["logloss", "error"],
    },
    "lightgbm": {
        "objective": "binary",
        "metric": ["binary_logloss", "binary_error"],
        "num_leaves": 7,
        "num_threads": 1,
        "verbose": -1,
        "min_data_in_leaf": 5,
        "pre_partition": True,
        "seed": 0,
    },
}
ROUNDS = 5


def table() -> Any:
    """Malignant or not, and ten numbers of each, rounded to few values."""
    from sklearn.datasets import load_breast_cancer

    features, label = load_breast_cancer(return_X_y=True)
    spread = features[:, :10]
    low, high = spread.min(0), spread.max(0)
    return np.floor((spread - low) / (high - low) * 30), label


def rows() -> list[dict[str, float]]:
    features, label = table()
    return [
        {**{f"f{i}": float(value) for i, value in enumerate(row)}, "label": int(kind)}
        for row, kind in zip(features, label, strict=True)
    ]


def frame_of_shard() -> Any:
    import pandas as pd

    import skate.train as train

    return pd.concat(train.get_dataset_shard("train").iter_batches(batch_format="pandas"))


def with_xgboost(config: dict[str, Any]) -> Any:
    import xgboost

    from skate.train.xgboost import RayTrainReportCallback

    frame = frame_of_shard()
    data = xgboost.DMatrix(frame.drop(columns="label"), label=frame["label"])
    callback = RayTrainReportCallback(**config["callback"])
    xgboost.train(
        config["params"],
        data,
        config["rounds"],
        evals=[(data, "train")],
        verbose_eval=False,
        callbacks=[callback],
    )
    return len(frame), xgboost.collective.get_rank(), xgboost.collective.get_world_size()


def with_lightgbm(config: dict[str, Any]) -> Any:
    import lightgbm

    from skate.train.lightgbm import RayTrainReportCallback, get_network_params, normalize_pandas_for_lightgbm

    frame = normalize_pandas_for_lightgbm(frame_of_shard())
    data = lightgbm.Dataset(frame.drop(columns="label"), label=frame["label"])
    network = get_network_params()
    lightgbm.train(
        {**config["params"], **network, "tree_learner": config.get("tree_learner", "data")},
        data,
        config["rounds"],
        valid_sets=[data],
        valid_names=["train"],
        callbacks=[RayTrainReportCallback(**config["callback"])],
    )
    return len(frame), sorted(network), network.get("num_machines", 1)


def trainer_of(library: str) -> Any:
    module = importlib.import_module(f"skate.train.{library}")
    return module, getattr(module, {"xgboost": "XGBoostTrainer", "lightgbm": "LightGBMTrainer"}[library])


def run(fit: Any, library: str, workers: int = 2, **callback: Any) -> Any:
    pytest.importorskip(library, reason=f"the extra skate[{library}] is not installed")
    _, trainer = trainer_of(library)
    config = {"params": PARAMS[library], "rounds": ROUNDS, "callback": callback}
    loop = {"xgboost": with_xgboost, "lightgbm": with_lightgbm}[library]
    return fit(trainer, loop, config, workers=workers, datasets={"train": skate.data.from_items(rows())})


def predictions(library: str, checkpoint: Any, features: Any) -> Any:
    module, trainer = trainer_of(library)
    model = module.RayTrainReportCallback.get_model(checkpoint)
    assert type(trainer.get_model(checkpoint)) is type(model)
    if library == "xgboost":
        import xgboost

        return model.predict(xgboost.DMatrix(features, feature_names=[f"f{i}" for i in range(10)]))
    return model.predict(features)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_two_workers_build_the_model_of_one(fit: Any, library: str) -> None:
    two, one = run(fit, library), run(fit, library, workers=1)
    features, label = table()
    found, wanted = (predictions(library, each.checkpoint, features) for each in (two, one))
    assert two.return_value[0] in (284, 285), "a worker has half of the rows"
    assert two.return_value[2] == 2
    # Features have at most 31 values, so the bins are the same; sums of floats differ in their order.
    assert np.abs(found - wanted).mean() < 0.02
    assert ((found > 0.5) == label).mean() > 0.93
    assert len(two.metrics_dataframe) >= ROUNDS
    names = {"xgboost": "train-logloss", "lightgbm": "train-binary_logloss"}
    values = list(two.metrics_dataframe[names[library]])
    assert values[-1] < values[0]


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_metrics_are_chosen_and_checkpoints_are_frequent(fit: Any, library: str) -> None:
    metric = {"xgboost": "train-error", "lightgbm": "train-binary_error"}[library]
    result = run(fit, library, workers=1, metrics={"wrong": metric}, frequency=2, filename="mine.json")
    assert set(result.metrics) == {"wrong"}
    assert len(result.best_checkpoints) == 3, "after rounds 2 and 4, and at the end"
    module, _ = trainer_of(library)
    module.RayTrainReportCallback.get_model(result.checkpoint, filename="mine.json")
    with pytest.raises(FileNotFoundError, match="has no file"):
        module.RayTrainReportCallback.get_model(result.checkpoint)


def test_a_run_goes_on_from_its_last_round_when_a_worker_has_failed(fit: Any, tmp_path: Path) -> None:
    pytest.importorskip("xgboost", reason="the extra skate[xgboost] is not installed")
    from skate.train.xgboost import RayTrainReportCallback, XGBoostTrainer

    def loop(config: dict[str, Any]) -> Any:
        import xgboost

        import skate.train as train

        class Breaks(xgboost.callback.TrainingCallback):  # type: ignore[misc]
            def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
                if (
                    train.get_context().get_world_rank() == 1
                    and epoch == 2
                    and not os.path.exists(config["broke"])
                ):
                    open(config["broke"], "w").close()
                    os.kill(os.getpid(), signal.SIGKILL)
                return False

        frame, checkpoint = frame_of_shard(), train.get_checkpoint()
        data = xgboost.DMatrix(frame.drop(columns="label"), label=frame["label"])
        before = RayTrainReportCallback.get_model(checkpoint) if checkpoint else None
        done = before.num_boosted_rounds() if before else 0
        more: dict[str, Any] = {
            "callbacks": [Breaks(), RayTrainReportCallback(frequency=1)],
            "verbose_eval": False,
        }
        xgboost.train(
            config["params"], data, ROUNDS - done, evals=[(data, "train")], xgb_model=before, **more
        )
        return done

    config = {"params": PARAMS["xgboost"], "broke": str(tmp_path / "broke")}
    result = fit(XGBoostTrainer, loop, config, failures=1, datasets={"train": skate.data.from_items(rows())})
    assert result.return_value == 2, "two rounds were kept when the third broke"
    assert RayTrainReportCallback.get_model(result.checkpoint).num_boosted_rounds() == ROUNDS


def test_workers_of_lightgbm_that_would_build_models_of_their_own_are_told(fit: Any) -> None:
    pytest.importorskip("lightgbm", reason="the extra skate[lightgbm] is not installed")
    from skate.train.lightgbm import LightGBMTrainer

    config = {"params": PARAMS["lightgbm"], "rounds": 1, "callback": {}, "tree_learner": "serial"}
    with pytest.raises(skate.train.WorkerGroupError, match='"tree_learner": "data"'):
        fit(LightGBMTrainer, with_lightgbm, config, datasets={"train": skate.data.from_items(rows())})


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_the_trainers_of_old_are_refused(library: str) -> None:
    pytest.importorskip(library, reason=f"the extra skate[{library}] is not installed")
    _, trainer = trainer_of(library)
    with pytest.raises(DeprecationWarning, match=f"calls {library}.train itself"):
        trainer(lambda: None, params={"objective": "binary"})


def test_frames_of_arrow_become_frames_of_pandas() -> None:
    pytest.importorskip("lightgbm", reason="the extra skate[lightgbm] is not installed")
    import pandas as pd
    import pyarrow as pa

    from skate.train.lightgbm import normalize_pandas_for_lightgbm

    frame = pd.DataFrame({"a": [1, None], "b": [True, False], "c": [0.5, 1.5], "d": ["x", "y"]})
    kinds = {"a": pa.int64(), "b": pa.bool_(), "c": pa.float32()}
    frame = frame.astype({name: pd.ArrowDtype(kind) for name, kind in kinds.items()})
    found = normalize_pandas_for_lightgbm(frame)
    assert [str(each) for each in found.dtypes][:3] == ["Int64", "boolean", "Float32"]
    assert normalize_pandas_for_lightgbm(found) is found


def test_network_parameters_are_asked_in_workers() -> None:
    pytest.importorskip("lightgbm", reason="the extra skate[lightgbm] is not installed")
    from skate.train.lightgbm import get_network_params

    with pytest.raises(RuntimeError, match="training function"):
        get_network_params()


def test_checkpoints_of_models() -> None:
    pytest.importorskip("xgboost", reason="the extra skate[xgboost] is not installed")
    pytest.importorskip("lightgbm", reason="the extra skate[lightgbm] is not installed")
    import lightgbm
    import xgboost

    from skate.train.lightgbm import LightGBMCheckpoint
    from skate.train.xgboost import XGBoostCheckpoint

    features, label = table()
    one = xgboost.train(PARAMS["xgboost"], xgboost.DMatrix(features, label=label), 2)
    found = XGBoostCheckpoint.from_model(one).get_model().predict(xgboost.DMatrix(features))
    assert np.array_equal(found, one.predict(xgboost.DMatrix(features)))
    other = lightgbm.train(PARAMS["lightgbm"], lightgbm.Dataset(features, label=label), 2)
    assert np.allclose(
        LightGBMCheckpoint.from_model(other).get_model().predict(features), other.predict(features)
    )
