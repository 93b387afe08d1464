"""Model configs and the resources of their replicas, without a model, an engine or a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from skate.serve.llm import LLMConfig, LLMServingArgs, LoraConfig, ModelLoadingConfig
from skate.serve.llm.placement import deployment_name, deployment_options, device, placement
from skate.serve.llm.server import engine_args


def config(**more: Any) -> LLMConfig:
    return LLMConfig(**{"model_loading_config": {"model_id": "m"}, **more})


def test_configs_import_without_what_runs_models() -> None:
    code = (
        "import sys\n"
        "for name in ('torch', 'transformers', 'vllm', 'fastapi'): sys.modules[name] = None\n"
        "from skate.serve.llm import CloudMirrorConfig, LLMConfig, LLMServingArgs, LoraConfig, ModelLoadingConfig\n"
        "LLMServingArgs(llm_configs=[LLMConfig(model_loading_config={'model_id': 'm'})])\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_missions_config() -> None:
    found = LLMConfig(
        model_loading_config={"model_id": "my-llama", "model_source": "meta-llama/Llama-3.1-8B-Instruct"},
        accelerator_type="A100",
        deployment_config={"autoscaling_config": {"min_replicas": 1, "max_replicas": 4}},
        engine_kwargs={"max_model_len": 8192, "tensor_parallel_size": 2},
    )
    assert found.model_id == "my-llama" and device(found) == "gpu"
    options = deployment_options(found, on_gpus=True)
    assert options["autoscaling_config"] == {"min_replicas": 1, "max_replicas": 4}
    assert options["placement_group_bundles"] == [
        {"GPU": 1.0, "accelerator_type:A100": 0.001, "CPU": 1.0},
        {"GPU": 1.0, "accelerator_type:A100": 0.001},
    ]
    assert options["placement_group_strategy"] == "PACK"
    args = engine_args(found)
    assert args.model == "meta-llama/Llama-3.1-8B-Instruct"
    assert args.kwargs == {"max_model_len": 8192, "tensor_parallel_size": 2}


@pytest.mark.parametrize(
    ("more", "bundles", "strategy"),
    [
        ({}, [{"GPU": 1, "CPU": 1}], "PACK"),
        (
            {"engine_kwargs": {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}},
            [{"GPU": 1, "CPU": 1}, {"GPU": 1}, {"GPU": 1}, {"GPU": 1}],
            "PACK",
        ),
        (
            {
                "engine_kwargs": {"tensor_parallel_size": 2},
                "placement_group_config": {"bundle_per_worker": {"GPU": 0.5, "CPU": 2}, "strategy": "STRICT_PACK"},
            },
            [{"GPU": 0.5, "CPU": 3}, {"GPU": 0.5, "CPU": 2}],
            "STRICT_PACK",
        ),
        (
            {"placement_group_config": {"bundles": [{"CPU": 4}, {"GPU": 1}]}},
            [{"CPU": 5}, {"GPU": 1}],
            "PACK",
        ),
        (
            {"deployment_config": {"ray_actor_options": {"num_cpus": 0, "resources": {"disk": 1}, "memory": 100}}},
            [{"GPU": 1, "disk": 1, "memory": 100}],
            "PACK",
        ),
    ],
)  # fmt: skip
def test_bundles_of_a_replica(more: dict[str, Any], bundles: list[dict[str, float]], strategy: str) -> None:
    found = placement(config(**more), on_gpus=True)
    assert (found.bundles, found.strategy) == (bundles, strategy)
    assert placement(config(**more), on_gpus=False).bundles is None


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"model_loading_config": {"model_id": " "}}, "must be a non-empty string"),
        ({"model_loading_config": {"model_id": "m", "modle_source": "x"}}, "modle_source"),
        ({"engine_kwargs": {"tensor_parallel_size": 0}}, "tensor_parallel_size"),
        ({"deployment_config": {"placement_group_bundles": []}}, "placement_group_config"),
        ({"lora_config": {"max_num_adapters_per_replica": 0}}, "max_num_adapters_per_replica"),
        ({"llm_engine": ""}, "llm_engine"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_what_is_wrong_is_named(more: dict[str, Any], match: str) -> None:
    with pytest.raises(ValidationError, match=match):
        config(**more)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"bundles": [{}], "bundle_per_worker": {}}, "Cannot specify both"),
        ({}, "must specify either"),
        ({"bundles": [{"GPU": 1}], "strategy": "TIGHT"}, "strategy"),
        ({"bundle": []}, "unknown keys bundle"),
        ({"bundles": []}, "must be a non-empty list"),
    ],
)
def test_wrong_placement_is_named(given: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        placement(config(placement_group_config=given), on_gpus=True)


def test_serving_args_of_dicts_files_and_twice(tmp_path: Path) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(
        "model_loading_config: {model_id: from-file}\nlora_config: {max_num_adapters_per_replica: 2}\n"
    )
    args = LLMServingArgs.model_validate(
        {"llm_configs": [{"model_loading_config": {"model_id": "a"}}, str(path)]}
    )
    assert [each.model_id for each in args.llm_configs] == ["a", "from-file"]
    assert args.llm_configs[1].lora_config == LoraConfig(max_num_adapters_per_replica=2)
    with pytest.raises(ValidationError, match="model_id m"):
        LLMServingArgs(llm_configs=[config(), config()])
    with pytest.raises(ValidationError):
        LLMServingArgs(llm_configs=[])


def test_names_and_sources() -> None:
    assert deployment_name("meta/llama-3.1") == "meta--llama-3_1"
    assert ModelLoadingConfig(model_id="m").source() == "m"
    mirror = ModelLoadingConfig(model_id="m", model_source={"bucket_uri": "s3://b/m"})
    with pytest.raises(NotImplementedError, match="s3://b/m"):
        mirror.source()
    with pytest.raises(ValidationError, match="bucket_uri"):
        ModelLoadingConfig(model_id="m", model_source={"bucket_uri": "b/m"})
    options = deployment_options(config(runtime_env={"env_vars": {"A": "1"}}), on_gpus=False)
    assert options["ray_actor_options"] == {"runtime_env": {"env_vars": {"A": "1"}}}


def test_a_setting_puts_another_engine_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKATE_LLM_ENGINE", "embedded")
    assert engine_args(config(engine_kwargs={"tensor_parallel_size": 2, "max_model_len": 9})).kwargs == {
        "max_model_len": 9
    }
