"""A small GPT and its tokenizer: a Llama with two million parameters, a byte-level tokenizer with 4,096
tokens, a chat template.

``save`` writes a folder that transformers, vLLM and Skate's embedded engine load.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils import logging as transformers_logging

if TYPE_CHECKING:
    from collections.abc import Sequence

transformers_logging.disable_progress_bar()  # saving and loading take a moment

USER, ASSISTANT, END = "<|user|>", "<|assistant|>", "<|end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}<|assistant|>{{ message['content'] }}<|end|>"
    "{% else %}<|user|>{{ message['content'] }}\n{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
VOCABULARY = 4096
CONTEXT = 512


def train_tokenizer(texts: Iterable[str], vocabulary: int = VOCABULARY) -> PreTrainedTokenizerFast:
    """Train a byte-level tokenizer that merges frequent pairs of these texts; it can encode any text."""
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END, USER, ASSISTANT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator(texts, trainer)
    made = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token=END, pad_token=END)
    made.add_special_tokens({"additional_special_tokens": [USER, ASSISTANT]})
    made.chat_template = CHAT_TEMPLATE
    return made


def training_text(question: str, answer: str) -> str:
    """Format a document with the chat template."""
    return f"{USER}{question}\n{ASSISTANT}{answer}{END}"


def new_model(vocabulary: int = VOCABULARY, context: int = CONTEXT, **changes: Any) -> LlamaForCausalLM:
    """Create a Llama with random weights, about two million parameters; `changes` override its config."""
    shape: dict[str, Any] = {
        "vocab_size": vocabulary,
        "hidden_size": 160,
        "intermediate_size": 432,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "max_position_embeddings": context,
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": 0,
        "pad_token_id": 0,
    }
    model = LlamaForCausalLM(LlamaConfig(**{**shape, **changes}))
    model.generation_config.eos_token_id = 0
    return model


def packed(token_lists: Iterable[Sequence[int]], length: int) -> Iterable[list[int]]:
    """Concatenate documents and cut them into pieces of `length` tokens; the rest is dropped."""
    pending: list[int] = []
    for tokens in token_lists:
        pending.extend(tokens)
        while len(pending) >= length:
            yield pending[:length]
            pending = pending[length:]


def save(folder: str | Path, model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> str:
    """Save a model folder: weights, config, tokenizer, chat template. Returns its path."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
