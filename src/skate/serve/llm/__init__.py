"""Language models as deployments with OpenAI's API. Configs need no engine; it is imported at deployment."""

from __future__ import annotations

from skate import lazy_loader

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
_PARTS = ("deployment", "ingress", "openai_api_models", "request_router")

__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES, _PARTS)
