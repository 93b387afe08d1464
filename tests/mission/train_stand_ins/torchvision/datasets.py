"""Digits of scikit-learn in the sizes of other data sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from torch.utils.data import Dataset


class _Digits(Dataset[Any]):
    size, channels = 0, 0

    def __init__(self, root: str, train: bool, download: bool, transform: Callable[[Any], Any]) -> None:
        assert download, "the documents download theirs"
        images, labels = load_digits(return_X_y=True)
        part = slice(0, 128) if train else slice(128, 160)
        self.images, self.labels, self.transform = images[part].reshape(-1, 8, 8), labels[part], transform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        grown = np.pad(np.kron(self.images[index], np.ones((self.size // 8,) * 2)) * 15, (self.size % 8) // 2)
        image = np.repeat(grown[:, :, None], self.channels, axis=2).astype(np.uint8)
        return self.transform(image), int(self.labels[index])


class FashionMNIST(_Digits):
    """28 by 28, grey."""

    size, channels = 28, 1


class CIFAR10(_Digits):
    """32 by 32, in colours."""

    size, channels = 32, 3
