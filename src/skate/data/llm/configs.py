"""Configurations of processors."""

from __future__ import annotations

from typing import Any, Literal

from skate.data.llm.settings import Settings


class ProcessorConfig(Settings):
    """A processor: the batch size, the kind of accelerator, and the number of workers.

    `concurrency` is a number of workers or (fewest, most), each 1 or more.
    """

    batch_size: int = 32
    accelerator_type: str | None = None
    concurrency: int | tuple[int, int] = 1

    def _check(self) -> None:
        bounds = self.concurrency if isinstance(self.concurrency, tuple) else (self.concurrency,)
        if min(bounds) < 1 or bounds[0] > bounds[-1]:
            raise ValueError(
                "concurrency must be a number of workers or (fewest, most), each 1 or more, not "
                f"{self.concurrency!r}"
            )

    def get_concurrency(self, autoscaling_enabled: bool = True) -> dict[str, Any]:
        """The bounds of a pool of workers; a plain number is the upper bound, or with False the size."""
        if isinstance(self.concurrency, tuple):
            return {"min_size": self.concurrency[0], "max_size": self.concurrency[1]}
        if autoscaling_enabled:
            return {"min_size": 1, "max_size": self.concurrency}
        return {"size": self.concurrency}


class HttpRequestProcessorConfig(ProcessorConfig):
    """Sends each row's `payload` to a URL by POST; the JSON response becomes `http_response`.

    Args:
        url: the target of requests.
        headers: added to each request.
        qps: the most requests per second that a worker starts; None sends them one after another.
        max_retries: the most retries after 408, 429, 502, 503, 504 or a broken connection.
        base_retry_wait_time_in_s: the wait before the first retry in seconds, doubled for each further one.
        session_factory: returns an aiohttp.ClientSession; None for the standard library's client.
        http_request_stage: True, a dict or an HttpRequestStageConfig.
    """

    batch_size: int = 64
    url: str
    headers: dict[str, Any] | None = None
    qps: int | None = None
    max_retries: int = 0
    base_retry_wait_time_in_s: float = 1
    session_factory: Any = None
    http_request_stage: Any = True


class ServeDeploymentProcessorConfig(ProcessorConfig):
    """Sends rows to a Serve deployment: a row's `method` is called with its `request_kwargs`.

    Args:
        deployment_name, app_name: the deployment.
        dtype_mapping: request classes by name; a row selects one with `dtype`, otherwise it sends a dict.
        should_continue_on_error: True to give a failed row an `__inference_error__` instead of raising.
        request_timeout_s: the timeout of a request in seconds; None for no limit.
    """

    deployment_name: str
    app_name: str = "default"
    dtype_mapping: dict[str, type[Any]] | None = None
    should_continue_on_error: bool = False
    request_timeout_s: float | None = None

    def _check(self) -> None:
        super()._check()
        if self.request_timeout_s is not None and self.request_timeout_s <= 0:
            raise ValueError(f"request_timeout_s must be above 0 or None, got {self.request_timeout_s}")


class OfflineProcessorConfig(ProcessorConfig):
    """Sends rows through an engine that runs in the workers.

    Args:
        model_source: a model's name or path.
        runtime_env: the runtime environment of the workers.
        max_pending_requests: the most concurrent requests of an engine; None for the engine's default.
        max_concurrent_batches: the number of batches in progress per worker, so that the tail of one overlaps
            with the next.
        max_tasks_in_flight_per_actor: the number of batches queued at a worker; None for twice max_concurrent_batches.
        should_continue_on_error: True to give a failed row an `__inference_error__` instead of raising.
        chat_template_stage, tokenize_stage, detokenize_stage, prepare_multimodal_stage: True, False, a dict or
            the stage's config.
    """

    model_source: str
    runtime_env: dict[str, Any] | None = None
    max_pending_requests: int | None = None
    max_concurrent_batches: int = 8
    max_tasks_in_flight_per_actor: int | None = None
    should_continue_on_error: bool = False
    chat_template_stage: Any = True
    tokenize_stage: Any = True
    detokenize_stage: Any = True
    prepare_multimodal_stage: Any = False

    def _check(self) -> None:
        super()._check()
        waiting = self.max_tasks_in_flight_per_actor
        if waiting is not None and waiting < self.max_concurrent_batches:
            import logging  # only the warning needs it

            logging.getLogger("skate.data.llm").warning(
                "max_tasks_in_flight_per_actor=%d is less than max_concurrent_batches=%d: workers will wait for batches",
                waiting,
                self.max_concurrent_batches,
            )


class vLLMEngineProcessorConfig(OfflineProcessorConfig):
    """Sends rows through vLLM, or another engine registered as "vllm".

    Args:
        engine_kwargs: passed to the engine. A worker has tensor_parallel_size times pipeline_parallel_size GPUs.
        task_type: "generate", "embed", "classify" or "score".
        log_engine_metrics: True if the engine logs its own metrics.
        dynamic_lora_loading_path: the folder of LoRA adapters, each in a subfolder of its name.
        placement_group_config: the resources of one worker: `bundle_per_worker` for each of its GPUs, or `bundles`.
    """

    engine_kwargs: dict[str, Any] = {}
    task_type: Literal["generate", "embed", "classify", "score"] = "generate"
    log_engine_metrics: bool = True
    dynamic_lora_loading_path: str | None = None
    placement_group_config: dict[str, Any] | None = None

    def _check(self) -> None:
        super()._check()
        # As in Ray, the engine's arguments include the task, and the config's takes precedence.
        self.engine_kwargs["task_type"] = self.task_type
        if self.placement_group_config is not None:
            object.__setattr__(self, "placement_group_config", _bundles_checked(self.placement_group_config))


class SGLangEngineProcessorConfig(OfflineProcessorConfig):
    """Sends rows through the engine registered as "sglang"."""

    engine_kwargs: dict[str, Any] = {}
    task_type: Literal["generate"] = "generate"

    def _check(self) -> None:
        super()._check()
        self.engine_kwargs["task"] = self.task_type


_STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


def _bundles_checked(given: dict[str, Any]) -> dict[str, Any]:
    """Return a copy with defaults filled in. Raises ValueError unless it has either one bundle for each
    worker or all bundles."""
    unknown = set(given) - {"bundle_per_worker", "bundles", "strategy"}
    if unknown:
        raise ValueError(
            f"placement_group_config takes bundle_per_worker or bundles, and strategy; unknown keys: "
            f"{', '.join(sorted(unknown))}"
        )
    one, several = given.get("bundle_per_worker"), given.get("bundles")
    if (one is None) == (several is None):
        got = "neither" if one is None else "both"
        raise ValueError(
            f"placement_group_config needs exactly one of bundle_per_worker and bundles, got {got}"
        )
    strategy = given.get("strategy", "PACK")
    if strategy not in _STRATEGIES:
        raise ValueError(
            f"strategy of placement_group_config must be one of {', '.join(_STRATEGIES)}, got {strategy!r}"
        )
    return {
        "bundle_per_worker": None if one is None else _bundle(one),
        "bundles": None if several is None else [_bundle(each) for each in several],
        "strategy": strategy,
    }


def _bundle(given: Any) -> dict[str, float]:
    if not isinstance(given, dict):
        raise ValueError(f"a bundle must be a dict of resources, got {given!r:.80}")
    for name, amount in given.items():
        if isinstance(amount, bool) or not isinstance(amount, (int, float)) or amount < 0:
            raise ValueError(f"{name} of a bundle must be a number >= 0, got {amount!r}")
    return {"CPU": 0.0, "GPU": 0.0, **{name: float(amount) for name, amount in given.items()}}
