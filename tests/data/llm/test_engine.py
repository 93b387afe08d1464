"""Processors with an engine that is plugged in: stages, rows that fail, what workers are asked for."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import skate
import skate.data
from skate.data.llm import (
    ChatTemplateStageConfig,
    SGLangEngineProcessorConfig,
    build_llm_processor,
    build_processor,
    engines,
    vLLMEngineProcessorConfig,
)


def config(**more: Any) -> vLLMEngineProcessorConfig:
    return vLLMEngineProcessorConfig(**{"model_source": "letters", "batch_size": 4, **more})


def ask(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "messages": [{"role": "system", "content": "say"}, {"role": "user", "content": row["item"]}],
        "sampling_params": {"max_tokens": 8},
    }


@pytest.mark.usefixtures("node", "shouting_engine")
def test_messages_go_through_all_stages_and_columns_are_carried_over() -> None:
    processor = build_processor(config(), preprocess=ask)
    assert processor.list_stage_names() == [
        "ChatTemplateStage", "TokenizeStage", "vLLMEngineStage", "DetokenizeStage",
    ]  # fmt: skip
    rows = processor(skate.data.from_items(["hello", "you"])).take_all()
    assert [row["item"] for row in rows] == ["hello", "you"]
    assert [row["prompt"] for row in rows] == ["say|hello", "say|you"]
    assert [row["generated_text"] for row in rows] == ["SAY|HELL", "SAY|YOU"]
    assert rows[1]["num_generated_tokens"] == 7
    assert rows[1]["messages"][1] == {"role": "user", "content": "you"}
    assert "__inference_error__" in rows[0] and not rows[0]["__inference_error__"]


@pytest.mark.usefixtures("node", "shouting_engine")
def test_postprocess_says_which_columns_are_left() -> None:
    processor = build_processor(
        config(chat_template_stage=ChatTemplateStageConfig(chat_template="+")),
        preprocess=ask,
        postprocess=lambda row: {"word": row["item"], "answer": row["generated_text"]},
    )
    assert processor(skate.data.from_items(["a"])).take_all() == [{"word": "a", "answer": "SAY+A"}]


@pytest.mark.usefixtures("node", "shouting_engine")
def test_without_the_stages_around_it_the_engine_takes_the_prompt() -> None:
    given = config(chat_template_stage=False, tokenize_stage={"enabled": False}, detokenize_stage=False)
    processor = build_llm_processor(
        given,
        preprocess=lambda row: {"prompt": row["item"], "sampling_params": {"max_tokens": 1}},
        postprocess=lambda row: {"answer": row["generated_text"]},
    )
    assert processor.list_stage_names() == ["vLLMEngineStage"]
    assert processor(skate.data.from_items(["xy", "z"])).take_all() == [{"answer": "X"}, {"answer": "Z"}]


@pytest.mark.usefixtures("node", "shouting_engine")
def test_a_row_that_fails_raises_by_its_own_type() -> None:
    processor = build_processor(config(), preprocess=ask)
    with pytest.raises(ValueError, match="a bad prompt"):
        processor(skate.data.from_items(["good", "bad"])).take_all()


@pytest.mark.usefixtures("node", "shouting_engine")
def test_rows_that_fail_are_told_apart_if_asked_for() -> None:
    processor = build_processor(
        config(should_continue_on_error=True),
        preprocess=ask,
        postprocess=lambda row: {"answer": row["generated_text"].strip()},
    )
    rows = processor(skate.data.from_items(["good", "bad", "fine"])).take_all()
    assert [row["__inference_error__"] for row in rows] == ["", "ValueError: a bad prompt", ""]
    assert rows[0]["answer"] == "SAY|GOOD"
    assert rows[1]["prompt"] == "say|bad"
    assert rows[1]["request_id"] == -1


@pytest.mark.usefixtures("node", "shouting_engine")
def test_an_engine_that_does_not_start_says_why() -> None:
    processor = build_processor(config(model_source="broken"), preprocess=ask)
    with pytest.raises(Exception, match="the model's file is broken"):
        processor(skate.data.from_items(["a"])).take_all()


@pytest.mark.usefixtures("node", "shouting_engine")
def test_a_missing_column_is_named() -> None:
    processor = build_processor(
        config(), preprocess=lambda row: {"messages": [{"role": "user", "content": "a"}]}
    )
    with pytest.raises(
        ValueError, match="requires the columns sampling_params, but a row has item, messages"
    ):
        processor(skate.data.from_items(["a"])).take_all()


@pytest.mark.usefixtures("node", "shouting_engine")
def test_embeddings_need_no_sampling_params() -> None:
    processor = build_processor(
        config(task_type="embed", detokenize_stage=False),
        preprocess=lambda row: {"messages": [{"role": "user", "content": row["item"]}]},
        postprocess=lambda row: {"embeddings": list(row["embeddings"])},
    )
    assert processor(skate.data.from_items(["abc"])).take_all() == [{"embeddings": [3.0, 1.0]}]


@pytest.mark.usefixtures("shouting_engine")
def test_what_workers_are_asked_for() -> None:
    engines.register_engine("vllm", engines._engines["vllm"].factory)

    def options_of_actors(**more: Any) -> dict[str, Any]:
        return build_processor(config(**more)).get_stage_by_name("vLLMEngineStage").map_batches_kwargs

    assert options_of_actors()["num_gpus"] == 1
    assert options_of_actors()["max_concurrency"] == 8
    assert options_of_actors()["compute"].max_tasks_in_flight_per_actor == 16
    assert (
        options_of_actors(engine_kwargs={"tensor_parallel_size": 2, "pipeline_parallel_size": 2})["num_gpus"]
        == 4
    )
    placed = options_of_actors(
        engine_kwargs={"tensor_parallel_size": 2},
        placement_group_config={"bundle_per_worker": {"CPU": 1, "GPU": 0.5, "TPU": 1}},
    )
    assert (placed["num_cpus"], placed["num_gpus"], placed["resources"]) == (2, 1, {"TPU": 2})


@pytest.mark.usefixtures("shouting_engine")
def test_stages_can_be_configured_one_by_one() -> None:
    seen: list[str] = []
    processor = build_processor(
        config(tokenize_stage={"batch_size": 9, "concurrency": (2, 3), "num_cpus": 0.5}),
        builder_kwargs={
            "chat_template_kwargs": {"joint": "-"},
            "override_stage_config_fn": lambda name, stage: seen.append(name),
        },
    )
    assert seen == processor.list_stage_names()
    tokenize = processor.get_stage_by_name("TokenizeStage").get_dataset_map_batches_kwargs(4, "__data")
    assert (tokenize["batch_size"], tokenize["num_cpus"], tokenize["compute"].min_size) == (9, 0.5, 2)
    chat = processor.get_stage_by_name("ChatTemplateStage")
    assert chat.fn_constructor_kwargs["chat_template_kwargs"] == {"joint": "-"}
    with pytest.raises(ValueError, match="there is no stage Nothing; the stages are ChatTemplateStage"):
        processor.get_stage_by_name("Nothing")


def test_an_engine_that_is_not_there_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_engines", {})
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ImportError, match="pip install vllm"):
        build_processor(config(accelerator_type="A100"))
    with pytest.raises(ImportError, match="register_engine"):
        build_processor(SGLangEngineProcessorConfig(model_source="m"))


@pytest.mark.usefixtures("shouting_engine")
def test_multimodal_stage_is_refused_when_built() -> None:
    with pytest.raises(NotImplementedError, match="multimodal_data"):
        build_processor(config(prepare_multimodal_stage=True))
