"""Input of training: images from files and from shards, decoded and augmented, and the pause between two epochs.

    python -m benchmarks.data.training_input [--rounds 3] [--images 1024] [--workers 2] [--json OUT.json]

The peer is a `torch.utils.data.DataLoader` with as many workers, which stay between its epochs. Both sides run the same Python
functions on the same files, in turn, each in a process of its own. The loop only counts the rows. Figures are images a second
(the first epoch, in which processes start, is left out), and milliseconds from the last batch of an epoch to the first one of
the next.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import statistics
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import processes
from benchmarks.run import Record, Runner
from benchmarks.session import INIT

SIDE, CROP, BATCH = 256, 224, 32
SHARDS = 8
EPOCHS = 4
SCENARIOS = ("images", "shards")
TARGETS = ("torch", "skate")


def write_files(folder: Path, images: int) -> None:
    """JPEG files with some structure, and the same images in shards of WebDataset."""
    from PIL import Image

    random = np.random.default_rng(1)
    (folder / "images").mkdir(parents=True)
    paths = [folder / f"{number:03d}.tar" for number in range(SHARDS)]
    shards = [tarfile.open(path, "w") for path in paths]  # noqa: SIM115  they are closed below
    for number in range(images):
        coarse = random.integers(0, 255, (16, 16, 3), dtype=np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(coarse).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(
            buffer, "JPEG", quality=90
        )
        (folder / "images" / f"{number:05d}.jpg").write_bytes(buffer.getvalue())
        for ending, contents in (("jpg", buffer.getvalue()), ("cls", str(number % 10).encode())):
            member = tarfile.TarInfo(f"{number:05d}.{ending}")
            member.size = len(contents)
            shards[number % SHARDS].addfile(member, io.BytesIO(contents))
    for shard in shards:
        shard.close()


def decoded(contents: bytes) -> np.ndarray:
    """Return an image as an array (height, width, channel)."""
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(contents)).convert("RGB"))


def augmented(image: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return a random part of an image, perhaps mirrored, as (channel, height, width) in numbers around 0."""
    top, left = random.integers(0, SIDE - CROP, 2)
    part = image[top : top + CROP, left : left + CROP]
    if random.random() < 0.5:
        part = part[:, ::-1]
    return (part.transpose(2, 0, 1).astype(np.float32) - 127.5) / 127.5


# -- the peer


def torch_loader(folder: Path, scenario: str, workers: int) -> Iterable[Any]:
    """Return a DataLoader over the files, or over the shards."""
    from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

    class Files(Dataset):  # type: ignore[type-arg]
        def __init__(self) -> None:
            self.paths = sorted((folder / "images").iterdir())

        def __len__(self) -> int:
            return len(self.paths)

        def __getitem__(self, at: int) -> np.ndarray:
            return augmented(decoded(self.paths[at].read_bytes()), np.random.default_rng(at))

    class Shards(IterableDataset):  # type: ignore[type-arg]
        def __iter__(self) -> Iterator[np.ndarray]:
            worker = get_worker_info()
            random = np.random.default_rng(worker.id)
            for path in sorted(folder.glob("*.tar"))[worker.id :: worker.num_workers]:
                with tarfile.open(path) as shard:
                    for member in shard:
                        if member.name.endswith(".jpg"):
                            file = shard.extractfile(member)
                            assert file is not None
                            yield augmented(decoded(file.read()), random)

    made: Any = Files() if scenario == "images" else Shards()
    return DataLoader(made, batch_size=BATCH, num_workers=workers, persistent_workers=True)


# -- ours


def augmented_batch(batch: dict[str, Any]) -> dict[str, Any]:
    """Decode and augment a batch of files."""
    random = np.random.default_rng(len(batch["bytes"]))
    return {"image": np.stack([augmented(decoded(each), random) for each in batch["bytes"]])}


