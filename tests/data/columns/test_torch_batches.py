"""Batches into torch, TensorFlow (a stand-in) and JAX (a stand-in)."""

from __future__ import annotations

import datetime as dt
import sys
import types
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skate.data
from skate.data.block.names import UnknownColumn
from skate.data.collate_fn import (
    ArrowBatchCollateFn,
    CollateFn,
    DefaultCollateFn,
    NumpyBatchCollateFn,
    PandasBatchCollateFn,
)

torch = pytest.importorskip("torch")

ROWS = [
    {
        "a": i,
        "f": float(i),
        "s": str(i),
        "l": [i, i],
        "r": list(range(i)),
        "b": i % 2 == 0,
        "t": np.full((2, 3), i, np.uint8),
        "rt": np.zeros(i + 1, np.float32),
        "n": None if i == 1 else i,
        "d": dt.datetime(2024, 1, 1 + i),
        "st": {"a": i},
    }
    for i in range(4)
]


def dataset(*names: str) -> Any:
    return skate.data.from_items([{name: row[name] for name in names} for row in ROWS])


def first(*names: str, **options: Any) -> Any:
    return next(iter(dataset(*names).iter_torch_batches(batch_size=4, **options)))


@pytest.mark.parametrize(
    ("name", "dtype", "shape"),
    [
        ("a", torch.int64, (4,)),
        ("f", torch.float64, (4,)),
        ("b", torch.bool, (4,)),
        ("l", torch.int64, (4, 2)),
        ("t", torch.uint8, (4, 2, 3)),
        ("n", torch.float64, (4,)),
    ],
)
def test_columns_of_numbers_are_tensors(name: str, dtype: Any, shape: tuple[int, ...]) -> None:
    made = first(name)[name]
    assert (made.dtype, tuple(made.shape), made.device.type) == (dtype, shape, torch.empty(0).device.type)
    made.zero_()  # memory of its own: the block stays as it was
    assert first(name)[name].sum() != 0


@pytest.mark.parametrize("name", ["s", "d", "st"])
def test_other_columns_are_lists(name: str) -> None:
    assert first(name, "a")[name] == [row[name] for row in ROWS]


@pytest.mark.parametrize("name", ["r", "rt"])
def test_ragged_columns_are_lists_of_tensors(name: str) -> None:
    found = first(name)[name]
    assert [each.tolist() for each in found] == [list(row[name]) for row in ROWS]
    assert all(isinstance(each, torch.Tensor) for each in found)


def test_dtypes() -> None:
    assert {each.dtype for each in first("a", "f", "b", "t", dtypes=torch.float16).values()} == {
        torch.float16
    }
    assert first("a", "s", dtypes=torch.float32)["s"] == ["0", "1", "2", "3"]
    one = first("a", "f", dtypes={"a": torch.float32})
    assert (one["a"].dtype, one["f"].dtype) == (torch.float32, torch.float64)
    with pytest.raises(UnknownColumn, match="did you mean 'aa'"):
        next(iter(dataset("a").add_column("aa", lambda df: 1).iter_torch_batches(dtypes={"aaa": torch.int8})))
    with pytest.raises(TypeError, match="column 's' cannot be converted to torch.float32"):
        first("s", dtypes={"s": torch.float32})


def test_collate_functions_are_given_what_they_ask_for() -> None:
    class Arrow(ArrowBatchCollateFn):
        def __call__(self, batch: Any) -> Any:
            return {"kind": [type(batch).__name__], "x": torch.tensor(batch["a"].to_pylist())}

    class Numpy(NumpyBatchCollateFn):
        def __call__(self, batch: Any) -> Any:
            return type(batch["a"])

    class Pandas(PandasBatchCollateFn):
        def __call__(self, batch: Any) -> Any:
            return batch["a"].sum()

    class Plain(CollateFn[Any]):
        def __call__(self, batch: Any) -> Any:
            return sorted(batch)

    assert first("a", collate_fn=Arrow())["kind"] == ["Table"]
    assert first("a", collate_fn=Numpy()) is np.ndarray
    assert first("a", collate_fn=Pandas()) == 6
    assert first("a", "f", collate_fn=Plain()) == ["a", "f"]
    assert first("a", collate_fn=lambda batch: torch.LongTensor(batch["a"])).tolist() == [0, 1, 2, 3]
    with pytest.raises(NotImplementedError, match="must define __call__"):
        CollateFn[Any]()({})
    with pytest.raises(ValueError, match="cannot be used with dtypes"):
        first("a", collate_fn=dict, dtypes=torch.int8)


