"""Which of several failures is the cause, and how it is told. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: Words in errors of ranks that have only lost touch with one that failed before.
_ECHOES = (
    "connection closed by peer",
    "connection reset by peer",
    "broken pipe",
    "connection refused",
    "timed out waiting",
    "ncclremoteerror",
    "socket closed",
    "the run was ended while this worker waited",
)


def is_echo(error: BaseException) -> bool:
    """Whether an error says no more than that another rank is gone."""
    text = str(error).lower()
    return any(each in text for each in _ECHOES)


def told_by_others(failures: Sequence[tuple[int, Exception]]) -> list[tuple[int, Exception]]:
    """Failures in the order to be told: causes as they happened, then those that are echoes of a failure elsewhere."""
    causes = [each for each in failures if not is_echo(each[1])]
    echoes = [each for each in failures if is_echo(each[1])]
    return causes + echoes


def described(failures: Sequence[tuple[int, Exception]], stuck: Mapping[int, str], workers: int) -> str:
    """The failures in words: the first whole, the others in a line each, and where the rest hangs."""
    rank, error = failures[0]
    lines = [f"rank {rank} of {workers} failed first:", _text(error)]
    for other, later in failures[1:]:
        lines.append(f"rank {other} failed after it: {_last_line(later)}")
    for other, stack in stuck.items():
        lines.append(
            f"rank {other} was still running:\n{stack.rstrip()}"
            if stack
            else f"rank {other} was still running"
        )
    return "\n".join(lines)


def _text(error: Exception) -> str:
    return str(error).rstrip() or repr(error)


def _last_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else repr(error)
