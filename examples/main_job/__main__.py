"""The main job: from text to a model that answers, on one machine, with one command.

    make demo            or            python examples/main_job

Data reads the docstrings of Python's library, makes questions and answers of them, trains a tokenizer and tokenizes in a stream;
Train fits a small GPT with two workers that share gradients; Serve puts it behind OpenAI's API, and OpenAI's client asks it in
words that it was not trained with. `--keep` leaves the server and its page running; `--bare` trains once more without Skate, to
compare the losses.

On a cluster, started with `skate start --head --port 6379` and `skate start --address=...`, run it on the head's machine, with a
folder that all machines share:

    python examples/main_job --address auto --workers 4 --folder /shared/main_job
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is created here; nothing is downloaded
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # loading takes a moment
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")


def ended_early(*_: object) -> None:
    """End at once: while libraries are imported, nothing has been started."""
    print("\nended by Ctrl-C", flush=True)
    os._exit(130)


signal.signal(signal.SIGINT, ended_early)

import answer
import bare_loop
import facts
import fit
import prepare
import questions
from rich.console import Console
from rich.table import Table

import skate as ray
from skate import serve

if TYPE_CHECKING:
    from pandas import DataFrame

#: Training steps, about a minute on two idle CPUs; and the seconds after which training ends in any case.
STEPS = 600
SECONDS = 240
#: The facts that are asked for after training, in phrasings that were not trained.
ASKED = 10


def main() -> None:
    """Run the job with the arguments of the command line; Ctrl-C ends it at any stage (status 130, or 0 once
    the job is done)."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    wanted = arguments()
    # A recording contains the printed text and the last state of each animation, so nothing is repainted during it.
    console = Console(
        highlight=False, record=bool(wanted.record), force_terminal=False if wanted.record else None
    )
    try:
        job(wanted, console)
    except KeyboardInterrupt:
        console.print("\nended by Ctrl-C")
        raise SystemExit(130) from None
    finally:
        serve.shutdown()
        ray.shutdown()


def job(wanted: argparse.Namespace, console: Console) -> None:
    """Run the three stages in order, and print their table."""
    folder = Path(wanted.folder or tempfile.mkdtemp(prefix="skate-main-job-")).resolve()
    rows: list[tuple[str, str, float]] = []
    began = time.perf_counter()

    @contextmanager
    def stage(name: str) -> Iterator[list[str]]:
        console.rule(name, align="left")
        start, said = time.perf_counter(), []
        yield said
        rows.append((name, ", ".join(said), time.perf_counter() - start))

    if wanted.address:
        ray.init(wanted.address)
    else:
        ray.init(num_cpus=max(4, os.cpu_count() or 1), preload=["torch", "language_model"])
    with stage("Data") as said:
        with console.status("reading docstrings, making questions, training a tokenizer, tokenizing"):
            data = prepare.prepare(folder, wanted.files)
        said.append(f"{data.facts:,} docstrings, {data.questions:,} questions")
        said.append(f"{data.tokens:,} tokens")
        console.print(f"{said[0]}, {said[1]} in {data.rows:,} rows")
    with stage("Train") as said:
        result = fit.fit(
            data,
            wanted.steps,
            folder / "runs",
            wanted.batch_size,
            wanted.workers,
            fit.Bar(console, wanted.steps),
            wanted.seconds,
        )
        frame = result.metrics_dataframe
        said.append(f"{wanted.workers} workers, {frame['step'].iloc[-1]} steps")
        said.append(f"loss {frame['loss'].iloc[0]:.2f} to {frame['loss'].iloc[-1]:.2f}")
        bare = beside(console, data, frame, wanted) if wanted.bare else None
        picture = fit.draw(frame, folder / "loss.png", bare)
        console.print(f"the curve of the loss: {picture}", soft_wrap=True)
        console.print(f"the model: {result.checkpoint.path}", soft_wrap=True)
    with stage("Serve") as said, result.checkpoint.as_directory() as model_folder:
        with console.status("starting the model's server"):
            address = answer.start(model_folder, wanted.port)
        pairs = [pair for fact in chosen(data, wanted.asked) for pair in questions.kept(fact)]
        said.extend(asked(console, address, pairs))
    show(console, rows, time.perf_counter() - began)
    if wanted.keep:
        console.print(
            f"\nAsk it at {address} ; OpenAI's API is at {address}/api/v1 . Ctrl-C stops the server."
        )
    if wanted.record:
        # The picture needs no external fonts.
        drawn = re.sub(r"@font-face {.*?}\s*", "", console.export_svg(title=called(wanted)), flags=re.DOTALL)
        Path(wanted.record).write_text(drawn, encoding="utf-8")
    if wanted.keep:
        until_interrupted()


