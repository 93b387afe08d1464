"""Operator controls of a model's engine: sleep, pause, profile."""

from __future__ import annotations

from typing import Any

from skate.llm.engine import Engine


class EngineControls:
    """Passed on to the engine. Raises NotImplementedError where the engine has no such thing."""

    engine: Engine

    async def _control(self, method: str, *args: Any, **kwargs: Any) -> Any:
        controls = getattr(self.engine, "control", None)
        if controls is None:
            raise NotImplementedError(
                f"{method}: the engine of this model does not support it; vLLM on a GPU does"
            )
        return await controls(method, *args, **kwargs)

    async def sleep(self, **kwargs: Any) -> None:
        """Give back the GPU's memory until `wakeup`; arguments are vLLM's, such as level=1."""
        await self._control("sleep", **kwargs)

    async def wakeup(self, **kwargs: Any) -> None:
        """Take the memory again; arguments are vLLM's."""
        await self._control("wake_up", **kwargs)

    async def is_sleeping(self) -> bool:
        """True if the engine sleeps."""
        return bool(await self._control("is_sleeping"))

    async def pause(self, **kwargs: Any) -> None:
        """Stop generating until `resume`; arguments are vLLM's."""
        await self._control("pause_generation", **kwargs)

    async def resume(self, **kwargs: Any) -> None:
        """Resume generating."""
        await self._control("resume_generation", **kwargs)

    async def is_paused(self) -> bool:
        """True if the engine is paused."""
        return bool(await self._control("is_paused"))

    async def start_profile(self) -> None:
        """Start recording a profile of the engine."""
        await self._control("start_profile")

    async def stop_profile(self) -> None:
        """Stop recording."""
        await self._control("stop_profile")

    async def collective_rpc(
        self, method: str, timeout: float | None = None, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> list[Any]:
        """Call a method in each of the engine's workers."""
        found: list[Any] = await self._control("collective_rpc", method, timeout, args, kwargs)
        return found
