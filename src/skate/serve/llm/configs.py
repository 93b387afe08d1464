"""Configuration of served models. Requires pydantic, but no engine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, SecretStr, field_validator, model_validator

from skate.installed import require
from skate.llm.tool_calls.options import ToolOptions

_DOWNLOAD_TIMEOUT_S = 30.0
_DOWNLOAD_TRIES = 3


class Config(BaseModel):
    """Base class of configs. Rejects unknown fields, and reads YAML files."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=(), arbitrary_types_allowed=True)

    @classmethod
    def from_file(cls, path: str) -> Any:
        """Read a config from a YAML file."""
        with open(path) as file:
            return cls.model_validate(require("yaml", "a YAML file", "pyyaml").safe_load(file))

    @classmethod
    def of(cls, given: Any) -> Any:
        """Return a config from one, a dict of its fields, or the path of a YAML file. Raises ValueError."""
        if isinstance(given, cls):
            return given
        if isinstance(given, (str, os.PathLike)):
            return cls.from_file(os.fspath(given))
        return cls.model_validate(given)


class CloudMirrorConfig(Config):
    """A bucket with the weights, and additional files as {bucket_uri, destination_path}."""

    bucket_uri: str | None = None
    extra_files: list[dict[str, str]] = Field(default_factory=list)

    @field_validator("bucket_uri")
    @classmethod
    def _is_uri(cls, value: str | None) -> str | None:
        if value is not None and "://" not in value:
            raise ValueError(f"bucket_uri must be a URI such as s3://bucket/path, got {value!r}")
        return value


