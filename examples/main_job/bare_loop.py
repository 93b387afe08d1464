"""The training of the main job in plain PyTorch: one process, all of the data in memory. What Skate's Train is compared with."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import fit
import language_model
from prepare import Prepared


def train(data: Prepared, steps: int, batch_size: int) -> tuple[list[float], float]:
    """Train the model from the same start on the same rows; return the loss of each report of Train, and the seconds."""
    import torch
    from transformers import PreTrainedTokenizerFast

    torch.manual_seed(0)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(data.tokenizer_folder)
    model = language_model.AnswerLoss(language_model.new_model(len(tokenizer)))
    optimizer, schedule = fit.new_optimizer(model), fit.Schedule(steps, float("inf"))
    batches = batches_of(data.tokens_folder, batch_size)
    losses: list[float] = []
    began = time.perf_counter()
    for step in range(steps):
        losses.append(fit.take_step(model, optimizer, next(batches), schedule.rate(step)))
    seconds = time.perf_counter() - began
    parts = [losses[at : at + fit.REPORT_EVERY] for at in range(0, steps, fit.REPORT_EVERY)]
    return [sum(part) / len(part) for part in parts], seconds


def batches_of(tokens_folder: str, batch_size: int) -> Iterator[dict[str, Any]]:
    """Yield batches without end, in another order each time through the data."""
    import numpy as np
    import pyarrow.parquet as pq
    import torch

    table = pq.read_table(tokens_folder)
    columns = {
        name: torch.from_numpy(np.array(table[name].to_pylist(), dtype=np.int32))
        for name in ("input_ids", "labels")
    }
    while True:
        order = torch.randperm(table.num_rows)
        for at in range(0, table.num_rows - batch_size + 1, batch_size):
            yield {name: rows[order[at : at + batch_size]] for name, rows in columns.items()}
