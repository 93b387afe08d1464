"""Images as tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch


class Compose:
    """One after the other."""

    def __init__(self, steps: Sequence[Callable[[Any], Any]]) -> None:
        self.steps = steps

    def __call__(self, image: Any) -> Any:
        for step in self.steps:
            image = step(image)
        return image


class ToTensor:
    """Bytes of (rows, columns, channels) to numbers up to one of (channels, rows, columns)."""

    def __call__(self, image: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(image).permute(2, 0, 1).float() / 255


class Normalize:
    """Less the mean, by the deviation."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self.mean, self.std = (torch.tensor(each).reshape(-1, 1, 1) for each in (mean, std))

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return (image - self.mean) / self.std
