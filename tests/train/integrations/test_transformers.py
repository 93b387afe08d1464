"""`transformers.Trainer` and Accelerate in two workers, with models made from a config and a tokenizer trained here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import skate
from skate.train.torch import TorchTrainer

pytest.importorskip("transformers", reason="the extra skate[transformers] is not installed")

PRELOAD = ["torch", "transformers.trainer", "transformers.models.gpt2.modeling_gpt2"]
pytestmark = pytest.mark.timeout(120)


def rows(count: int) -> list[dict[str, Any]]:
    """Sequences in which every token is the one before plus one, so that there is something to learn."""
    return [
        {"input_ids": [(start + i) % 40 for i in range(12)], "labels": [(start + i) % 40 for i in range(12)]}
        for start in range(count)
    ]


def tiny_gpt(seed: int = 0) -> Any:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(seed)
    return GPT2LMHeadModel(GPT2Config(vocab_size=40, n_positions=16, n_embd=16, n_layer=1, n_head=2))


def arguments(folder: str, **given: Any) -> Any:
    from transformers import TrainingArguments

    return TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        learning_rate=1e-2,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        save_strategy="steps",
        save_steps=4,
        logging_steps=2,
        max_steps=8,
        **given,
    )


def loop_with_shards(config: dict[str, Any]) -> Any:
    from transformers import Trainer

    import skate.train as train
    from skate.train.huggingface.transformers import RayTrainReportCallback, prepare_trainer

    shard = train.get_dataset_shard("train")
    given = shard if config["whole"] else shard.iter_torch_batches(batch_size=4)
    trainer = Trainer(
        model=tiny_gpt(),
        args=arguments(config["folder"], eval_strategy="steps", eval_steps=4),
        train_dataset=given,
        eval_dataset=train.get_dataset_shard("eval").iter_torch_batches(batch_size=4),
    )
    trainer.add_callback(RayTrainReportCallback())
    trainer = prepare_trainer(trainer)
    name = type(trainer).__name__
    trainer.train()
    return name, trainer.state.global_step, trainer.args.parallel_mode.value


@pytest.mark.parametrize("whole", [False, True])
def test_trainer_takes_shards_and_reports_checkpoints(fit: Any, tmp_path: Path, whole: bool) -> None:
    result = fit(
        TorchTrainer,
        loop_with_shards,
        {"folder": str(tmp_path / "out"), "whole": whole},
        datasets={"train": skate.data.from_items(rows(64)), "eval": skate.data.from_items(rows(16))},
    )
    assert result.return_value == ("Trainer", 8, "distributed")
    assert len(result.metrics_dataframe) == 2, "one report a save"
    assert result.metrics["eval_loss"] < result.metrics_dataframe["eval_loss"][0]
    with result.checkpoint.as_directory() as folder:
        names = set(os.listdir(os.path.join(folder, "checkpoint")))
        assert {
            "model.safetensors",
            "optimizer.pt",
            "trainer_state.json",
            "rng_state_0.pth",
            "rng_state_1.pth",
        } <= names
        from transformers import GPT2LMHeadModel

        model = GPT2LMHeadModel.from_pretrained(os.path.join(folder, "checkpoint"))
        assert model.config.vocab_size == 40


def bert_pairs(config: dict[str, Any]) -> list[float]:
    """Pair classification with Accelerate: a tokenizer trained here, a tiny BERT, two workers; the losses of the whole batch."""
    import torch
    from accelerate import Accelerator
    from transformers import BertConfig, BertForSequenceClassification

    from skate.train import get_context

    accelerator = Accelerator(cpu=True)
    assert accelerator.num_processes == get_context().get_world_size()
    torch.manual_seed(0)
    model: Any = BertForSequenceClassification(
        BertConfig(
            vocab_size=config["words"],
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    rank, size = accelerator.process_index, accelerator.num_processes
    losses = []
    for ids, types, labels in config["batches"]:
        mine = slice(rank * len(ids) // size, (rank + 1) * len(ids) // size)
        found = model(
            input_ids=torch.tensor(ids[mine]),
            token_type_ids=torch.tensor(types[mine]),
            labels=torch.tensor(labels[mine]),
        )
        accelerator.backward(found.loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(accelerator.gather(found.loss.detach().reshape(1)).mean().item())
    return losses


def pairs() -> tuple[int, list[Any]]:
    """Sentences of the library reference, each with a neighbour or a stranger, through a WordPiece trained on them."""
    import pydoc_data.topics

    from tokenizers import BertWordPieceTokenizer

    lines = [
        line.strip() for line in pydoc_data.topics.topics["assert"].splitlines() if len(line.split()) > 4
    ]
    tokenizer = BertWordPieceTokenizer()
    tokenizer.train_from_iterator(lines, vocab_size=200, show_progress=False)
    tokenizer.enable_padding(length=40)
    tokenizer.enable_truncation(40)
    batches = []
    for start in range(4):
        chosen = [
            tokenizer.encode(lines[i % len(lines)], lines[(i + 1 + 5 * (i % 2)) % len(lines)])
            for i in range(start * 8, start * 8 + 8)
        ]
        batches.append(
            ([each.ids for each in chosen], [each.type_ids for each in chosen], [i % 2 for i in range(8)])
        )
    return tokenizer.get_vocab_size(), batches


def test_accelerate_gives_the_losses_of_one_process(fit: Any) -> None:
    words, batches = pairs()
    config = {"words": words, "batches": batches}
    two = fit(TorchTrainer, bert_pairs, config).return_value
    one = fit(TorchTrainer, bert_pairs, config, workers=1).return_value
    assert two == pytest.approx(one, abs=1e-6)
    assert one[-1] != one[0]


def test_prepare_trainer_takes_trainers_only() -> None:
    from skate.train.huggingface.transformers import prepare_trainer

    with pytest.raises(TypeError, match="transformers.Trainer, not list"):
        prepare_trainer([])  # type: ignore[type-var]
