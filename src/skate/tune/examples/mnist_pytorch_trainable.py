"""The network of `mnist_pytorch` as a class."""

from __future__ import annotations

import os
from typing import Any

import torch

from skate.tune.examples.mnist_pytorch import ConvNet, get_data_loaders, test_func, train_func
from skate.tune.trainable.trainable import Trainable


class TrainMNIST(Trainable):
    """Each step is one round of training and reports "mean_accuracy"."""

    def setup(self, config: dict[str, Any]) -> None:
        """Create the network, with `config["lr"]` and `config["momentum"]`."""
        use_cuda = config.get("use_gpu") and torch.cuda.is_available()
        self.device = torch.device("cuda" if use_cuda else "cpu")
        self.train_loader, self.test_loader = get_data_loaders()
        self.model = ConvNet().to(self.device)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=config.get("lr", 0.01), momentum=config.get("momentum", 0.9)
        )

    def step(self) -> dict[str, Any]:
        """Train for one round, and test."""
        train_func(self.model, self.optimizer, self.train_loader, device=self.device)
        return {"mean_accuracy": test_func(self.model, self.test_loader, self.device)}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Save the weights."""
        torch.save(self.model.state_dict(), os.path.join(checkpoint_dir, "model.pth"))

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Load the weights."""
        path = os.path.join(checkpoint, "model.pth")
        self.model.load_state_dict(torch.load(path, weights_only=True, map_location=self.device))
