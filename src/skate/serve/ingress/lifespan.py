"""Startup and shutdown of an ASGI application."""

from __future__ import annotations

import asyncio
from typing import Any


class Lifespan:
    """Runs the ASGI lifespan protocol with an application, if the application supports it."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.state: dict[str, Any] = {}
        self._to_app: asyncio.Queue[Any] = asyncio.Queue()
        self._from_app: asyncio.Queue[Any] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def startup(self) -> None:
        """Start the application. Raise RuntimeError with its message if it reports a failure."""
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        self._task = asyncio.get_running_loop().create_task(
            self.app(scope, self._to_app.get, self._from_app.put)
        )
        await self._send("lifespan.startup")

    async def shutdown(self) -> None:
        """Shut the application down."""
        if self._task is not None and not self._task.done():
            await self._send("lifespan.shutdown")

    async def _send(self, what: str) -> None:
        assert self._task is not None
        await self._to_app.put({"type": what})
        answer = asyncio.get_running_loop().create_task(self._from_app.get())
        await asyncio.wait([answer, self._task], return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            answer.cancel()
            self._task.exception()  # it does not support lifespan, which is optional
            return
        if answer.result()["type"] == f"{what}.failed":
            raise RuntimeError(
                f"the ASGI application failed during {what}: {answer.result().get('message', '')}"
            )