def test_the_default_collate_function() -> None:
    table = pa.concat_tables([pa.table({"a": [1, 2]}), pa.table({"a": [3]})])
    parts = DefaultCollateFn()(table)
    assert [each.tolist() for each in parts["a"]] == [[1, 2], [3]]
    whole = DefaultCollateFn(dtypes=torch.float32, combine_chunks=True)(table)
    assert whole["a"].tolist() == [1.0, 2.0, 3.0]
    assert whole["a"].dtype == torch.float32


def test_sizes_epochs_and_shuffles() -> None:
    data = skate.data.range(10)
    sizes = [len(batch["id"]) for batch in data.iter_torch_batches(batch_size=4)]
    assert sizes == [4, 4, 2]
    loop = data.iter_torch_batches(batch_size=4, drop_last=True, prefetch_batches=0)
    assert [len(list(loop)) for _ in range(2)] == [2, 2]
    drawn = data.iter_torch_batches(batch_size=5, local_shuffle_buffer_size=10, local_shuffle_seed=3)
    seen = [value for batch in drawn for value in batch["id"].tolist()]
    assert sorted(seen) == list(range(10))


def test_iterators_have_the_same() -> None:
    batch = next(iter(dataset("a").iterator().iter_torch_batches(batch_size=2)))
    assert batch["a"].tolist() == [0, 1]


def test_to_torch() -> None:
    data = dataset("a", "f", "b")
    [(features, label)] = list(data.to_torch(label_column="f", batch_size=4))
    assert (tuple(features.shape), tuple(label.shape)) == ((4, 2), (4, 1))
    [(named, _)] = list(
        data.to_torch(
            label_column="f",
            feature_columns={"q": ["a"], "z": ["b", "a"]},
            feature_column_dtypes={"q": torch.float32, "z": torch.int8},
            batch_size=4,
        )
    )
    assert {key: (each.dtype, tuple(each.shape)) for key, each in named.items()} == {
        "q": (torch.float32, (4, 1)),
        "z": (torch.int8, (4, 2)),
    }
    [(listed, none)] = list(data.to_torch(feature_columns=[["a"], ["a", "b"]], batch_size=4))
    assert ([tuple(each.shape) for each in listed], none) == ([(4, 1), (4, 2)], None)
    flat = data.to_torch(
        label_column="f",
        feature_columns=["a"],
        batch_size=4,
        label_column_dtype=torch.int64,
        unsqueeze_label_tensor=False,
        unsqueeze_feature_tensors=False,
    )
    loader = torch.utils.data.DataLoader(flat, batch_size=None)
    for _ in range(2):
        [(x, y)] = list(loader)
        assert (x.tolist(), y.tolist(), y.dtype) == ([0, 1, 2, 3], [0, 1, 2, 3], torch.int64)
    with pytest.raises(TypeError, match="column 's' has values of string"):
        list(dataset("a", "s").to_torch(label_column="a"))


# -- programs of the mission's documents


def test_a_text_column_may_be_left_in() -> None:
    data = skate.data.from_items([{"text": f"Some long text {i}", "label": i} for i in range(100)])
    data = data.map(lambda row: {"text": row["text"].lower(), "label": row["label"]})
    data = data.filter(lambda row: len(row["text"]) > 10)
    for batch in data.iterator().iter_torch_batches(batch_size=64):
        assert batch["text"][0].startswith("some long text")
        assert batch["label"].dtype == torch.int64


def test_a_two_dimensional_array_may_be_set_as_a_column_of_a_frame() -> None:
    def tokenize(batch: Any) -> Any:
        texts = batch["instruction"].tolist()
        batch["input_ids"] = np.array([[len(text)] * 8 for text in texts])
        batch["attention_mask"] = np.ones((len(texts), 8), np.int64)
        return batch

    data = skate.data.from_items([{"instruction": "x" * i, "output": "y"} for i in range(10)])
    data = data.map_batches(tokenize, batch_format="pandas", batch_size=4)
    batch = next(iter(data.iter_torch_batches(batch_size=8)))
    assert tuple(batch["input_ids"].shape) == (8, 8)
    assert batch["instruction"][3] == "xxx"


