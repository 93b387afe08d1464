"""Language models as deployments, asked by OpenAI's clients. Configs import everywhere; the engine is looked for at deploy."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "skate.serve.llm.app_builder": (
        "build_dp_deployment",
        "build_dp_openai_app",
        "build_llm_deployment",
        "build_openai_app",
        "build_pd_openai_app",
    ),
    "skate.serve.llm.configs": (
        "CloudMirrorConfig",
        "LLMConfig",
        "LLMServingArgs",
        "LoraConfig",
        "ModelLoadingConfig",
    ),
    "skate.serve.llm.ingress": ("LLMRouter", "OpenAiIngress"),
    "skate.serve.llm.server": ("LLMServer",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_PARTS = ("deployment", "ingress", "openai_api_models", "request_router")

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is not None:
        found = globals()[name] = getattr(importlib.import_module(home), name)
        return found
    if name in _PARTS:
        return importlib.import_module(f"skate.serve.llm.{name}")
    raise AttributeError(f"module 'skate.serve.llm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
