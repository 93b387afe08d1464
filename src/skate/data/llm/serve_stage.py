"""The stage that calls a Serve deployment."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from skate.data.llm.stage import ERROR, Stage, StageCall

#: The number of characters of a request to keep in a failed row.
_SHOWN = 200


class ServeDeploymentCall(StageCall):
    """Adds a deployment's response to each row; the requests of a batch run concurrently."""

    def __init__(
        self,
        data_column: str,
        expected_input_keys: Sequence[str],
        deployment_name: str,
        app_name: str,
        dtype_mapping: dict[str, type[Any]] | None = None,
        should_continue_on_error: bool = False,
        request_timeout_s: float | None = None,
    ) -> None:
        super().__init__(data_column, expected_input_keys)
        from skate import serve  # a sibling library that only this stage needs

        self._handle = serve.get_deployment_handle(deployment_name, app_name).options(stream=True)
        self._kinds = dtype_mapping or {}
        self.should_continue_on_error = should_continue_on_error
        self.timeout = request_timeout_s
        self._requests = 0

    def outputs(self, rows: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
        """Yield the response for each row."""
        return asyncio.run(self._all(rows))

    async def _all(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        batch = uuid.uuid4().hex
        return await asyncio.gather(*(self._one(row, batch) for row in rows))

    async def _one(self, row: dict[str, Any], batch: str) -> dict[str, Any]:
        number, self._requests = self._requests, self._requests + 1
        started = time.perf_counter()
        try:
            made = await self._request(row, number)
        except Exception as error:  # the deployment may raise anything
            if not self.should_continue_on_error or not _of_the_row(error):
                raise
            return {
                "batch_uuid": batch,
                "request_kwargs": str(row["request_kwargs"])[:_SHOWN],
                ERROR: f"{type(error).__name__}: {error}",
            }
        seconds = time.perf_counter() - started
        return {**made, "request_id": str(number), "batch_uuid": batch, "time_taken": seconds, ERROR: ""}

    async def _request(self, row: dict[str, Any], number: int) -> dict[str, Any]:
        request: Any = {"request_id": str(number), **row["request_kwargs"]}
        name = row.get("dtype")
        if name is not None:
            if name not in self._kinds:
                known = ", ".join(self._kinds) or "nothing"
                raise ValueError(f"dtype_mapping lacks {name!r}, the dtype of a row; its keys are {known}")
            request = self._kinds[name](**request)
        answers = getattr(self._handle, row["method"]).remote(request)
        try:
            made = await asyncio.wait_for(answers.__anext__(), self.timeout)
        except asyncio.TimeoutError:
            raise TimeoutError(
                f"{row['method']} did not respond within request_timeout_s={self.timeout} s"
            ) from None
        dump = getattr(made, "model_dump", None)  # pydantic models
        found: dict[str, Any] = made if dump is None else dump()
        return found


def _of_the_row(error: Exception) -> bool:
    """True if the error may be caused by the row, so that other rows can still succeed."""
    cause = getattr(error, "cause", None)
    # pydantic's ValidationError is a ValueError.
    return any(isinstance(each, (ValueError, TypeError, TimeoutError)) for each in (error, cause))


class ServeDeploymentStage(Stage):
    """A stage that sends rows to a deployment."""

    fn = ServeDeploymentCall

    def get_required_input_keys(self) -> dict[str, str]:
        """The method and request columns, and their meaning."""
        return {
            "method": "the name of the deployment's method",
            "request_kwargs": "the fields of the request",
        }

    def get_optional_input_keys(self) -> dict[str, str]:
        """The column that selects the request's class."""
        return {"dtype": "the name of the request's class in dtype_mapping; without it a dict is sent"}
