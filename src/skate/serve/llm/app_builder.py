"""Builds Serve applications from configs of models."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any

from skate import serve
from skate.llm.openai.keys import ApiKeys
from skate.llm.openai.responses import ModelCard
from skate.serve.llm.configs import DPServingArgs, IngressArgs, LLMConfig, LLMServingArgs, PDServingArgs
from skate.serve.llm.data_parallel import DPPDDecodeServer, DPPDPrefillServer, DPServer, size_of
from skate.serve.llm.disaggregation import PDDecodeServer, PDPrefillServer
from skate.serve.llm.ingress import OpenAiIngress, make_fastapi_ingress
from skate.serve.llm.placement import deployment_name
from skate.serve.llm.server import LLMServer

#: The environment variable with comma-separated API keys, for applications that are built without any.
KEYS_SETTING = "SKATE_LLM_API_KEYS"


def build_llm_deployment(
    llm_config: LLMConfig,
    *,
    name_prefix: str | None = None,
    bind_kwargs: dict[str, Any] | None = None,
    override_serve_options: dict[str, Any] | None = None,
    deployment_cls: type | None = None,
) -> Any:
    """Build an application from a model, for handles or as a part of another application.

    Args:
        llm_config: the model.
        name_prefix: the prefix of the deployment's name; None for the name of the class and a colon.
        bind_kwargs: additional arguments of the class.
        override_serve_options: options of serve.deployment that override the config's.
        deployment_cls: the class of the deployment; None for that of the config, or LLMServer.

    Raises ImportError if the engine cannot run here, see skate.llm.engines.decided.
    """
    kind: Any = deployment_cls or _loaded(llm_config.server_cls) or LLMServer
    prefix = f"{kind.__name__}:" if name_prefix is None else name_prefix
    options = kind.get_deployment_options(llm_config)
    name = prefix + options.pop("name", deployment_name(llm_config.model_id))
    options = {**options, "name": name, **(override_serve_options or {})}
    return serve.deployment(**options)(kind).bind(llm_config=llm_config, **(bind_kwargs or {}))


def build_openai_app(llm_serving_args: Any) -> Any:
    """Build an application with OpenAI's endpoints for one or several models.

    Args:
        llm_serving_args: LLMServingArgs, a dict of its fields, or the path of a YAML file with them.

    Raises ValueError for invalid fields, ImportError if an engine cannot run here.
    """
    return openai_app(LLMServingArgs.of(llm_serving_args))


def openai_app(args: LLMServingArgs, endpoints: Mapping[str, Any] | None = None) -> Any:
    """Build an application from checked arguments; `endpoints` are those of make_fastapi_ingress."""
    handles = {each.model_id: build_llm_deployment(each) for each in args.llm_configs}
    return _ingress(args, handles, args.llm_configs, endpoints)


def _ingress(
    args: IngressArgs,
    handles: dict[str, Any],
    configs: list[LLMConfig],
    endpoints: Mapping[str, Any] | None = None,
) -> Any:
    """Build the application with the endpoints, from deployments by model id."""
    chosen = args.ingress_cls_config
    kind: Any = _loaded(chosen.ingress_cls) or OpenAiIngress
    cards = {name: ModelCard(id=name) for name in handles}
    lora = {
        each.model_id: each.lora_config.dynamic_lora_loading_path
        for each in configs
        if each.lora_config is not None and each.lora_config.dynamic_lora_loading_path
    }
    options = {
        "name": "OpenAiIngress",
        **kind.get_deployment_options(configs),
        **args.ingress_deployment_config,
    }
    ingress = serve.deployment(**options)(
        make_fastapi_ingress(kind, endpoint_map=None if endpoints is None else dict(endpoints))
    )
    more = dict(chosen.ingress_extra_kwargs)
    keys = _api_keys(args)
    if keys is not None:
        more["api_keys"] = keys
    return ingress.bind(llm_deployments=handles, model_cards=cards, lora_paths=lora, **more)


def _api_keys(args: IngressArgs) -> ApiKeys | None:
    if args.api_keys is not None:
        return ApiKeys(each.get_secret_value() for each in args.api_keys)
    found = os.environ.get(KEYS_SETTING)
    return ApiKeys(found.split(",")) if found else None


def _loaded(given: Any) -> Any:
    """Import a class by "module:Class" or "module.Class"; return other values unchanged."""
    if not isinstance(given, str):
        return given
    module, _, name = given.rpartition(":") if ":" in given else given.rpartition(".")
    return getattr(importlib.import_module(module), name)


def build_pd_openai_app(pd_serving_args: Any) -> Any:
    """Build an application with OpenAI's endpoints for a model with separate replicas for prefill and decode.

    Args:
        pd_serving_args: PDServingArgs, a dict of its fields, or the path of a YAML file with them.

    Raises ValueError for invalid fields, ImportError if an engine cannot run here.
    """
    args: PDServingArgs = PDServingArgs.of(pd_serving_args)
    prefill, decode = args.prefill_config, args.decode_config
    one = build_llm_deployment(
        prefill,
        name_prefix="Prefill:",
        deployment_cls=DPPDPrefillServer if size_of(prefill) > 1 else PDPrefillServer,
    )
    other = build_llm_deployment(
        decode,
        name_prefix="Decode:",
        bind_kwargs={"prefill_server": one},
        deployment_cls=DPPDDecodeServer if size_of(decode) > 1 else PDDecodeServer,
    )
    return _ingress(args, {decode.model_id: other}, [decode])


def build_dp_deployment(
    llm_config: LLMConfig,
    *,
    name_prefix: str | None = None,
    bind_kwargs: dict[str, Any] | None = None,
    override_serve_options: dict[str, Any] | None = None,
    deployment_cls: type | None = None,
) -> Any:
    """Build an application from a model with data parallel attention: each replica is a group of data_parallel_size.

    Arguments and errors are those of build_llm_deployment, but `deployment_cls` defaults to DPServer.
    """
    return build_llm_deployment(
        llm_config,
        name_prefix=name_prefix,
        bind_kwargs=bind_kwargs,
        override_serve_options=override_serve_options,
        deployment_cls=deployment_cls or DPServer,
    )


def build_dp_openai_app(dp_serving_args: Any) -> Any:
    """Build an application with OpenAI's endpoints for a model with data parallel attention.

    Args:
        dp_serving_args: DPServingArgs, a dict of its fields, or the path of a YAML file with them.

    Raises ValueError for invalid fields, ImportError if the engine cannot run here.
    """
    args: DPServingArgs = DPServingArgs.of(dp_serving_args)
    return _ingress(args, {args.llm_config.model_id: build_dp_deployment(args.llm_config)}, [args.llm_config])
