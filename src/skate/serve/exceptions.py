"""Exceptions of Serve."""

from __future__ import annotations

from typing import Any

from skate.exceptions import TaskCancelledError


class RayServeException(Exception):
    """The base class of Serve's errors."""


class NoDeploymentError(RayServeException, KeyError):
    """A handle was requested for a deployment that does not exist."""

    __str__ = Exception.__str__


class BackPressureError(RayServeException):
    """A request was rejected because too many requests are waiting."""

    def __init__(
        self,
        num_queued_requests: int,
        max_queued_requests: int,
        status_code: int = 503,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(num_queued_requests, max_queued_requests, status_code, retry_after_s)
        self.num_queued_requests = num_queued_requests
        self.max_queued_requests = max_queued_requests
        self.status_code = status_code
        self.retry_after_s = retry_after_s
        self._message = (
            f"Request dropped due to backpressure (num_queued_requests={num_queued_requests}, "
            f"max_queued_requests={max_queued_requests}). Try again later, or raise the limit or the number of replicas"
        )

    def __str__(self) -> str:
        return self._message

    @property
    def message(self) -> str:
        """The error message."""
        return self._message


class RequestNotAcceptedError(RayServeException):
    """A replica that is about to end did not begin a request. Routers send the request to another one."""

    def __init__(self, replica: str) -> None:
        super().__init__(replica)
        self.replica = replica

    def __str__(self) -> str:
        return f"the replica {self.replica} is about to end and begins no further request"


class DeploymentUnavailableError(RayServeException):
    """The deployment cannot accept requests: it failed or was deleted."""

    def __init__(self, deployment_id: Any) -> None:
        super().__init__(deployment_id)
        self._deployment_id = deployment_id

    @property
    def message(self) -> str:
        """The error message."""
        return (
            f"{self._deployment_id} is unavailable because it failed to deploy. It may also have been "
            "deleted; see serve.status()"
        )

    def __str__(self) -> str:
        return self.message


class ReplicaUnavailableError(RayServeException):
    """The chosen replica no longer accepts requests."""

    def __init__(self, replica_id: Any) -> None:
        super().__init__(replica_id)
        self.replica_id = replica_id

    @property
    def message(self) -> str:
        """The error message."""
        return f"Replica {self.replica_id} is no longer available. Choose another one"

    def __str__(self) -> str:
        return self.message


class RequestCancelledError(RayServeException, TaskCancelledError):
    """The request was cancelled before it was answered."""

    def __init__(self, request_id: str | None = None) -> None:
        RayServeException.__init__(self, request_id)
        self._request_id = request_id or ""

    def __str__(self) -> str:
        return f"Request {self._request_id} was cancelled." if self._request_id else "Request was cancelled."


class gRPCStatusError(RayServeException):
    """An error that ends a gRPC request with a given status."""

    def __init__(
        self, original_exception: BaseException, code: Any = None, details: str | None = None
    ) -> None:
        super().__init__(original_exception, code, details)
        self.original_exception = original_exception
        self.code = code
        self.details = details

    @property
    def grpc_code(self) -> Any:
        """The status."""
        return self.code

    @property
    def grpc_details(self) -> str | None:
        """The status message."""
        return self.details

    def __str__(self) -> str:
        return str(self.original_exception)
