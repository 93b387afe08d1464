"""Gradio applications as deployments. Gradio is not among the packages of the tests; with it, the second test runs."""

from __future__ import annotations

import importlib.util
import socket
from typing import Any

import httpx
import pytest

import skate
from skate import serve

HAS_GRADIO = importlib.util.find_spec("gradio") is not None


@pytest.mark.skipif(HAS_GRADIO, reason="Gradio is installed")
def test_a_missing_gradio_is_named_with_the_command_that_installs_it() -> None:
    with pytest.raises(ModuleNotFoundError, match="pip install gradio"):
        importlib.import_module("skate.serve.gradio_integrations")


@pytest.mark.skipif(not HAS_GRADIO, reason="needs Gradio: pip install gradio")
def test_an_application_answers_at_its_prefix_and_calls_another_deployment() -> None:
    import gradio

    from skate.serve.gradio_integrations import GradioIngress, GradioServer

    class Model:
        def __call__(self, text: str) -> str:
            return text.upper()

    class Page(GradioIngress):
        def __init__(self, model: Any) -> None:
            self.model = model
            super().__init__(lambda: gradio.Interface(self.ask, "text", "text", api_name="ask"))

        async def ask(self, text: str) -> str:
            return str(await self.model.remote(text))

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    skate.init(num_cpus=2, log_to_driver=False)
    try:
        serve.start(http_options={"port": port})
        light = serve.deployment(ray_actor_options={"num_cpus": 0})
        serve.run(light(Page).bind(light(Model).bind()), name="page", route_prefix="/page")
        answer = httpx.get(f"http://127.0.0.1:{port}/page", follow_redirects=True, timeout=30)
        assert answer.status_code == 200 and f'"root":"http://127.0.0.1:{port}/page"' in answer.text
        call = {"data": ["skate"], "session_hash": "one"}
        begun = httpx.post(f"http://127.0.0.1:{port}/page/gradio_api/call/ask", json=call, timeout=30)
        event = begun.json()["event_id"]
        told = httpx.get(f"http://127.0.0.1:{port}/page/gradio_api/call/ask/{event}", timeout=30)
        assert '"SKATE"' in told.text
        with pytest.raises(RuntimeError, match="must return a Gradio application"):
            serve.run(GradioServer.bind(lambda: 3), name="wrong", route_prefix="/wrong")
    finally:
        serve.shutdown()
        skate.shutdown()
