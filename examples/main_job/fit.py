"""Train: a small GPT on rows of tokens, by workers that average their gradients."""

from __future__ import annotations

import math
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import language_model
from prepare import Prepared
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

if TYPE_CHECKING:
    from pandas import DataFrame

WORKERS = 2
REPORT_EVERY = 10  # steps
WARM_UP = 30  # steps
RATE = 3e-3  # the highest learning rate


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
    data: Prepared, steps: int, folder: Path, batch_size: int, workers: int, bar: Bar, seconds: float
) -> Result:
    """Train for a number of steps, or until the time is over; return the metrics of each report and the last checkpoint."""
    config = {
        "steps": steps,
        "seconds": seconds,
        "batch_size": batch_size,
        "tokenizer": data.tokenizer_folder,
    }
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
        datasets={"train": ray.data.read_parquet(data.tokens_folder)},
    )
    with bar.progress:
        return trainer.fit()


def train_loop_per_worker(config: dict[str, Any]) -> None:
    """Train in each worker: a plain torch loop with Train's helpers around it."""
    import torch
    from transformers import PreTrainedTokenizerFast

    torch.manual_seed(0)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(config["tokenizer"])
    model = language_model.AnswerLoss(language_model.new_model(len(tokenizer)))
    optimizer = new_optimizer(model)
    replicas = ray.train.torch.prepare_model(model)
    shard = ray.train.get_dataset_shard("train")
    workers = ray.train.get_context().get_world_size()
    schedule = Schedule(config["steps"], config["seconds"])

    step, epoch, losses, began = 0, 0, [], time.perf_counter()
    while True:
        before, epoch = step, epoch + 1
        batches = shard.iter_torch_batches(
            batch_size=config["batch_size"],
            local_shuffle_buffer_size=512,
            local_shuffle_seed=epoch,
            drop_last=True,
        )
        for batch in batches:
            losses.append(take_step(replicas, optimizer, batch, schedule.rate(step)))
            step += 1
            if step % REPORT_EVERY and step < config["steps"]:
                continue
            over = schedule.over(step, workers)
            seconds = time.perf_counter() - began
            metrics = {
                "step": step,
                "loss": sum(losses) / len(losses),
                "tokens_per_second": workers * len(losses) * batch["input_ids"].numel() / seconds,
            }
            report(metrics, model.model, tokenizer, keep=over or step % (10 * REPORT_EVERY) == 0)
            if over:
                return
            losses, began = [], time.perf_counter()
        if step == before:
            raise ValueError(
                f"there are fewer rows than a batch of {config['batch_size']} for each worker; read more text"
            )


def new_optimizer(model: Any) -> Any:
    """Create the optimizer."""
    import torch

    return torch.optim.AdamW(model.parameters(), lr=0.0, betas=(0.9, 0.95), weight_decay=0.1)


def take_step(model: Any, optimizer: Any, batch: dict[str, Any], rate: float) -> float:
    """Take one step of training and return the loss."""
    import torch

    for group in optimizer.param_groups:
        group["lr"] = rate
    tokens, labels = batch["input_ids"].long(), batch["labels"].long()
    with torch.autocast(tokens.device.type, torch.bfloat16, enabled=faster_in_bfloat16(tokens.device.type)):
        loss = model(tokens, labels)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


@cache
def faster_in_bfloat16(device: str) -> bool:
    """True if products of this model's size are faster in bfloat16 here; some CPUs have no instructions for it."""
    import torch

    if device == "cuda":
        return torch.cuda.is_bf16_supported()
    seconds = {}
    for kind in (torch.float32, torch.bfloat16):
        left, right = (
            torch.ones(1024, 192, dtype=kind, device=device),
            torch.ones(192, 512, dtype=kind, device=device),
        )
        times = []
        for _ in range(10):
            began = time.thread_time()
            torch.mm(left, right)
            times.append(time.thread_time() - began)
        seconds[kind] = min(times)
    return seconds[torch.bfloat16] < seconds[torch.float32]


class Schedule:
    """The learning rate: a warm-up, then a cosine decay that ends with the steps or with the time."""

    def __init__(self, steps: int, seconds: float) -> None:
        self.steps, self.seconds = steps, seconds
        self.began = time.perf_counter()
        #: The part of the time that had passed beside the part of the steps, when the workers last agreed.
        self.faster = 1.0

    def rate(self, step: int) -> float:
        """Return the learning rate of a step."""
        if step < WARM_UP:
            return RATE * (step + 1) / WARM_UP
        done = min(1.0, max(1.0, self.faster) * step / self.steps)
        return RATE * (0.02 + 0.49 * (1 + math.cos(math.pi * done)))

    def over(self, step: int, workers: int = 1) -> bool:
        """True if this was the last step. All workers learn of the time of the slowest."""
        import torch

        passed = torch.tensor((time.perf_counter() - self.began) / self.seconds)
        if workers > 1:
            on = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
            passed = passed.to(on)
            torch.distributed.all_reduce(passed, torch.distributed.ReduceOp.MAX)
        self.faster = float(passed) * self.steps / step
        return step >= self.steps or float(passed) >= 1


def report(metrics: dict[str, float], model: Any, tokenizer: Any, keep: bool) -> None:
    """Report the progress; at intervals with a checkpoint, which is a model folder ready for serving."""
    if not keep or ray.train.get_context().get_world_rank() != 0:
        ray.train.report(metrics)
        return
    with tempfile.TemporaryDirectory() as folder:
        language_model.save(folder, model, tokenizer)
        ray.train.report(metrics, checkpoint=Checkpoint.from_directory(folder))


def draw(frame: DataFrame, path: Path, bare: list[float] | None) -> Path:
    """Draw the loss by step, and the loss of a bare PyTorch loop."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    axes.plot(frame["step"], frame["loss"], color="#1f6f8b", label="Train")
    if bare is not None:
        axes.plot(
            frame["step"][: len(bare)], bare, color="#c2571a", linestyle=":", label="a bare PyTorch loop"
        )
        axes.legend()
    axes.set(
        xlabel="step",
        ylabel="loss, mean of the last steps",
        title="A small GPT learns what Python's functions do",
    )
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return path
