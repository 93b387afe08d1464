"""A GPT from scratch: its tokenizer and its weights are trained on the text of Python's own documentation.

Run it: python examples/train/gpt_from_scratch.py [--steps N]
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from pydoc_data.topics import topics
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

import skate as ray
from skate import train
from skate.train import Checkpoint, RunConfig, ScalingConfig
from skate.train.torch import TorchTrainer, prepare_model

WORDS, LENGTH = 1024, 64


def text() -> str:
    """465,000 letters of English about Python."""
    return "\n\n".join(topics[name] for name in sorted(topics))


def tokenizer() -> Tokenizer:
    """Train a byte-pair tokenizer on that text."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(text().split("\n\n"), trainers.BpeTrainer(vocab_size=WORDS, show_progress=False))
    return made


def gpt() -> GPT2LMHeadModel:
    """290,000 parameters."""
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=WORDS,
            n_positions=LENGTH,
            n_embd=96,
            n_layer=2,
            n_head=4,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=0,
            loss_type="ForCausalLM",
        )
    )


def loop(config: dict[str, Any]) -> None:
    torch.manual_seed(0)
    logging.disable_progress_bar()
    place = train.get_context()
    tokens = torch.tensor(config["tokens"])
    held_out = tokens[: 16 * LENGTH].view(16, LENGTH)
    tokens = tokens[16 * LENGTH :]
    model = prepare_model(gpt())
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"])
    steps = config["steps"]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=config["lr"], total_steps=steps)
    chance = torch.Generator().manual_seed(place.get_world_rank())  # each worker reads different positions
    for step in range(steps):
        starts = torch.randint(len(tokens) - LENGTH, (16,), generator=chance)
        batch = torch.stack([tokens[start : start + LENGTH] for start in starts])
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if (step + 1) % max(1, steps // 8) == 0:
            with torch.no_grad():
                unseen = model(input_ids=held_out, labels=held_out).loss.item()
            train.report(
                {"step": step + 1, "loss": loss.item(), "unseen": unseen, "tokens": step * batch.numel()}
            )
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = None
        if place.get_world_rank() == 0:
            model.module.save_pretrained(folder)
            checkpoint = Checkpoint.from_directory(folder)
        train.report({"step": steps, "loss": loss.item(), "unseen": unseen}, checkpoint=checkpoint)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    given = parser.parse_args()
    logging.disable_progress_bar()
    began = time.perf_counter()
    words = tokenizer()
    tokens = words.encode(text()).ids
    print(f"{len(text()):,} letters are {len(tokens):,} tokens of {words.get_vocab_size():,} kinds")
    ray.init(num_cpus=2, preload=["torch", "transformers"])
    with tempfile.TemporaryDirectory() as storage:
        result = TorchTrainer(
            loop,
            train_loop_config={"steps": given.steps, "lr": 6e-3, "tokens": tokens},
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(name="gpt", storage_path=storage),
        ).fit()
        with result.checkpoint.as_directory() as folder:
            model = GPT2LMHeadModel.from_pretrained(folder)
    print(result.metrics_dataframe[["step", "loss", "unseen"]].to_string(index=False))
    torch.manual_seed(0)
    start = torch.tensor([words.encode("The statement").ids])
    written = model.generate(
        start,
        attention_mask=torch.ones_like(start),
        max_new_tokens=40,
        do_sample=True,
        top_k=10,
        pad_token_id=0,
    )
    print(repr(words.decode(written[0].tolist())))
    print(
        f"loss on unseen text {result.metrics['unseen']:.2f} (knowing nothing: {math.log(WORDS):.2f}) "
        f"after {time.perf_counter() - began:.1f} s"
    )
    ray.shutdown()


if __name__ == "__main__":
    main()
