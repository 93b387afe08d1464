"""Train: a small GPT on rows of tokens, by workers that average their gradients."""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path
from typing import Any

import language_model
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import skate as ray
from skate.train import (
    Checkpoint,
    CheckpointConfig,
    LoggingConfig,
    Result,
    RunConfig,
    ScalingConfig,
    UserCallback,
)
from skate.train.torch import TorchTrainer

WORKERS = 2
REPORT_EVERY = 10  # steps
WARM_UP = 20  # steps


class Bar(UserCallback):
    """A progress bar with the loss and the speed of the last report."""

    def __init__(self, console: Console, steps: int) -> None:
        self.progress = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("steps, loss {task.fields[loss]}, {task.fields[speed]} tokens/s"),
            TimeElapsedColumn(),
            console=console,
        )
        self.task = self.progress.add_task("training", total=steps, loss="-", speed="-")

    def after_report(
        self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Checkpoint | None
    ) -> None:
        first = metrics[0]
        loss, speed = f"{first['loss']:.2f}", f"{first['tokens_per_second']:,.0f}"
        self.progress.update(self.task, completed=first["step"], loss=loss, speed=speed)


def fit(
    tokens_folder: str,
    tokenizer_folder: str,
    steps: int,
    folder: Path,
    batch_size: int,
    workers: int,
    bar: Bar,
) -> Result:
    """Train for a number of steps; return the metrics of each report and the last checkpoint."""
    config = {"steps": steps, "batch_size": batch_size, "lr": 2e-3, "tokenizer": tokenizer_folder}
    trainer = TorchTrainer(
        train_loop_per_worker,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(
            name="documentation-gpt",
            storage_path=str(folder),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
            callbacks=[bar],
            logging_config=LoggingConfig(log_level="WARNING"),  # the bar shows the rest
        ),
        datasets={"train": ray.data.read_parquet(tokens_folder)},
    )
    with bar.progress:
        return trainer.fit()


def train_loop_per_worker(config: dict[str, Any]) -> None:
    """Train in each worker: a plain torch loop with Train's helpers around it."""
    import torch
    from transformers import PreTrainedTokenizerFast

    torch.manual_seed(0)
    model = ray.train.torch.prepare_model(language_model.new_model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"], betas=(0.9, 0.95), weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(step, config["steps"]))
    tokenizer = PreTrainedTokenizerFast.from_pretrained(config["tokenizer"])
    shard = ray.train.get_dataset_shard("train")
    workers = ray.train.get_context().get_world_size()

    step, losses, began = 0, [], time.perf_counter()
    while step < config["steps"]:
        before = step
        batches = shard.iter_torch_batches(
            batch_size=config["batch_size"],
            local_shuffle_buffer_size=256,
            local_shuffle_seed=step,
            drop_last=True,
        )
        for batch in batches:
            tokens = batch["input_ids"].long()
            loss = model(input_ids=tokens, labels=tokens).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            step += 1
            losses.append(loss.item())
            last = step >= config["steps"]
            if step % REPORT_EVERY == 0 or last:
                seconds = time.perf_counter() - began
                metrics = {
                    "step": step,
                    "loss": sum(losses) / len(losses),
                    "tokens_per_second": workers * len(losses) * tokens.numel() / seconds,
                }
                report(metrics, model, tokenizer, keep=last or step % (10 * REPORT_EVERY) == 0)
                losses, began = [], time.perf_counter()
            if last:
                return
        if step == before:
            raise ValueError(
                f"there are fewer rows than a batch of {config['batch_size']} for each worker; read more text"
            )


def report(metrics: dict[str, float], model: Any, tokenizer: Any, keep: bool) -> None:
    """Report the progress; at intervals with a checkpoint, which is a model folder ready for serving."""
    if not keep or ray.train.get_context().get_world_rank() != 0:
        ray.train.report(metrics)
        return
    with tempfile.TemporaryDirectory() as folder:
        language_model.save(folder, getattr(model, "module", model), tokenizer)
        ray.train.report(metrics, checkpoint=Checkpoint.from_directory(folder))


def rate(step: int, steps: int) -> float:
    """Return the factor of the learning rate: a warm-up, then a cosine decay to a tenth."""
    if step < WARM_UP:
        return (step + 1) / WARM_UP
    done = (step - WARM_UP) / max(1, steps - WARM_UP)
    return 0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, done)))


def draw(result: Result, path: Path) -> Path:
    """Draw the loss by step."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    frame = result.metrics_dataframe
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    axes.plot(frame["step"], frame["loss"], color="#1f6f8b")
    axes.set(
        xlabel="step",
        ylabel="loss, mean of the last steps",
        title="A small GPT learns from Python's documentation",
    )
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return path
