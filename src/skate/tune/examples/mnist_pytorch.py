"""A small PyTorch network that recognizes digits: MNIST if it is on the disk, else generated digits of 28 x
28 pixels."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from skate import tune
from skate.tune.schedulers import AsyncHyperBandScheduler

#: The number of digits per training round and per test.
EPOCH_SIZE = 512
TEST_SIZE = 256


class ConvNet(nn.Module):
    """One convolutional layer, one linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 3, kernel_size=3)
        self.fc = nn.Linear(192, 10)

    def forward(self, x: Any) -> Any:
        """Return the log-likelihood of each digit."""
        x = functional.relu(functional.max_pool2d(self.conv1(x), 3))
        return functional.log_softmax(self.fc(x.view(-1, 192)), dim=1)


def train_func(model: Any, optimizer: Any, train_loader: Any, device: Any = None) -> None:
    """Train for one round."""
    device = device or torch.device("cpu")
    model.train()
    seen = 0
    for data, target in train_loader:
        if seen > EPOCH_SIZE:
            return
        seen += len(data)
        optimizer.zero_grad()
        loss: Any = functional.nll_loss(model(data.to(device)), target.to(device))
        loss.backward()
        optimizer.step()


def test_func(model: Any, data_loader: Any, device: Any = None) -> float:
    """Return the fraction of digits that are recognized correctly."""
    device = device or torch.device("cpu")
    model.eval()
    right = seen = 0
    with torch.no_grad():
        for data, target in data_loader:
            if seen > TEST_SIZE:
                break
            right += int((model(data.to(device)).argmax(1) == target.to(device)).sum())
            seen += len(target)
    return right / seen


test_func.__test__ = False  # type: ignore[attr-defined]  # its name is Ray's; pytest is not to take it for a test


def get_data_loaders(batch_size: int = 64) -> tuple[Any, Any]:
    """Return training and test digits: MNIST if torchvision finds it in `~/data`, else generated ones."""
    try:
        datasets = importlib.import_module("torchvision.datasets")
        transforms = importlib.import_module("torchvision.transforms")
        shape = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
        root = os.path.expanduser("~/data")
        parts = [datasets.MNIST(root, train=train, transform=shape) for train in (True, False)]
    except (ImportError, RuntimeError, OSError):
        parts = [_made(4 * EPOCH_SIZE, 0), _made(2 * TEST_SIZE, 1)]
    first, second = (DataLoader(part, batch_size=batch_size, shuffle=True) for part in parts)
    return first, second


def _made(count: int, seed: int) -> Any:
    """Generate blurred blocks in one of ten positions, which stand for the digits."""
    draw = torch.Generator().manual_seed(seed)
    digits = torch.randint(0, 10, (count,), generator=draw)
    images = 0.3 * torch.randn(count, 1, 28, 28, generator=draw)
    for image, digit in zip(images, digits.tolist(), strict=True):
        row, column = 3 + 14 * (digit // 5), 1 + 5 * (digit % 5)
        image[0, row : row + 8, column : column + 5] += 1.5
    return TensorDataset(images, digits)


def train_mnist(config: dict[str, Any]) -> None:
    """Train without end with `config["lr"]` and `config["momentum"]`, and report "mean_accuracy"."""
    use_cuda = config.get("use_gpu") and torch.cuda.is_available()
    device = torch.device("cuda" if use_cuda else "cpu")
    train_loader, test_loader = get_data_loaders(config.get("batch_size", 64))
    model = ConvNet().to(device)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=config.get("lr", 0.01), momentum=config.get("momentum", 0.9)
    )
    while True:
        train_func(model, optimizer, train_loader, device)
        metrics = {"mean_accuracy": test_func(model, test_loader, device)}
        if not config.get("should_checkpoint"):
            tune.report(metrics)
            continue
        with tempfile.TemporaryDirectory() as folder:
            torch.save(model.state_dict(), os.path.join(folder, "model.pt"))
            tune.report(metrics, checkpoint=tune.Checkpoint.from_directory(folder))


def main(smoke_test: bool = False) -> tune.ResultGrid:
    """Search for a learning rate and a momentum."""
    space = {"lr": tune.loguniform(1e-4, 1e-1), "momentum": tune.uniform(0.1, 0.9)}
    config = tune.TuneConfig(
        metric="mean_accuracy",
        mode="max",
        scheduler=AsyncHyperBandScheduler(),
        num_samples=1 if smoke_test else 50,
    )
    run = tune.RunConfig(stop={"mean_accuracy": 0.98, "training_iteration": 5 if smoke_test else 100})
    found = tune.Tuner(train_mnist, param_space=space, tune_config=config, run_config=run).fit()
    print("best:", found.get_best_result().config)
    return found


if __name__ == "__main__":
    main(smoke_test="--smoke-test" in sys.argv)
