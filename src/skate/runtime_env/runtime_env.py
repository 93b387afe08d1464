"""`RuntimeEnv` and `RuntimeEnvConfig`, under the module in which Ray defines them."""

from __future__ import annotations

from skate.runtime_env import RuntimeEnv, RuntimeEnvConfig

__all__ = ["RuntimeEnv", "RuntimeEnvConfig"]
