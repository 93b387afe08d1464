"""Configs of DeepSpeed are completed: sizes of batches, "auto", and what workers without a GPU cannot do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skate.train.torch.deepspeed_config import completed

MICRO, STEPS, TOTAL = "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "train_batch_size"
# As the mission's text has it.
OF_THE_TEXT: dict[str, Any] = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": "auto",
    "zero_optimization": {
        "stage": 3,
        "offload_optimizer": {"device": "cpu", "pin_memory": True},
        "offload_param": {"device": "cpu", "pin_memory": True},
        "overlap_comm": True,
        "contiguous_gradients": True,
    },
    "bf16": {"enabled": True},
    "gradient_clipping": 1.0,
}


def on_cpu(config: dict[str, Any], workers: int = 2, kind: str = "float32") -> dict[str, Any]:
    return completed(config, workers, True, kind)


def test_the_config_of_the_text() -> None:
    found = on_cpu(OF_THE_TEXT, workers=8)
    assert (found[TOTAL], found[MICRO], found[STEPS]) == (16, 2, 1)
    assert found["zero_optimization"] == OF_THE_TEXT["zero_optimization"]
    assert OF_THE_TEXT["train_batch_size"] == "auto", "the config itself stays as it was"


@given(micro=st.integers(1, 64), steps=st.integers(1, 64), workers=st.integers(1, 64), left=st.integers(0, 7))
def test_sizes_fit_whatever_is_left_open(micro: int, steps: int, workers: int, left: int) -> None:
    whole = {MICRO: micro, STEPS: steps, TOTAL: micro * steps * workers}
    given = {
        name: ("auto" if left & 1 << place else value) for place, (name, value) in enumerate(whole.items())
    }
    found = completed(given, workers, False, "")
    assert found[MICRO] * found[STEPS] * workers == found[TOTAL]
    assert all(found[name] == value for name, value in given.items() if value != "auto")


def test_sizes_that_contradict_each_other() -> None:
    with pytest.raises(ValueError, match=r"train_batch_size=7 is not .*=2 times .*=1 times 2 workers"):
        on_cpu({TOTAL: 7, MICRO: 2, STEPS: 1})
    with pytest.raises(ValueError, match="must be an integer >= 1"):
        on_cpu({MICRO: 0})


@pytest.mark.parametrize(("kind", "enabled"), [("bfloat16", True), ("float32", False)])
def test_auto_of_a_type_is_the_models(kind: str, enabled: bool) -> None:
    assert on_cpu({"bf16": {"enabled": "auto"}}, kind=kind)["bf16"] == {"enabled": enabled}


def test_auto_elsewhere_is_left_to_deepspeed() -> None:
    config = {"zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"}, "gradient_clipping": "auto"}
    found = on_cpu(config)
    assert found["zero_optimization"] == {"stage": 2}
    assert "gradient_clipping" not in found


def test_half_precision_without_a_gpu_says_what_to_change() -> None:
    config = {"fp16": {"enabled": True}}
    with pytest.raises(ValueError, match='"fp16": {"enabled": False}.*"bf16": {"enabled": True}'):
        on_cpu(config)
    assert completed(config, 2, False, "")["fp16"] == {"enabled": True}


def test_adam_is_that_of_torch_where_there_is_no_gpu() -> None:
    config = {"optimizer": {"type": "AdamW", "params": {"lr": 2e-5}}}
    assert on_cpu(config)["optimizer"]["params"] == {"lr": 2e-5, "torch_adam": True}
    assert "torch_adam" not in completed(config, 2, False, "")["optimizer"]["params"]
    given = {"optimizer": {"type": "Adam", "params": {"torch_adam": False}}}
    assert on_cpu(given)["optimizer"]["params"] == {"torch_adam": False}


def test_a_program_with_an_optimizer_of_its_own_gets_none() -> None:
    assert "optimizer" not in completed({}, 2, True, "", own_optimizer=True)
    assert on_cpu({})["optimizer"]["type"] == "AdamW"


def test_not_a_dict() -> None:
    with pytest.raises(TypeError, match="must be a dict, not list"):
        completed([], 2, True, "")  # type: ignore[arg-type]
