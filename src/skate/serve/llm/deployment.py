"""The classes of model deployments."""

from __future__ import annotations

from skate.serve.llm.data_parallel import DPServer
from skate.serve.llm.disaggregation import PDDecodeServer, PDPrefillServer
from skate.serve.llm.server import LLMServer

__all__ = ["DPServer", "LLMServer", "PDDecodeServer", "PDPrefillServer"]
