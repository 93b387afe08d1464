"""Results and errors of calls to several actors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from skate import exceptions


class ResultOrError:
    """The result of a call, or its error.

    Args:
        result: The result; None is one too.
        error: The error; one of a task is shown as the exception that the task raised.
    """

    def __init__(self, result: Any = None, error: Exception | None = None) -> None:
        self._result = result
        self._error = error.as_instanceof_cause() if isinstance(error, exceptions.RayTaskError) else error

    @property
    def ok(self) -> bool:
        """True if there is no error."""
        return self._error is None

    def get(self) -> Any:
        """Return the result, or the error."""
        return self._result if self._error is None else self._error


@dataclass
class CallResult:
    """The outcome of one call.

    Args:
        actor_id: The id of the actor.
        result_or_error: What it returned or raised.
        tag: The tag of the call.
    """

    actor_id: int
    result_or_error: ResultOrError
    tag: str | None

    @property
    def ok(self) -> bool:
        """True if there is no error."""
        return self.result_or_error.ok

    def get(self) -> Any:
        """Return the result, or the error."""
        return self.result_or_error.get()


class RemoteCallResults:
    """Outcomes of several calls, in the order in which they were taken."""

    def __init__(self) -> None:
        self.result_or_errors: list[CallResult] = []

    def add_result(self, actor_id: int, result_or_error: ResultOrError, tag: str | None) -> None:
        """Add what one call gave."""
        self.result_or_errors.append(CallResult(actor_id, result_or_error, tag))

    def __iter__(self) -> Iterator[CallResult]:
        return iter(list(self.result_or_errors))

    def __len__(self) -> int:
        return len(self.result_or_errors)

    def ignore_errors(self) -> Iterator[CallResult]:
        """Iterate over the results of calls without an error."""
        return iter([each for each in self.result_or_errors if each.ok])

    def ignore_ray_errors(self) -> Iterator[CallResult]:
        """Iterate over the results without those of actors that died; errors of the calls themselves stay."""
        return iter(
            [each for each in self.result_or_errors if not isinstance(each.get(), exceptions.RayError)]
        )
