"""Models over tensors of a device, as `map_batches` calls them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from skate.data.steps.torch_inference import TorchInference


class Doubled(TorchInference):
    def initialize(self, times: int = 2) -> None:
        self.times = torch.nn.Parameter(torch.tensor(float(times)))

    def get_device(self) -> Any:
        return "cpu"

    def process_on_device(self, input_batch: Any, collated_tensors: Any, collated_other: Any) -> Any:
        return {"made": collated_tensors["data"] * self.times}


class Named(Doubled):
    def collate(self, input_batch: Any) -> Any:
        halves = list(torch.as_tensor(input_batch.pop("data")).split(2))
        return {"data": halves}, "name"

    def process_on_device(self, input_batch: Any, collated_tensors: Any, collated_other: Any) -> Any:
        assert not (collated_tensors["data"] * self.times).requires_grad
        return collated_tensors["data"], f"{collated_other} {len(input_batch['data'])}"

    def finalize(self, input_batch: Any, output_tensors: Any, output_other: Any) -> Any:
        return {"made": output_tensors.numpy(), "other": np.array([output_other] * len(output_tensors))}


def test_batches_become_tensors_and_arrays_again() -> None:
    data = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(Doubled(times=3)({"data": data})["made"], data * 3)


def test_other_values_go_to_the_next_step() -> None:
    made = Named()({"data": np.arange(3.0)})
    assert made["made"].tolist() == [0, 1, 2] and set(made["other"]) == {"name 3"}


class Wrong(Doubled):
    def process_on_device(self, input_batch: Any, collated_tensors: Any, collated_other: Any) -> Any:
        return {"made": "text"}


class Paired(Doubled):
    def process_on_device(self, input_batch: Any, collated_tensors: Any, collated_other: Any) -> Any:
        return collated_tensors, "other"


def test_what_the_steps_cannot_use() -> None:
    with pytest.raises(NotImplementedError, match="must implement `process_on_device`"):
        type("Bare", (TorchInference,), {"get_device": Doubled.get_device})()({"data": np.zeros(1)})
    with pytest.raises(ValueError, match="`Wrong.process_on_device` must return tensors"):
        Wrong()({"data": np.zeros(1)})
    with pytest.raises(TypeError, match=r"define Paired\.finalize"):
        Paired()({"data": np.zeros(1)})
    with pytest.raises(TypeError, match="batch_format='numpy'"):
        Doubled()(pd.DataFrame({"data": [1]}))
    with pytest.raises(TypeError, match="column 'data' has no tensor type"):
        Doubled()({"data": np.array(["a"])})


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a GPU")
def test_a_gpu_is_the_default() -> None:
    with pytest.raises(RuntimeError, match="CUDA is not available"):
        TorchInference()({"data": np.zeros(1)})