def test_collate_with_text_as_a_tokenizer_wants_it() -> None:
    def collate(batch: Any) -> Any:
        outputs = {"length": torch.tensor([len(text) for text in list(batch["sentence1"])])}
        outputs["labels"] = torch.LongTensor(batch["label"])
        return outputs

    data = skate.data.from_items([{"sentence1": "a" * i, "label": i} for i in range(5)])
    found = next(iter(data.iter_torch_batches(batch_size=5, collate_fn=collate)))
    assert found["length"].tolist() == found["labels"].tolist() == [0, 1, 2, 3, 4]


# -- frameworks that are not here


class _Spec:
    def __init__(self, shape: Any, dtype: Any, name: Any = None) -> None:
        self.shape, self.dtype, self.name = shape, dtype, name


@pytest.fixture
def tensorflow(monkeypatch: pytest.MonkeyPatch) -> Any:
    """As much of TensorFlow as is used, over numpy."""
    tf: Any = types.ModuleType("tensorflow")

    def convert(values: Any, dtype: Any = None) -> Any:
        return np.asarray(values, dtype)

    tf.convert_to_tensor = convert
    tf.cast = lambda values, dtype: values.astype(dtype)
    tf.as_dtype = np.dtype
    tf.string = np.dtype(object)
    tf.TensorSpec = tf.RaggedTensorSpec = _Spec
    tf.ragged = types.SimpleNamespace(stack=lambda rows: ("ragged", [row.tolist() for row in rows]))
    made = types.SimpleNamespace(
        from_generator=lambda source, output_signature: types.SimpleNamespace(
            rows=lambda: list(source()), element_spec=output_signature
        )
    )
    tf.data = types.SimpleNamespace(Dataset=made)
    monkeypatch.setitem(sys.modules, "tensorflow", tf)
    return tf


def test_tf_batches(tensorflow: Any) -> None:
    data = dataset("a", "s", "t", "rt", "l")
    [batch] = list(data.iter_tf_batches(batch_size=4, dtypes={"a": "float32"}))
    assert batch["a"].dtype == np.float32
    assert batch["t"].shape == (4, 2, 3)
    assert batch["l"].shape == (4, 2)
    assert batch["s"].tolist() == ["0", "1", "2", "3"]
    assert batch["rt"][0] == "ragged"


def test_to_tf(tensorflow: Any) -> None:
    data = dataset("a", "f", "t")
    made = data.to_tf("t", ["a", "f"], additional_columns="a", batch_size=2)
    features, labels, more = made.element_spec
    assert (features.shape, features.dtype) == ((None, 2, 3), np.uint8)
    assert sorted(labels) == ["a", "f"]
    assert more.name == "a"
    rows = made.rows()
    assert len(rows) == 2
    assert rows[1][1]["f"].tolist() == [2.0, 3.0]
    with pytest.raises(UnknownColumn, match="the column 'zz'"):
        data.to_tf("zz", "a")


def test_jax_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    jnp: Any = types.ModuleType("jax.numpy")
    jnp.asarray = lambda values, dtype=None: np.asarray(values, dtype)
    monkeypatch.setitem(sys.modules, "jax", types.ModuleType("jax"))
    monkeypatch.setitem(sys.modules, "jax.numpy", jnp)
    data = dataset("a", "t")
    batches = list(data.iter_jax_batches(batch_size=3, dtypes={"a": "float32"}, paddings={"a": -1, "t": 0}))
    assert [batch["a"].tolist() for batch in batches] == [[0, 1, 2], [3, -1, -1]]
    assert batches[1]["t"].shape == (3, 2, 3)
    with pytest.raises(TypeError, match="JAX has no type for"):
        list(dataset("s").iter_jax_batches())
    assert next(iter(data.iter_jax_batches(collate_fn=sorted))) == ["a", "t"]


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    monkeypatch.setitem(sys.modules, "jax.numpy", None)
    with pytest.raises(ImportError, match="pip install tensorflow"):
        dataset("a").iter_tf_batches()
    with pytest.raises(ImportError, match="pip install jax"):
        dataset("a").iter_jax_batches()


def test_batches_outside_of_training_with_the_trainer_loaded() -> None:
    from skate.train.torch import TorchTrainer, get_device

    assert callable(TorchTrainer) and callable(get_device)
    (batch,) = skate.data.range(3).iter_torch_batches(batch_size=3)
    assert batch["id"].tolist() == [0, 1, 2]
