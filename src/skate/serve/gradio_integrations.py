"""Gradio applications as deployments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.serve.deployment import deployment
from skate.serve.ingress.views import ingress

try:
    import gradio
    from fastapi import FastAPI
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "skate.serve.gradio_integrations needs Gradio, which is not installed: run 'pip install gradio'"
    ) from error


@ingress()
class GradioIngress:
    """A base class for deployments that serve a Gradio application.

    Gradio keeps the queue and the state of a visitor in the process that serves the page. Use one replica,
    and let it call other deployments that have more, or send each visitor to the same replica.

    Args:
        builder: A function without parameters that returns a `gradio.Blocks`, such as a `gradio.Interface`.
            The replica calls it once. Give it the function and not the application, which cannot be pickled.

    Raises:
        TypeError: `builder` is not a function, or returns something else.
    """

    def __init__(self, builder: Callable[[], gradio.Blocks]) -> None:
        if isinstance(builder, gradio.Blocks) or not callable(builder):
            raise TypeError(
                "builder must be a function that returns the Gradio application, "
                f"got {type(builder).__name__}. Write GradioServer.bind(lambda: application)"
            )
        blocks = builder()
        if not isinstance(blocks, gradio.Blocks):
            raise TypeError(
                f"builder must return a Gradio application (gradio.Blocks), got {type(blocks).__name__}"
            )
        self.blocks = blocks

    def __serve_build_asgi_app__(self) -> Any:
        """Return the application that answers the replica's HTTP requests."""
        return gradio.mount_gradio_app(FastAPI(), self.blocks, path="")


#: A ready deployment: `GradioServer.options(num_replicas=1).bind(builder)`.
GradioServer = deployment(GradioIngress)
