"""Errors that do not explain themselves are reported with advice."""

from __future__ import annotations

import pytest

from skate.train.controller.failures import advice, described


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("Type fp16 is not supported on your device.", '"fp16": {"enabled": False}'),
        ("Torch not compiled with CUDA enabled", "if torch.cuda.is_available():"),
        ("module 'torch._C' has no attribute '_cuda_setDevice'", "if torch.cuda.is_available():"),
        ("Found no NVIDIA driver on your system.", "ScalingConfig(use_gpu=True)"),
    ],
)
def test_advice_is_told_after_the_error(words: str, wanted: str) -> None:
    text = described([(1, ValueError(words))], {}, 2)
    assert text.index(words) < text.index("what to change: ") < text.index(wanted)


def test_no_advice_for_other_errors() -> None:
    assert advice(ValueError("the loss is not a number")) == ""
    assert "what to change" not in described([(0, KeyError("x"))], {}, 1)
