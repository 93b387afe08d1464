"""TensorFlow: two workers train one model. The logic also without the library, as it is not among those for development."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

import skate.train
from skate.train.tensorflow import TensorflowConfig, TensorflowTrainer
from skate.train.tensorflow.config import cluster
from skate.train.tensorflow.events import EVENTS, Events

PRELOAD: list[str] = []


def test_workers_find_each_other_by_their_addresses(fit: Any) -> None:
    def loop() -> Any:
        import os

        return os.environ["TF_CONFIG"], os.environ["RANK"]

    text, rank = fit(TensorflowTrainer, loop).return_value
    found = json.loads(text)
    assert found["task"] == {"type": "worker", "index": int(rank)}
    assert len(set(found["cluster"]["worker"])) == 2
    assert json.loads(cluster(["a:1", "b:2"], 1))["task"]["index"] == 1
    assert TensorflowConfig().backend_cls is not None


class Noting(Events):
    """Records the callback's reports."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.noted: list[Any] = []

    def _happened(self, event: str, logs: Mapping[str, Any] | None) -> None:
        self.noted.append((event, self._chosen(logs or {}), event in self._checkpoint_on))


def happen(callback: Any) -> None:
    """Call the events of an epoch of two batches like Keras."""
    callback.on_train_begin(None)
    callback.on_epoch_begin(0, None)
    for batch in range(2):
        callback.on_train_batch_begin(batch)
        callback.on_train_batch_end(batch, {"loss": 1.0 + batch})
    callback.on_epoch_end(0, {"loss": 0.5, "accuracy": 0.9})
    callback.on_train_end(logs={"loss": 0.5})


def test_events_that_are_reported() -> None:
    callback = Noting("epoch_end", ["train_batch_end"], None)
    happen(callback)
    assert callback.noted == [
        ("train_batch_end", {"loss": 1.0}, False),
        ("train_batch_end", {"loss": 2.0}, False),
        ("epoch_end", {"loss": 0.5, "accuracy": 0.9}, True),
    ]


def test_metrics_that_are_reported() -> None:
    for given, wanted in (
        ("loss", {"loss": 0.5}),
        (["accuracy"], {"accuracy": 0.9}),
        ({"l": "loss"}, {"l": 0.5}),
    ):
        callback = Noting("epoch_end", "epoch_end", given)
        happen(callback)
        assert callback.noted == [("epoch_end", wanted, True)]
    with pytest.raises(KeyError, match="has not logged 'f1'; it has logged: loss, accuracy"):
        happen(Noting("epoch_end", "epoch_end", "f1"))


def test_events_that_there_are_not() -> None:
    assert {"epoch_end", "test_batch_begin", "predict_end"} < set(EVENTS) and len(EVENTS) == 14
    with pytest.raises(ValueError, match="checkpoint_on must contain events of Keras, got 'epoch'"):
        Noting("epoch", "epoch_end", None)


def test_what_is_missing_is_named() -> None:
    import importlib.util

    if importlib.util.find_spec("tensorflow") is not None:
        pytest.skip("tensorflow is installed")
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'skate\[tensorflow\]'"):
        skate.train.tensorflow.prepare_dataset_shard  # noqa: B018


def model_of(tf: Any) -> Any:
    tf.keras.utils.set_random_seed(0)
    model = tf.keras.Sequential([tf.keras.layers.Input((1,)), tf.keras.layers.Dense(1)])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.1), loss="mse")
    return model


def with_keras(config: dict[str, Any]) -> Any:
    import tensorflow as tf

    import skate.train as train
    from skate.train.tensorflow import prepare_dataset_shard
    from skate.train.tensorflow.keras import ReportCheckpointCallback

    with tf.distribute.MultiWorkerMirroredStrategy().scope():  # first, as TensorFlow wants it
        model = model_of(tf)
    shard = train.get_dataset_shard("train").to_tf("x", "y", batch_size=4)
    model.fit(prepare_dataset_shard(shard), epochs=3, callbacks=[ReportCheckpointCallback()], verbose=0)


def by_hand(config: dict[str, Any]) -> Any:
    """Gradients summed over the workers by the strategy; each has its half of 16 rows."""
    import numpy as np
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    rank, size = strategy.cluster_resolver.task_id or 0, strategy.num_replicas_in_sync
    x = np.linspace(-1, 1, 16, dtype=np.float32)[rank * 16 // size : (rank + 1) * 16 // size]
    with strategy.scope():
        weights = tf.Variable([0.0, 0.0])

    @tf.function
    def step(x: Any) -> Any:
        def replica(x: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((x * weights[0] + weights[1] - (3 * x - 1)) ** 2)
            gradient = tape.gradient(loss, weights)
            total = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, gradient)
            weights.assign_sub(0.3 * total)
            return loss

        return strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(replica, args=(x,)), axis=None)

    return [float(step(tf.constant(x))) for _ in range(5)], size


def test_two_workers_compute_what_one_does(fit: Any) -> None:
    pytest.importorskip(
        "tensorflow", reason="tensorflow is not installed (1.4 GB; pip install 'skate[tensorflow]')"
    )
    two = fit(TensorflowTrainer, by_hand).return_value
    one = fit(TensorflowTrainer, by_hand, workers=1).return_value
    assert (two[1], one[1]) == (2, 1)
    assert two[0] == pytest.approx(one[0], abs=1e-5)


def test_keras_reports_epochs_with_checkpoints(fit: Any) -> None:
    pytest.importorskip(
        "tensorflow", reason="tensorflow is not installed (1.4 GB; pip install 'skate[tensorflow]')"
    )
    import tensorflow as tf

    from skate.train.tensorflow import TensorflowCheckpoint

    rows = [{"x": i / 16, "y": 3 * i / 16 - 1} for i in range(16)]
    result = fit(TensorflowTrainer, with_keras, workers=1, datasets={"train": skate.data.from_items(rows)})
    losses = list(result.metrics_dataframe["loss"])
    assert len(losses) == 3 and losses[-1] < losses[0]
    found = TensorflowCheckpoint(result.checkpoint.path).get_model()
    assert [each.shape for each in found.get_weights()] == [(1, 1), (1,)]
    assert tf.keras.Model is not None
