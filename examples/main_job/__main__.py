"""The main job: from text to a model that answers, on one machine, with one command.

    make demo            or            python examples/main_job

Data reads Python's own documentation, cleans it, trains a tokenizer and tokenizes in a stream; Train fits a small GPT with two
workers that share gradients; Serve puts it behind OpenAI's API, and OpenAI's client queries it. `--keep`
leaves the server and its page running.

On a cluster, started with `skate start --head --port 6379` and `skate start --address=...`, run it on the head's machine, with a
folder that all machines share:

    python examples/main_job --address auto --workers 4 --folder /shared/main_job
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))  # shared by the examples
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is created here; nothing is downloaded
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # loading takes a moment
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")


def ended_early(*_: object) -> None:
    """End at once: while libraries are imported, nothing has been started."""
    print("\nended by Ctrl-C", flush=True)
    os._exit(130)


signal.signal(signal.SIGINT, ended_early)

import answer
import fit
import prepare
from rich.console import Console
from rich.table import Table

import skate as ray
from skate import serve

#: Training steps: about six passes over half of the rows, a minute and a half on two idle CPUs.
STEPS = 220


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
        ray.init(num_cpus=max(4, os.cpu_count() or 1), preload=["torch"])
    with stage("Data") as said:
        with console.status("reading and cleaning text, training a tokenizer, tokenizing"):
            text = prepare.prepare(folder, wanted.files)
        said.append(f"{text.documents:,} documents of {text.characters / 1e6:.1f} MB")
        said.append(f"{text.tokens:,} tokens")
        console.print(f"{said[0]}, {said[1]} in {text.rows:,} rows")
    with stage("Train") as said:
        result = fit.fit(
            text.tokens_folder,
            text.tokenizer_folder,
            wanted.steps,
            folder / "runs",
            wanted.batch_size,
            wanted.workers,
            fit.Bar(console, wanted.steps),
        )
        frame = result.metrics_dataframe
        picture = fit.draw(result, folder / "loss.png")
        said.append(f"{wanted.workers} workers, {wanted.steps} steps")
        said.append(f"loss {frame['loss'].iloc[0]:.2f} to {frame['loss'].iloc[-1]:.2f}")
        console.print(f"the curve of the loss: {picture}", soft_wrap=True)
        console.print(f"the model: {result.checkpoint.path}", soft_wrap=True)
    with stage("Serve") as said, result.checkpoint.as_directory() as model_folder:
        with console.status("starting the model's server"):
            address = answer.start(model_folder, wanted.port)
        said.extend(asked(console, address))
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


def asked(console: Console, address: str) -> list[str]:
    """Query the model with OpenAI's client and print the answer as it arrives; return its speed."""
    console.print(f"OpenAI's client asks: [bold]{answer.QUESTION}[/bold]")
    for piece in answer.ask(address):
        if isinstance(piece, answer.Answered):
            console.print()
            return [
                f"first token after {piece.first_seconds * 1000:.0f} ms",
                f"{piece.tokens / piece.seconds:.0f} tokens/s",
            ]
        console.print(piece, end="", markup=False)
    return []


def arguments() -> argparse.Namespace:
    """Parse the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps of training ({STEPS})")
    parser.add_argument(
        "--batch-size", type=int, default=16, help="rows of 128 tokens that a worker takes a step (16)"
    )
    parser.add_argument(
        "--workers", type=int, default=fit.WORKERS, help=f"workers that train ({fit.WORKERS})"
    )
    parser.add_argument("--address", help="a cluster to use, such as auto (a session of its own)")
    parser.add_argument("--files", type=int, default=None, help="read so many sources only (all)")
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
