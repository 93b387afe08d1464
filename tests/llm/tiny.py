"""Tiny models made on the spot: a Llama with random weights, and a tokenizer of bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
END = 256
VOCABULARY = 260


def tokenizer(template: str | None = CHAT_TEMPLATE) -> PreTrainedTokenizerFast:
    """A token for each byte, so that most characters outside ASCII lie over several tokens, and <end>."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(letters)}
    raw = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<end>")
    made.chat_template = template
    return made


def save(folder: Path, seed: int = 0, template: str | None = CHAT_TEMPLATE, **more: Any) -> Path:
    """A model folder."""
    torch.manual_seed(seed)
    shape: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "bos_token_id": None,
        "eos_token_id": END,
        "pad_token_id": END,
        "initializer_range": 0.2,
    }
    model = LlamaForCausalLM(LlamaConfig(**{**shape, **more}))
    model.generation_config.eos_token_id = END
    model.generation_config.do_sample = False
    model.save_pretrained(folder)
    tokenizer(template).save_pretrained(folder)
    return folder
