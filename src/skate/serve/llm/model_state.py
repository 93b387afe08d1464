"""The state of a model for those who look at it: requests, tokens, times to the first token, slots and cache.

A model announces itself when it is ready, and the state is made only when it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import REGISTRY, CollectorRegistry

from skate.llm.engine import Engine
from skate.llm.openai.metrics import Metrics
from skate.llm.output import ModelInfo
from skate.util.announcements import announce

LIBRARY = "llm"
#: What vLLM's own registry calls the numbers of the page.
OF_VLLM = {
    "vllm:num_requests_running": "slots_used",
    "vllm:num_requests_waiting": "waiting",
    "vllm:kv_cache_usage_perc": "cache_share",
    "vllm:prefix_cache_queries_total": "prompt_tokens_asked",
    "vllm:prefix_cache_hits_total": "prompt_tokens_cached",
}


def begin(model: str, info: ModelInfo, engine: Engine, metrics: Metrics) -> None:
    """Announce a model. It stays as long as its process."""
    facts = {
        "model": model,
        "weights": info.model,
        "engine": info.engine,
        "max_model_len": info.max_model_len,
    }
    announce(LIBRARY, model, facts, lambda: {"requests": metrics.figures(), "engine": engine_figures(engine)})


def engine_figures(engine: object) -> Mapping[str, float]:
    """Return what an engine tells about itself: by `figures`, by `load`, or in the registry of vLLM."""
    figures = getattr(engine, "figures", None)
    if figures is not None:
        return dict(figures())
    load = getattr(engine, "load", None)
    if load is not None:
        running, waiting = load()
        return {"slots_used": running, "waiting": waiting}
    return registered(REGISTRY)


def registered(registry: CollectorRegistry) -> Mapping[str, float]:
    """Return the numbers of vLLM that are in a registry, added up over its engines."""
    found: dict[str, float] = {}
    for family in registry.restricted_registry(list(OF_VLLM)).collect():
        for sample in family.samples:
            name = OF_VLLM.get(sample.name)
            if name is not None:
                found[name] = found.get(name, 0.0) + sample.value
    return found
