"""Operator controls of a model's engine: sleep, pause and profile."""

from __future__ import annotations

from typing import Any

from skate.llm.engine import Engine


class EngineControls:
    """Forwards operator calls to the engine. Raises NotImplementedError if the engine does not support them."""

    engine: Engine

    async def _control(self, method: str, *args: Any, **kwargs: Any) -> Any:
        controls = getattr(self.engine, "control", None)
        if controls is None:
            raise NotImplementedError(
                f"{method}: the engine of this model does not support it; vLLM on a GPU does"
            )
        return await controls(method, *args, **kwargs)

    async def sleep(self, **kwargs: Any) -> None:
        """Release the GPU's memory until `wakeup`; arguments are vLLM's, such as level=1."""
        await self._control("sleep", **kwargs)

    async def wakeup(self, **kwargs: Any) -> None:
        """Allocate the memory again; arguments are vLLM's."""
        await self._control("wake_up", **kwargs)

    async def is_sleeping(self) -> bool:
        """Return True if the engine is sleeping."""
        return bool(await self._control("is_sleeping"))

    async def pause(self, **kwargs: Any) -> None:
        """Stop generating until `resume`; arguments are vLLM's."""
        await self._control("pause_generation", **kwargs)

    async def resume(self, **kwargs: Any) -> None:
        """Resume generating."""
        await self._control("resume_generation", **kwargs)

    async def is_paused(self) -> bool:
        """Return True if the engine is paused."""
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
        """Call a method in each of the engine's workers and return their results."""
        found: list[Any] = await self._control("collective_rpc", method, timeout, args, kwargs)
        return found
