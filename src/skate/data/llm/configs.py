"""What can be said of a processor."""

from __future__ import annotations

from typing import Any, Literal

from skate.data.llm.settings import Settings


class ProcessorConfig(Settings):
    """A processor: rows of a batch, the kind of accelerator, and how many workers there are.

    `concurrency` is a number of workers or (fewest, most), each 1 or more.
    """

    batch_size: int = 32
    accelerator_type: str | None = None
    concurrency: int | tuple[int, int] = 1

    def _check(self) -> None:
        bounds = self.concurrency if isinstance(self.concurrency, tuple) else (self.concurrency,)
        if min(bounds) < 1 or bounds[0] > bounds[-1]:
            raise ValueError(
                f"concurrency is a number of workers or (fewest, most), each 1 or more, not {self.concurrency!r}"
            )

    def get_concurrency(self, autoscaling_enabled: bool = True) -> dict[str, Any]:
        """The bounds of a pool of workers; a plain number is the upper bound, or with False the size."""
        if isinstance(self.concurrency, tuple):
            return {"min_size": self.concurrency[0], "max_size": self.concurrency[1]}
        if autoscaling_enabled:
            return {"min_size": 1, "max_size": self.concurrency}
        return {"size": self.concurrency}


class HttpRequestProcessorConfig(ProcessorConfig):
    """Each row's `payload` is sent to a URL by POST, the answer's JSON comes back as `http_response`.

    Args:
        url: where requests go.
        headers: added to each request.
        qps: how many requests a second a worker starts at most; None for one after the other.
        max_retries: how often a request is tried anew after 408, 429, 502, 503, 504 or a broken connection.
        base_retry_wait_time_in_s: the wait before the first retry, doubled for each further one.
        session_factory: gives an aiohttp.ClientSession; the standard library's client is used if None.
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
    """Rows go to a deployment of Serve: `method` and `request_kwargs` of a row say what is called with what.

    Args:
        deployment_name, app_name: which deployment.
        dtype_mapping: the classes of requests by the name that a row has as `dtype`; a row without one sends a dict.
        should_continue_on_error: a request that fails makes a row with `__inference_error__` instead of an exception.
        request_timeout_s: seconds that a request may take; None for no limit.
    """

    deployment_name: str
    app_name: str = "default"
    dtype_mapping: dict[str, type[Any]] | None = None
    should_continue_on_error: bool = False
    request_timeout_s: float | None = None

    def _check(self) -> None:
        super()._check()
        if self.request_timeout_s is not None and self.request_timeout_s <= 0:
            raise ValueError(f"request_timeout_s is above 0 or None, not {self.request_timeout_s}")


class OfflineProcessorConfig(ProcessorConfig):
    """Rows go through an engine that runs in the workers.

    Args:
        model_source: a model's name or path.
        runtime_env: of the workers.
        max_pending_requests: how many requests an engine has at once; None for what it thinks right.
        max_concurrent_batches: how many batches a worker has under way, so that the tail of one overlaps with the next.
        max_tasks_in_flight_per_actor: how many batches wait at a worker; None for twice max_concurrent_batches.
        should_continue_on_error: a row that fails gets `__inference_error__` instead of raising.
        chat_template_stage, tokenize_stage, detokenize_stage, prepare_multimodal_stage: True, False, a dict or the stage's
            config.
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
            import logging  # only those who are told something need it

            logging.getLogger("skate.data.llm").warning(
                "max_tasks_in_flight_per_actor=%d is less than max_concurrent_batches=%d: workers will wait for batches",
                waiting,
                self.max_concurrent_batches,
            )


class vLLMEngineProcessorConfig(OfflineProcessorConfig):
    """Rows go through vLLM, or what else is registered as the engine "vllm".

    Args:
        engine_kwargs: go to the engine. tensor_parallel_size times pipeline_parallel_size is the number of GPUs of a worker.
        task_type: "generate", "embed", "classify" or "score".
        log_engine_metrics: whether the engine logs its own figures.
        dynamic_lora_loading_path: the folder that has LoRA adapters, each in a folder of its name.
        placement_group_config: what one worker asks for: `bundle_per_worker` for each of its GPUs, or `bundles`.
    """

    engine_kwargs: dict[str, Any] = {}
    task_type: Literal["generate", "embed", "classify", "score"] = "generate"
    log_engine_metrics: bool = True
    dynamic_lora_loading_path: str | None = None
    placement_group_config: dict[str, Any] | None = None

    def _check(self) -> None:
        super()._check()
        # As Ray has it, the engine's arguments carry the task, and it is the config's that counts.
        self.engine_kwargs["task_type"] = self.task_type
        if self.placement_group_config is not None:
            object.__setattr__(self, "placement_group_config", _bundles_checked(self.placement_group_config))


class SGLangEngineProcessorConfig(OfflineProcessorConfig):
    """Rows go through the engine that is registered as "sglang"."""

    engine_kwargs: dict[str, Any] = {}
    task_type: Literal["generate"] = "generate"

    def _check(self) -> None:
        super()._check()
        self.engine_kwargs["task"] = self.task_type


_STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


def _bundles_checked(given: dict[str, Any]) -> dict[str, Any]:
    """The same with defaults filled in. Raises ValueError unless it has either one bundle for each worker or all bundles."""
    unknown = set(given) - {"bundle_per_worker", "bundles", "strategy"}
    if unknown:
        raise ValueError(
            f"placement_group_config has bundle_per_worker or bundles, and strategy, but not {', '.join(sorted(unknown))}"
        )
    one, several = given.get("bundle_per_worker"), given.get("bundles")
    if (one is None) == (several is None):
        got = "neither" if one is None else "both"
        raise ValueError(f"placement_group_config wants either bundle_per_worker or bundles, and got {got}")
    strategy = given.get("strategy", "PACK")
    if strategy not in _STRATEGIES:
        raise ValueError(
            f"strategy of placement_group_config is one of {', '.join(_STRATEGIES)}, not {strategy!r}"
        )
    return {
        "bundle_per_worker": None if one is None else _bundle(one),
        "bundles": None if several is None else [_bundle(each) for each in several],
        "strategy": strategy,
    }


def _bundle(given: Any) -> dict[str, float]:
    if not isinstance(given, dict):
        raise ValueError(f"a bundle is a dict of resources, not {given!r:.80}")
    for name, amount in given.items():
        if isinstance(amount, bool) or not isinstance(amount, (int, float)) or amount < 0:
            raise ValueError(f"{name} of a bundle is a number, 0 or more, not {amount!r}")
    return {"CPU": 0.0, "GPU": 0.0, **{name: float(amount) for name, amount in given.items()}}
