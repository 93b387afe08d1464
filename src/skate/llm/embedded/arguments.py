"""The arguments of the embedded engine. They use vLLM's names."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields
from typing import Any

#: vLLM's arguments that have no effect here, because they concern GPUs or speed only.
IGNORED = frozenset(
    {
        "block_size", "compilation_config", "cpu_offload_gb", "data_parallel_size", "device", "disable_custom_all_reduce",
        "disable_log_requests", "disable_log_stats", "distributed_executor_backend", "enable_auto_tool_choice",
        "enable_chunked_prefill", "enable_log_requests", "enable_lora", "enforce_eager",
        "gpu_memory_utilization", "kv_cache_dtype", "load_format", "max_cpu_loras", "max_logprobs", "max_lora_rank", "max_loras",
        "reasoning_parser", "runner", "convert", "scheduling_policy", "served_model_name", "swap_space", "task", "task_type",
        "tokenizer_mode", "use_tqdm_on_load",
    }
)  # fmt: skip


@dataclass(frozen=True)
class EmbeddedArguments:
    """The arguments of the embedded engine.

    Args:
        max_model_len: the most tokens of prompt and answer together; None for the model's limit, at most 4,096.
        max_num_seqs: the number of answers generated at once.
        max_num_batched_tokens: the most prompt tokens per step, which bounds the delay of running answers.
        max_pending: the most waiting answers; further ones are rejected as Overloaded. None for no limit.
        kv_cache_memory_bytes: the memory for the keys and values of all slots; a small value reduces the number of
            slots. None for a quarter of the machine's memory.
        dtype: "auto" for float32, the fastest on CPUs; "bfloat16" to halve the memory.
        num_threads: the number of torch's threads; None for as many as have a free CPU at the moment, at most torch's
            default.
        seed: the seed of requests without one; None for different answers each time.
        trust_remote_code: True to run code that comes with the model.
        chat_template: a Jinja template, or a file with one, that replaces the model's.
        enable_prefix_caching: True to reuse the keys of an earlier prompt with the same start.
    """

    max_model_len: int | None = None
    max_num_seqs: int = 32
    max_num_batched_tokens: int = 512
    max_pending: int | None = None
    kv_cache_memory_bytes: int | None = None
    dtype: str = "auto"
    num_threads: int | None = None
    seed: int | None = None
    trust_remote_code: bool = False
    chat_template: str | None = None
    enable_prefix_caching: bool = True

    @classmethod
    def of(cls, kwargs: dict[str, Any]) -> EmbeddedArguments:
        """Build from the arguments of a config. Raises ValueError for unsupported and unknown ones."""
        for name in ("tensor_parallel_size", "pipeline_parallel_size"):
            if int(kwargs.get(name) or 1) != 1:
                raise ValueError(
                    f"{name}={kwargs[name]}: the embedded engine runs a model in one process; "
                    "omit the argument, or use vLLM on GPUs"
                )
        if kwargs.get("quantization"):
            raise ValueError(
                "quantization is not supported by the embedded engine; use dtype='bfloat16', or vLLM on GPUs"
            )
        known = [each.name for each in fields(cls)]
        parallel = {"tensor_parallel_size", "pipeline_parallel_size", "quantization"}
        for name in kwargs:
            if name not in known and name not in IGNORED and name not in parallel:
                near = difflib.get_close_matches(name, known, 1)
                hint = f"; did you mean {near[0]}?" if near else f"; its arguments are {', '.join(known)}"
                raise ValueError(f"the embedded engine has no argument {name}{hint}")
        return cls(**{name: value for name, value in kwargs.items() if name in known})

    def __post_init__(self) -> None:
        for name in ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "num_threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be 1 or more, got {value}")
        if self.dtype not in ("auto", "float32", "float", "bfloat16", "float16", "half"):
            raise ValueError(f"dtype must be auto, float32, bfloat16 or float16, got {self.dtype!r}")
