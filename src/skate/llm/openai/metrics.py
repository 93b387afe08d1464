"""Prometheus metrics of requests. The time to the first token is split into the engine's part and the rest."""

from __future__ import annotations

import itertools
from typing import Any

import prometheus_client
from prometheus_client import REGISTRY, CollectorRegistry

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_SPEEDS = (1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500)

#: The names under which a registry is asked for these metrics.
_SAMPLES = [
    "skate_llm_ttft_framework_seconds_bucket",
    "skate_llm_ttft_engine_seconds_bucket",
    "skate_llm_tokens_per_second_bucket",
    "skate_llm_prompt_tokens_total",
    "skate_llm_generated_tokens_total",
    "skate_llm_requests_total",
    "skate_llm_requests_running",
]

_made: dict[CollectorRegistry, dict[str, Any]] = {}


def _collectors(registry: CollectorRegistry) -> dict[str, Any]:
    if registry not in _made:
        more: dict[str, Any] = {"labelnames": ("model",), "registry": registry}
        _made[registry] = {
            "ttft_framework": prometheus_client.Histogram(
                "skate_llm_ttft_framework_seconds",
                "Time to the first token outside the engine: validation, template, tokenization and delivery.",
                buckets=_SECONDS,
                **more,
            ),
            "ttft_engine": prometheus_client.Histogram(
                "skate_llm_ttft_engine_seconds",
                "Time to the first token in the engine: waiting for a slot and computing the prompt.",
                buckets=_SECONDS,
                **more,
            ),
            "speed": prometheus_client.Histogram(
                "skate_llm_tokens_per_second", "Tokens per second of one request.", buckets=_SPEEDS, **more
            ),
            "prompt": prometheus_client.Counter("skate_llm_prompt_tokens", "Tokens of prompts.", **more),
            "generated": prometheus_client.Counter(
                "skate_llm_generated_tokens", "Tokens of answers.", **more
            ),
            "requests": prometheus_client.Counter(
                "skate_llm_requests",
                "Requests by how they ended.",
                labelnames=("model", "ended"),
                registry=registry,
            ),
            "running": prometheus_client.Gauge("skate_llm_requests_running", "Running requests.", **more),
        }
    return _made[registry]


class Metrics:
    """The metrics of one model."""

    def __init__(self, model: str, registry: CollectorRegistry = REGISTRY) -> None:
        found = _collectors(registry)
        self._registry = registry
        self._requests = found["requests"]
        self._model = model
        self.ttft_framework = found["ttft_framework"].labels(model)
        self.ttft_engine = found["ttft_engine"].labels(model)
        self.speed = found["speed"].labels(model)
        self.prompt = found["prompt"].labels(model)
        self.generated = found["generated"].labels(model)
        self.running = found["running"].labels(model)

    def figures(self) -> dict[str, object]:
        """Return the current values of this model by name; a histogram is its sum, and its counts by bucket with their bounds."""
        found: dict[str, object] = {}
        bounds: dict[str, list[tuple[float, float]]] = {}
        for family in self._registry.restricted_registry(_SAMPLES).collect():
            for sample in family.samples:
                labels = dict(sample.labels)
                if labels.pop("model", None) != self._model or sample.name.endswith("_created"):
                    continue
                name = sample.name.removeprefix("skate_llm_")
                if "le" in labels:
                    bounds.setdefault(name.removesuffix("_bucket"), []).append(
                        (float(labels["le"]), sample.value)
                    )
                else:
                    found[":".join([name, *labels.values()])] = sample.value
        for name, buckets in bounds.items():
            sums = [0.0, *(value for _, value in buckets)]
            counts = [after - before for before, after in itertools.pairwise(sums)]
            found[name] = {"bounds": [bound for bound, _ in buckets[:-1]], "counts": counts}
        return found

    def first(self, seconds: float, engine_seconds: float | None) -> None:
        """Record the time to the first token of a request."""
        engine = engine_seconds if engine_seconds is not None else seconds
        self.ttft_engine.observe(engine)
        self.ttft_framework.observe(max(0.0, seconds - engine))

    def end(self, ended: str, prompt: int = 0, generated: int = 0, seconds: float = 0.0) -> None:
        """Record the end of a request."""
        self._requests.labels(self._model, ended).inc()
        self.prompt.inc(prompt)
        self.generated.inc(generated)
        if generated > 1 and seconds > 0:
            self.speed.observe(generated / seconds)