class ModelLoadingConfig(Config):
    """The model and its name for clients.

    Args:
        model_id: the model's name for clients.
        model_source: a name, a folder or a bucket; None for `model_id`.
        tokenizer_source: the tokenizer's location if it is not stored with the model.
    """

    model_id: str
    model_source: str | CloudMirrorConfig | None = None
    tokenizer_source: str | None = None

    @field_validator("model_id")
    @classmethod
    def _not_empty(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("model_id must be a non-empty string")
        return value

    def source(self) -> str:
        """Return the location of the weights. Raises NotImplementedError for buckets."""
        if isinstance(self.model_source, CloudMirrorConfig):
            raise NotImplementedError(
                f"model_source is the bucket {self.model_source.bucket_uri}: copying weights from buckets is "
                "not supported yet; copy them to a folder visible to all nodes, and set that as model_source"
            )
        return self.model_source or self.model_id


class LoraConfig(Config):
    """The LoRA adapters of a model, requested as `model_id:adapter`.

    Args:
        dynamic_lora_loading_path: the folder with a subfolder for each adapter.
        max_num_adapters_per_replica: the number of adapters that a replica holds; the least recently used is evicted.
        download_timeout_s, max_download_tries: the limits of downloads from buckets.
    """

    dynamic_lora_loading_path: str | None = None
    max_num_adapters_per_replica: PositiveInt = 16
    download_timeout_s: float | None = _DOWNLOAD_TIMEOUT_S
    max_download_tries: int = _DOWNLOAD_TRIES


class LLMConfig(Config):
    """A model as a deployment.

    Args:
        model_loading_config: a ModelLoadingConfig, or a dict of its fields.
        llm_engine: "vLLM", "embedded" or the name of a registered engine.
        engine_kwargs: the engine's arguments, under vLLM's names; tensor_parallel_size times
            pipeline_parallel_size is the number of GPUs of a replica.
        accelerator_type: the kind of GPU for a replica.
        accelerator_config: `kind` is "cpu", "gpu" or "tpu"; by default that of the bundles or of accelerator_type, and
            otherwise CPUs if there is no GPU and the engine can run on CPUs.
        placement_group_config: `bundle_per_worker` or `bundles`, and `strategy`; by default one GPU per worker.
        lora_config: a LoraConfig, or a dict of its fields.
        deployment_config: options of serve.deployment, without placement groups.
        runtime_env: the runtime environment of the replicas.
        server_cls: a class or "module:Class" that replaces LLMServer.
        experimental_configs: a dict with the optional key `stream_batching_interval_ms`.
        log_engine_metrics: True if the engine logs its own metrics.
        callback_config: accepted for compatibility without effect.
    """

    model_loading_config: ModelLoadingConfig
    llm_engine: str = "vLLM"
    engine_kwargs: dict[str, Any] = Field(default_factory=dict)
    accelerator_type: str | None = None
    accelerator_config: dict[str, Any] | None = None
    placement_group_config: dict[str, Any] | None = None
    lora_config: LoraConfig | None = None
    deployment_config: dict[str, Any] = Field(default_factory=dict)
    runtime_env: dict[str, Any] | None = None
    server_cls: Any = None
    experimental_configs: dict[str, Any] = Field(default_factory=dict)
    log_engine_metrics: bool | None = True
    callback_config: Any = None

    @field_validator("llm_engine")
    @classmethod
    def _named(cls, value: str) -> str:
        if not value:
            raise ValueError("llm_engine must be the name of an engine, such as vLLM or embedded")
        return value

    @field_validator("accelerator_config")
    @classmethod
    def _kinds(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is not None and value.get("kind") not in ("cpu", "gpu", "tpu"):
            raise ValueError(f"kind of accelerator_config must be cpu, gpu or tpu, got {value.get('kind')!r}")
        return value

    @field_validator("deployment_config")
    @classmethod
    def _without_groups(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in ("placement_group_bundles", "placement_group_strategy"):
            if name in value:
                raise ValueError(
                    f"{name} is derived from the model; set placement_group_config of LLMConfig instead"
                )
        return value

    @model_validator(mode="after")
    def _sizes(self) -> LLMConfig:
        for name in ("tensor_parallel_size", "pipeline_parallel_size"):
            size = self.engine_kwargs.get(name, 1)
            if not isinstance(size, int) or size < 1:
                raise ValueError(f"{name} of engine_kwargs must be an integer >= 1, got {size!r}")
        if self.accelerator_type and self._is_for_cpus():
            raise ValueError(
                f"accelerator_type={self.accelerator_type!r} cannot be used with CPU-only configurations, but "
                "accelerator_config or placement_group_config requests only CPUs; set only one of them"
            )
        ToolOptions.of(self.engine_kwargs)  # raises ValueError for options that do not fit together
        return self

    def _is_for_cpus(self) -> bool:
        """Return True if the config requests resources, but no accelerator."""
        kind = (self.accelerator_config or {}).get("kind")
        if kind is not None:
            return bool(kind == "cpu")
        given = self.placement_group_config or {}
        bundles = [*(given.get("bundles") or ()), given.get("bundle_per_worker") or {}]
        amounts = [each.get(name) for each in bundles if isinstance(each, dict) for name in ("GPU", "TPU")]
        return bool(given) and not any(amounts)

    @property
    def model_id(self) -> str:
        """The model name for clients."""
        return self.model_loading_config.model_id

    def update_engine_kwargs(self, **kwargs: Any) -> None:
        """Add engine arguments."""
        self.engine_kwargs.update(kwargs)


class IngressClsConfig(Config):
    """The class of the ingress, or "module:Class", and its arguments."""

    ingress_cls: Any = None
    ingress_extra_kwargs: dict[str, Any] = Field(default_factory=dict)


class IngressArgs(Config):
    """The arguments of all applications with OpenAI's endpoints.

    Args:
        ingress_cls_config: the class that handles HTTP requests.
        ingress_deployment_config: the options of its deployment.
        api_keys: each request must send one of these keys as bearer token; None for the comma-separated keys in the
            environment variable SKATE_LLM_API_KEYS, or for open access if it is not set. Skate's own.
    """

    ingress_cls_config: IngressClsConfig = Field(default_factory=IngressClsConfig)
    ingress_deployment_config: dict[str, Any] = Field(default_factory=dict)
    api_keys: list[SecretStr] | None = None


class LLMServingArgs(IngressArgs):
    """The arguments of build_openai_app: LLMConfigs, dicts of their fields, or paths of YAML files."""

    llm_configs: list[LLMConfig] = Field(min_length=1)

    @field_validator("llm_configs", mode="before")
    @classmethod
    def _from_files(cls, value: Any) -> Any:
        if isinstance(value, (str, os.PathLike, Mapping, LLMConfig)):
            raise ValueError("llm_configs must be a list")
        return [LLMConfig.from_file(each) if isinstance(each, str) else each for each in value]

    @model_validator(mode="after")
    def _names(self) -> LLMServingArgs:
        names = [each.model_id for each in self.llm_configs]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(
                f"two of llm_configs have the model_id {twice[0]}; set a unique model_id for each"
            )
        return self


def _of_file(value: Any) -> Any:
    return LLMConfig.from_file(value) if isinstance(value, str) else value


class PDServingArgs(IngressArgs):
    """The arguments of build_pd_openai_app: the configs for prefill and for decode, or paths of YAML files."""

    prefill_config: LLMConfig
    decode_config: LLMConfig

    @field_validator("prefill_config", "decode_config", mode="before")
    @classmethod
    def _files(cls, value: Any) -> Any:
        return _of_file(value)

    @model_validator(mode="after")
    def _fit(self) -> PDServingArgs:
        one, other = self.prefill_config, self.decode_config
        if one.model_id != other.model_id:
            raise ValueError(
                f"prefill_config and decode_config must have the same model_id, got {one.model_id} and {other.model_id}"
            )
        paths = [
            None if each.lora_config is None else each.lora_config.dynamic_lora_loading_path
            for each in (one, other)
        ]
        if (one.lora_config is None) != (other.lora_config is None) or paths[0] != paths[1]:
            raise ValueError("prefill_config and decode_config must have the same lora_config, or none")
        for name, each in (("prefill_config", one), ("decode_config", other)):
            if not each.engine_kwargs.get("kv_transfer_config"):
                raise ValueError(
                    f"{name} requires kv_transfer_config in engine_kwargs, which configures the transfer of keys"
                )
        other.experimental_configs.setdefault("NIXL_SIDE_CHANNEL_PORT_BASE", 22000)
        return self


class DPServingArgs(IngressArgs):
    """The arguments of build_dp_openai_app; `llm_config` may be the path of a YAML file."""

    llm_config: LLMConfig

    @field_validator("llm_config", mode="before")
    @classmethod
    def _file(cls, value: Any) -> Any:
        return _of_file(value)
