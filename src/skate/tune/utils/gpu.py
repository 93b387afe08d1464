"""Wait for a GPU that another process may still use."""

from __future__ import annotations

import subprocess
import time
from typing import Any

import skate


def wait_for_gpu(
    gpu_id: int | str | None = None,
    target_util: float = 0.01,
    retry: int = 20,
    delay_s: float = 5,
    gpu_memory_limit: float | None = None,
) -> bool:
    """Wait until little of a GPU's memory is in use; call it at the beginning of a trial that reuses one.

    Args:
        gpu_id: its number, or (part of) its UUID; by default the first GPU of this process.
        target_util: the fraction of its memory that may be in use.
        retry: the number of checks.
        delay_s: seconds between checks.
        gpu_memory_limit: MiB that may be in use, instead of `target_util`.

    Returns:
        True, once little is in use.

    Raises:
        RuntimeError: there is no nvidia-smi, this process has no GPU, or its memory stays in use.
        ValueError: there is no such GPU.
    """
    if gpu_id is None:
        given: list[Any] = skate.get_gpu_ids()
        if not given:
            raise RuntimeError(
                "wait_for_gpu checks the GPU of this process, which has none; request one with "
                'tune.with_resources(trainable, {"gpu": 1}), or set gpu_id='
            )
        gpu_id = given[0]
    for look in range(retry):
        if look:
            time.sleep(delay_s)
        used, total = _memory(gpu_id)
        most = gpu_memory_limit if gpu_memory_limit is not None else total * target_util
        if used <= most:
            return True
    raise RuntimeError(
        f"GPU {gpu_id} has {used:.0f} MiB of {total:.0f} in use after {retry} checks, {delay_s} s apart; "
        "the limit is "
        f"{most:.0f} MiB"
    )


def _memory(gpu_id: int | str) -> tuple[float, float]:
    """Return the used and the total memory, in MiB."""
    command = [
        "nvidia-smi",
        "--query-gpu=index,uuid,memory.used,memory.total",
        "--format=csv,noheader,nounits",
    ]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise RuntimeError(f"wait_for_gpu needs nvidia-smi, which cannot be run: {error}") from error
    found = [[each.strip() for each in line.split(",")] for line in listed.splitlines() if line.strip()]
    for number, uuid, used, total in found:
        text = str(gpu_id)
        if text == number or (not text.isdecimal() and text.removeprefix("GPU-") in uuid):
            return float(used), float(total)
    raise ValueError(
        f"there is no GPU {gpu_id!r}; the GPUs are {', '.join(each[0] for each in found) or 'none'}"
    )
