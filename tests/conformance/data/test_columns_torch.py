"""Batches as torch tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import ray
import ray.data

torch = pytest.importorskip("torch")
from ray.data.collate_fn import ArrowBatchCollateFn, NumpyBatchCollateFn, PandasBatchCollateFn

pytestmark = [
    pytest.mark.usefixtures("cluster"),
    pytest.mark.filterwarnings("ignore:The given NumPy array is not writable"),
]

ROWS = [
    {"a": i, "f": float(i), "b": i % 2 == 0, "l": [i, i], "t": np.full((2, 2), i, np.uint8)} for i in range(4)
]


def data(*names: str) -> Any:
    rows = [{name: row[name] for name in names or row} for row in ROWS]
    return ray.data.from_items(rows, override_num_blocks=1)


def first(ds: Any, **options: Any) -> Any:
    return next(iter(ds.iter_torch_batches(batch_size=4, device="cpu", **options)))


def test_columns_of_numbers() -> None:
    batch = first(data())
    assert {name: (each.dtype, tuple(each.shape)) for name, each in batch.items()} == {
        "a": (torch.int64, (4,)),
        "f": (torch.float64, (4,)),
        "b": (torch.bool, (4,)),
        "l": (torch.int64, (4, 2)),
        "t": (torch.uint8, (4, 2, 2)),
    }


def test_nulls_are_nan() -> None:
    batch = first(ray.data.from_items([{"x": 1}, {"x": None}], override_num_blocks=1))
    assert batch["x"].isnan().tolist() == [False, True]


def test_one_dtype_for_all() -> None:
    assert {each.dtype for each in first(data("a", "f", "t"), dtypes=torch.float16).values()} == {
        torch.float16
    }


def test_a_dtype_for_each() -> None:
    batch = first(data("a", "f"), dtypes={"a": torch.float32, "f": torch.int8})
    assert (batch["a"].dtype, batch["f"].dtype) == (torch.float32, torch.int8)


def test_collate_function() -> None:
    batch = first(data("a"), collate_fn=lambda batch: torch.tensor(batch["a"].tolist()) * 2)
    assert batch.tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize(
    ("base", "kind"),
    [(ArrowBatchCollateFn, "Table"), (NumpyBatchCollateFn, "dict"), (PandasBatchCollateFn, "Frame")],
)
def test_collate_classes(base: Any, kind: str) -> None:
    class Collate(base):  # type: ignore[misc]
        def __call__(self, batch: Any) -> Any:
            return {
                "size": torch.tensor(len(batch["a"])),
                "kind": torch.tensor([kind in type(batch).__name__]),
            }

    found = first(data("a"), collate_fn=Collate())
    assert (found["size"].item(), found["kind"].item()) == (4, True)


def test_collate_function_and_dtypes() -> None:
    with pytest.raises(ValueError):
        first(data("a"), collate_fn=lambda batch: batch, dtypes=torch.int8)


def test_sizes() -> None:
    sizes = [len(batch["a"]) for batch in data("a").iter_torch_batches(batch_size=3)]
    assert sizes == [3, 1]
    kept = [len(batch["a"]) for batch in data("a").iter_torch_batches(batch_size=3, drop_last=True)]
    assert kept == [3]


def test_each_loop_is_an_epoch() -> None:
    loop = data("a").iter_torch_batches(batch_size=2)
    assert [len(list(loop)) for _ in range(2)] == [2, 2]


def test_to_torch() -> None:
    made = data("a", "f", "b").iterator().to_torch(label_column="f", feature_columns=["a", "b"], batch_size=4)
    [(features, label)] = list(made)
    assert (tuple(features.shape), tuple(label.shape)) == ((4, 2), (4, 1))


def test_to_torch_with_lists() -> None:
    features, label = next(iter(data("l", "a").iterator().to_torch(label_column="a", batch_size=4)))
    assert (features.shape, label.shape) == ((4, 1, 2), (4, 1))


def test_to_torch_with_named_features() -> None:
    made = (
        data("a", "f", "b").iterator().to_torch(feature_columns={"x": ["a"], "y": ["a", "f"]}, batch_size=4)
    )
    [(features, label)] = list(made)
    assert ({key: tuple(each.shape) for key, each in features.items()}, label) == (
        {"x": (4, 1), "y": (4, 2)},
        None,
    )


@pytest.mark.chosen_difference("what is no tensor is a list", id="D-data-torch-lists")
def test_text_and_ragged_columns_are_lists() -> None:
    rows = [{"text": "a", "r": [1]}, {"text": "b", "r": [1, 2]}]
    batch = first(ray.data.from_items(rows, override_num_blocks=1))
    assert batch["text"] == ["a", "b"]
    assert [each.tolist() for each in batch["r"]] == [[1], [1, 2]]