def until_interrupted() -> None:
    """Wait until Ctrl-C, which is the way to end a server."""
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        return


def called(wanted: argparse.Namespace) -> str:
    """Return the command of this run, with the arguments that affect the output."""
    words = ["--keep"] * wanted.keep + [f"--steps {wanted.steps}"] * (wanted.steps != STEPS)
    return "make demo" + (f' ARGS="{" ".join(words)}"' if words else "")


def beside(
    console: Console, data: prepare.Prepared, frame: DataFrame, wanted: argparse.Namespace
) -> list[float]:
    """Train the same model in this process, without Skate, and print both losses; return those of each report."""
    steps = int(frame["step"].iloc[-1])
    with console.status(f"training without Skate, {steps} steps"):
        losses, seconds = bare_loop.train(data, steps, wanted.batch_size * wanted.workers)
    console.print(
        f"loss after {steps} steps: {frame['loss'].iloc[-1]:.3f}; of a bare PyTorch loop: {losses[-1]:.3f}, in {seconds:.1f} s"
    )
    return losses


def chosen(data: prepare.Prepared, count: int) -> list[facts.Fact]:
    """Return the facts that are asked for."""
    known = prepare.known_facts(data.facts_folder)
    return random.Random(0).sample(known, min(count, len(known)))


def asked(console: Console, address: str, pairs: list[questions.Pair]) -> list[str]:
    """Query the model with OpenAI's client and print the answers as they arrive; return the speed, and how many of
    the answers to other questions are right."""
    measured = []
    for question in answer.QUESTIONS:
        console.print(f"[bold]{question}[/bold] ", end="")
        for piece in answer.ask(address, question):
            if isinstance(piece, answer.Answered):
                measured.append(piece)
            else:
                console.print(piece, end="", markup=False)
        console.print()
    right = answer.right(address, pairs)
    console.print(
        f"of {len(pairs)} questions in phrasings that were not trained, {right} have the right first sentence"
    )
    return [
        f"first token after {median(each.first_seconds for each in measured) * 1000:.0f} ms",
        f"{sum(each.tokens for each in measured) / sum(each.seconds for each in measured):.0f} tokens/s",
        f"{right} of {len(pairs)} right",
    ]


def arguments() -> argparse.Namespace:
    """Parse the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps of training ({STEPS})")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"end training after so many ({SECONDS})"
    )
    parser.add_argument(
        "--batch-size", type=int, default=8, help="rows of 128 tokens that a worker takes a step (8)"
    )
    parser.add_argument(
        "--workers", type=int, default=fit.WORKERS, help=f"workers that train ({fit.WORKERS})"
    )
    parser.add_argument("--address", help="a cluster to use, such as auto (a session of its own)")
    parser.add_argument("--files", type=int, default=None, help="read so many sources only (all)")
    parser.add_argument(
        "--asked", type=int, default=ASKED, help=f"ask for so many facts in other phrasings ({ASKED})"
    )
    parser.add_argument(
        "--bare", action="store_true", help="train without Skate as well, to compare the losses"
    )
    parser.add_argument(
        "--folder", help="where text, tokens, checkpoints and the picture go (a new temporary one)"
    )
    parser.add_argument(
        "--port", type=int, default=8000, help="where the model is served, on this machine (8000)"
    )
    parser.add_argument("--record", metavar="FILE", help="write what was printed to an SVG picture")
    parser.add_argument("--keep", action="store_true", help="leave the server and its page running")
    return parser.parse_args()


def show(console: Console, rows: list[tuple[str, str, float]], seconds: float) -> None:
    """Show each stage, with its duration; and how the same command runs on more machines."""
    table = Table(title="From text to an answering model")
    table.add_column("stage", style="bold")
    table.add_column("what")
    table.add_column("seconds", justify="right")
    for name, what, took in rows:
        table.add_row(name, what, f"{took:.1f}")
    table.add_row("all", "", f"{seconds:.1f}")
    console.print("", table)
    console.print(
        "The same on more machines: --address auto --workers N; ScalingConfig(use_gpu=True) trains on GPUs, num_replicas=... "
        "serves from several."
    )


if __name__ == "__main__":
    main()
