"""`RuntimeEnv` and `RuntimeEnvConfig`, by the module that Ray defines them in."""

from __future__ import annotations

from skate.runtime_env import RuntimeEnv, RuntimeEnvConfig

__all__ = ["RuntimeEnv", "RuntimeEnvConfig"]
