"""Names that the documents use and do not define: imports that the slides leave out, and the reader's own data and functions."""

# ruff: noqa: F401
import os
import tempfile
import uuid
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray
import torch
import torch.distributed as dist
from filelock import FileLock
from ray import train
from ray.train import Checkpoint, DataConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn
from torch.utils.data import DataLoader
from tqdm import tqdm

if os.environ.get("STAGE_IMAGES"):
    import torchvision.datasets as datasets
    import torchvision.transforms as transforms
    from torchvision.models import VisionTransformer
    from torchvision.transforms import Compose, Normalize, ToTensor

if os.environ.get("STAGE_DEEPSPEED"):
    import deepspeed
    from deepspeed.accelerator import get_accelerator
    from deepspeed.pipe import LayerSpec, PipelineModule
    from torchmetrics.classification import BinaryAccuracy, BinaryF1Score
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, set_seed


def load_dataset(*name):
    """Stands in for the function of that name in `datasets`: pairs that are alike if they share their first word."""
    assert name == ("glue", "mrpc")
    words = ["assert", "break", "class", "def", "else", "for", "global", "if", "lambda", "nonlocal"]

    def rows(count):
        return [
            {
                "sentence1": f"the {words[i % 10]} statement",
                "sentence2": f"a {words[(i + i % 2) % 10]} statement",
                "label": 1 - i % 2,
                "idx": i,
            }
            for i in range(count)
        ]

    return {"train": rows(32), "validation": rows(16)}


def sequences(count):
    """Token sequences that count up, as rows of a dataset."""
    return [
        {"input_ids": [(s + i) % 100 for i in range(16)], "labels": [(s + i) % 100 for i in range(16)]}
        for s in range(count)
    ]


def train_loop_per_worker():
    """The reader's own: a line that is fitted."""
    model = ray.train.torch.prepare_model(nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x = torch.linspace(-1, 1, 8).reshape(-1, 1)
        loss = ((model(x) - 3 * x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ray.train.report({"loss": loss.item(), "step": step})


def read_parquet(path, **options):
    """The bucket of the text, as files here."""
    assert path == "s3://my-bucket/training-data/"
    folder = Path(tempfile.mkdtemp(dir=os.environ["HOME"]))
    for part in range(3):
        rows = {
            "text": [("A LONGER TEXT " if i % 2 else "SHORT ") + str(i) for i in range(100)],
            "label": list(range(100)),
        }
        pq.write_table(pa.table(rows), folder / f"{part}.parquet")
    return _read_parquet(str(folder), **options)


_read_parquet = getattr(ray.data.read_parquet, "real", ray.data.read_parquet)
read_parquet.real, ray.data.read_parquet = _read_parquet, read_parquet
ray_dataset = ray.data.from_items(sequences(32)) if ray.is_initialized() else None
