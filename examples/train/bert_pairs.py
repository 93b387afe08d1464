"""BERT decides whether two texts belong together: a randomly initialized model, sharded over two workers by FSDP2.

A pair is a topic of Python's documentation and a passage; it is correct if the passage belongs to that topic.
Each worker keeps weights, gradients and Adam's state only for its own shard, as with DeepSpeed's ZeRO 3.

Run it: python examples/train/bert_pairs.py [--steps N]
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pydoc_data.topics import topics
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from torch.distributed.fsdp import fully_shard
from transformers import BertConfig, BertForSequenceClassification

import skate as ray
from skate import train
from skate.train import RunConfig, ScalingConfig
from skate.train.torch import TorchTrainer

WORDS, LENGTH, PASSAGE = 2000, 48, 28
TOPICS = ("compound", "debugger", "formatstrings", "typesseq")


def passages() -> list[tuple[str, str]]:
    """(topic, passage of 28 words)"""
    found = []
    for name in TOPICS:
        words = topics[name].split()
        found += [
            (name, " ".join(words[at : at + PASSAGE])) for at in range(0, len(words) - PASSAGE, PASSAGE)
        ]
    return found


def tokenizer(texts: list[str]) -> Tokenizer:
    """Train a word-piece tokenizer, with BERT's special tokens around and between two texts."""
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    made.train_from_iterator(
        texts, trainers.WordPieceTrainer(vocab_size=WORDS, special_tokens=marks, show_progress=False)
    )
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(mark, made.token_to_id(mark)) for mark in ("[CLS]", "[SEP]")],
    )
    made.enable_truncation(LENGTH)
    made.enable_padding(length=LENGTH)
    return made


def pairs(of: list[tuple[str, str]], seed: int) -> list[tuple[str, str, int]]:
    """Pair each passage with its own topic and with another one: half of the pairs are correct."""
    chance = random.Random(seed)
    found = []
    for name, text in of:
        other = chance.choice([each for each in TOPICS if each != name])
        found += [(name, text, 1), (other, text, 0)]
    chance.shuffle(found)
    return found


def bert() -> BertForSequenceClassification:
    """240,000 parameters."""
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=WORDS,
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=128,
            max_position_embeddings=LENGTH,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            num_labels=2,
        )
    )


def batch_of(words: Tokenizer, some: list[tuple[str, str, int]]) -> dict[str, torch.Tensor]:
    encoded = words.encode_batch([(name, text) for name, text, _ in some])
    return {
        "input_ids": torch.tensor([each.ids for each in encoded]),
        "token_type_ids": torch.tensor([each.type_ids for each in encoded]),
        "attention_mask": torch.tensor([each.attention_mask for each in encoded]),
        "labels": torch.tensor([right for _, _, right in some]),
    }


def loop(config: dict[str, Any]) -> None:
    torch.manual_seed(0)
    place = train.get_context()
    words = Tokenizer.from_str(config["tokenizer"])
    model = bert()
    for layer in model.bert.encoder.layer:
        fully_shard(layer)
    fully_shard(model)
    own = sum(each.to_local().numel() for each in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"])
    steps = config["steps"]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=config["lr"], total_steps=steps)
    chance = random.Random(place.get_world_rank())
    unseen = batch_of(words, pairs(config["unseen"], seed=1))
    known = config["known"]
    for step in range(steps):
        batch = batch_of(words, pairs(chance.sample(known, 16), seed=step))
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if (step + 1) % max(1, steps // 6) == 0:
            with torch.no_grad():
                right = model(**unseen).logits.argmax(1) == unseen["labels"]
            accuracy = right.float().mean().item()
            train.report({"step": step + 1, "loss": loss.item(), "accuracy": accuracy, "own_weights": own})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=240)
    given = parser.parse_args()
    began = time.perf_counter()
    texts = passages()
    random.Random(0).shuffle(texts)
    words = tokenizer([f"{name} {text}" for name, text in texts])
    known, unseen = texts[: -len(texts) // 6], texts[-len(texts) // 6 :]
    ray.init(num_cpus=2, preload=["torch", "transformers"])
    with tempfile.TemporaryDirectory() as storage:
        result = TorchTrainer(
            loop,
            train_loop_config={
                "steps": given.steps,
                "lr": 3e-3,
                "tokenizer": words.to_str(),
                "known": known,
                "unseen": unseen,
            },
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(name="pairs", storage_path=storage),
        ).fit()
    print(result.metrics_dataframe[["step", "loss", "accuracy"]].to_string(index=False))
    total = sum(each.numel() for each in bert().parameters())
    print(f"each worker keeps {result.metrics['own_weights']:,} of {total:,} weights")
    print(f"accuracy {result.metrics['accuracy']:.3f} after {time.perf_counter() - began:.1f} s")
    ray.shutdown()


if __name__ == "__main__":
    main()
