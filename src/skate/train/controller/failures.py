"""Selection of the cause among several failures, and its description. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skate.train.controller.machine import SyncPoint

#: Phrases in errors of ranks that only lost the connection to one that failed before.
_ECHOES = (
    "connection closed by peer",
    "connection reset by peer",
    "broken pipe",
    "connection refused",
    "timed out waiting",
    "ncclremoteerror",
    "socket closed",
    "the run ended while this worker waited",
)

#: Advice for library errors that do not explain themselves: phrases of the error, and the advice.
_ADVICE = (
    (
        ("type fp16 is not supported on your device",),
        'these workers have no GPU, and DeepSpeed computes in fp16 on GPUs only: set "fp16": {"enabled": False} in its config, '
        'and "bf16": {"enabled": True} for half precision',
    ),
    (
        (
            *("torch not compiled with cuda enabled", "found no nvidia driver", "no cuda gpus are available"),
            "module 'torch._c' has no attribute '_cuda_",
        ),
        "this worker has no GPU that torch can use: request one with ScalingConfig(use_gpu=True) on a machine "
        "that has them, or "
        "guard calls of torch.cuda such as set_device with `if torch.cuda.is_available():`; "
        "ray.train.torch.get_device() is right on both",
    ),
)


def advice(error: BaseException) -> str:
    """Advice for an error that does not explain itself; empty for all others."""
    text = str(error).lower()
    return next((hint for words, hint in _ADVICE if any(each in text for each in words)), "")


def is_consequence(error: BaseException) -> bool:
    """True if an error only reports that another rank is gone."""
    text = str(error).lower()
    return any(each in text for each in _ECHOES)


def causes_first(failures: Sequence[tuple[int, Exception]]) -> list[tuple[int, Exception]]:
    """Order failures for the message: causes in order of occurrence, then consequences of failures elsewhere."""
    causes = [each for each in failures if not is_consequence(each[1])]
    echoes = [each for each in failures if is_consequence(each[1])]
    return causes + echoes


def described(failures: Sequence[tuple[int, Exception]], stuck: Mapping[int, str], workers: int) -> str:
    """Describe the failures: the first in full, the others in one line each, and where the remaining ranks hang."""
    rank, error = failures[0]
    lines = [f"rank {rank} of {workers} failed first:", _text(error)]
    hint = advice(error)
    if hint:
        lines.append(f"what to change: {hint}")
    for other, later in failures[1:]:
        lines.append(f"rank {other} failed after it: {_last_line(later)}")
    for other, stack in stuck.items():
        lines.append(
            f"rank {other} was still running:\n{stack.rstrip()}"
            if stack
            else f"rank {other} was still running"
        )
    return "\n".join(lines)


def unreached(sync_point: SyncPoint, missing: Sequence[int]) -> str:
    """Describe ranks that wait for others that have already returned."""
    what = _what(sync_point)
    return (
        f"{_ranks(sorted(sync_point.arrived), 'waits', 'wait')} in {what} number {sync_point.number + 1}, "
        f"which {_ranks(missing)} never reached, because the training function has returned there; "
        f"all ranks must call {what} the same number of times"
    )


def late(sync_point: SyncPoint, missing: Sequence[int], seconds: float, stacks: Mapping[int, str]) -> str:
    """Describe ranks that wait for others that are still running, and where those are."""
    arrived = _ranks(sorted(sync_point.arrived), "has", "have")
    lines = [
        f"{arrived} waited {seconds:.0f} s in {_what(sync_point)} number {sync_point.number + 1} for {_ranks(missing)}"
    ]
    for rank, stack in stacks.items():
        lines.append(
            f"rank {rank} is at:\n{stack.rstrip()}" if stack else f"rank {rank} does not report its position"
        )
    return "\n".join(lines)


def _what(sync_point: SyncPoint) -> str:
    return "report()" if sync_point.kind == "report" else "a collective"


def _ranks(ranks: Sequence[int], one: str = "", several: str = "") -> str:
    names = ", ".join(map(str, ranks))
    return f"rank {names} {one}".rstrip() if len(ranks) == 1 else f"ranks {names} {several}".rstrip()


def first_line(failures: Sequence[tuple[int, Exception]]) -> str:
    """Return the first failure in one line."""
    rank, error = failures[0]
    return f"rank {rank}: {_last_line(error)}"


def _text(error: Exception) -> str:
    """Return the error text of a rank, without the submission site in this package."""
    lines = [line for line in str(error).rstrip().splitlines() if not line.startswith("  submitted at ")]
    return "\n".join(lines) or repr(error)


def _last_line(error: Exception) -> str:
    """Return the main line of an error: the last of a traceback, the first of a plain message."""
    lines = [line.strip() for line in _text(error).splitlines() if line.strip()]
    if not lines:
        return repr(error)
    return lines[-1] if any(line.startswith('File "') for line in lines) else lines[0]
