"""The classes that deployments of models are made of."""

from __future__ import annotations

from skate.serve.llm.server import LLMServer

__all__ = ["LLMServer"]
