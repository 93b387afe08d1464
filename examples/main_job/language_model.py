"""A small GPT and its tokenizer: a Llama with one and a half million parameters, a byte-level tokenizer with 3,072
tokens, a chat template.

``save`` writes a folder that transformers, vLLM and Skate's embedded engine load.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
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
VOCABULARY = 3072
CONTEXT = 512
IGNORED = -100  # the label of a token that is not learned


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


def prompt_text(question: str) -> str:
    """Format a question with the chat template, up to where the answer begins."""
    return f"{USER}{question}\n{ASSISTANT}"


def training_text(question: str, answer: str) -> str:
    """Format a question and its answer with the chat template."""
    return f"{prompt_text(question)}{answer}{END}"


def new_model(vocabulary: int = VOCABULARY, context: int = CONTEXT, **changes: Any) -> LlamaForCausalLM:
    """Create a Llama with random weights, about one and a half million parameters; `changes` override its config."""
    shape: dict[str, Any] = {
        "vocab_size": vocabulary,
        "hidden_size": 192,
        "intermediate_size": 512,
        "num_hidden_layers": 2,
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


class AnswerLoss(torch.nn.Module):
    """The loss of a model on the tokens of answers; the last layer computes no others."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the mean cross entropy of the labels that are not `IGNORED`, each predicted from the tokens before."""
        hidden = self.model.model(input_ids=input_ids).last_hidden_state[:, :-1]
        following = labels[:, 1:]
        counted = following != IGNORED
        logits = self.model.lm_head(hidden[counted])
        return torch.nn.functional.cross_entropy(logits.float(), following[counted])


def packed(
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]], length: int
) -> Iterator[tuple[list[int], list[int]]]:
    """Put the tokens of whole questions with their answers into rows of `length` tokens; longer ones are dropped.

    Yields tokens and labels, which are `IGNORED` for questions and for the padding at the end.
    """
    tokens: list[int] = []
    labels: list[int] = []
    for question, answer in pairs:
        more = len(question) + len(answer)
        if more > length:
            continue
        if len(tokens) + more > length:
            yield _padded(tokens, labels, length)
            tokens, labels = [], []
        tokens += [*question, *answer]
        labels += [*(IGNORED for _ in question), *answer]
    if tokens:
        yield _padded(tokens, labels, length)


def _padded(tokens: list[int], labels: list[int], length: int) -> tuple[list[int], list[int]]:
    missing = length - len(tokens)
    return tokens + [0] * missing, labels + [IGNORED] * missing


def save(folder: str | Path, model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> str:
    """Save a model folder: weights, config, tokenizer, chat template. Returns its path."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