def augmented_sample(batch: dict[str, Any]) -> dict[str, Any]:
    """Augment a batch of decoded samples of shards."""
    random = np.random.default_rng(len(batch["jpg"]))
    return {"image": np.stack([augmented(each, random) for each in batch["jpg"]])}


def skate_loader(folder: Path, scenario: str, workers: int) -> Iterable[Any]:
    """Return a loop over a dataset of the files, or of the shards."""
    import skate
    from skate import data

    skate.init(**{**INIT, "num_cpus": workers})
    if scenario == "images":
        rows = data.read_binary_files(str(folder / "images")).map_batches(augmented_batch, batch_size=BATCH)
    else:
        paths = [str(path) for path in sorted(folder.glob("*.tar"))]
        rows = data.read_webdataset(paths).map_batches(augmented_sample, batch_size=BATCH)
    return rows.iter_torch_batches(batch_size=BATCH, prefetch_batches=2)


def measured(loader: Iterable[Any], rows_of: Callable[[Any], int], images: int) -> dict[str, float]:
    """Images a second of an epoch, and milliseconds between two epochs."""
    rates, pauses = [], []
    ended = 0.0
    for epoch in range(EPOCHS):
        begun = time.perf_counter()
        rows = 0
        for batch in loader:
            if not rows and ended:
                pauses.append((time.perf_counter() - ended) * 1000)
            rows += rows_of(batch)
        ended = time.perf_counter()
        if rows != images:
            sys.exit(f"epoch {epoch} had {rows} rows, not {images}")
        if epoch:
            rates.append(rows / (ended - begun))
    return {"images_per_second": statistics.median(rates), "pause_ms": statistics.median(pauses)}


def run_one(args: argparse.Namespace) -> None:
    """Measure one scenario on one target, in this process."""
    if args.target == "torch":
        loader = torch_loader(args.files, args.scenario, args.workers)
        found = measured(loader, len, args.images)
    else:
        loader = skate_loader(args.files, args.scenario, args.workers)
        found = measured(loader, lambda batch: len(batch["image"]), args.images)
    print(
        json.dumps(
            {"figures": {f"{args.scenario} {name}": value for name, value in found.items()}, "notes": {}}
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the input of training beside a torch DataLoader.")
    parser.add_argument("scenario", nargs="?", choices=SCENARIOS, help="one alone; default: all")
    parser.add_argument("--target", choices=TARGETS, help="run the scenario in this process")
    parser.add_argument("--files", type=Path, help="where --target finds its files")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--images", type=int, default=1024)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="OUT.json")
    args = parser.parse_args()
    if args.target:
        run_one(args)
        return
    record = Record()
    scratch = Path(tempfile.mkdtemp(prefix="bench-"))
    runner = Runner(dict.fromkeys(TARGETS, sys.executable), scratch, True, record)
    processes.adopt_orphans()
    try:
        write_files(scratch / "files", args.images)
        options = [
            "--files",
            str(scratch / "files"),
            "--images",
            str(args.images),
            "--workers",
            str(args.workers),
        ]
        for _ in range(args.rounds):
            for scenario in [args.scenario] if args.scenario else SCENARIOS:
                for target in TARGETS:
                    runner.run(
                        target, "benchmarks.data.training_input", scenario, "--target", target, *options
                    )
    finally:
        processes.end_below(os.getpid())
        shutil.rmtree(scratch, ignore_errors=True)
    theirs, ours = (record.medians(target) for target in TARGETS)
    print(f"{'figure':<28}{'DataLoader':>12}{'Skate':>12}{'Skate / DataLoader':>20}")
    for key, value in theirs.items():
        mine = ours.get(key)
        cells = "" if mine is None or not value else f"{mine:>12.1f}{mine / value:>20.2f}"
        print(f"{key:<28}{value or 0:>12.1f}{cells}")
    for failure in record.failures:
        print(f"failed: {failure}")
    if args.json:
        args.json.write_text(
            json.dumps({"values": record.values, "failures": record.failures}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
