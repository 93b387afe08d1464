"""A model that recites scripts: its tokens beside the bytes are pieces of the scripts, and each is followed by the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

END = 256
_BYTES = 257


def save(
    folder: Path, scripts: Mapping[str, Sequence[str]], template: str, context: int = 2048
) -> dict[str, int]:
    """Save a model. After a prompt that ends with a script's letter, it recites that script and ends.

    Returns the first token of each script: a bias of 20 for it makes the model recite that one instead.
    """
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(letters)}
    table = dict(zip(letters, range(256), strict=True))
    vocabulary["<end>"] = END
    byte_of = _letters()
    follows: dict[int, tuple[int, float]] = {}
    first: dict[str, int] = {}
    size = _BYTES
    for letter, pieces in scripts.items():
        before = table[byte_of[ord(letter)]]
        for number, piece in enumerate(pieces):
            # No merge makes these tokens, so no text of a prompt contains them. A number keeps equal pieces apart.
            vocabulary["".join(byte_of[byte] for byte in piece.encode()) + "\u2063" * (size - _BYTES)] = size
            follows[before] = size, 10.0 if not number else 30.0
            before = size
            first.setdefault(letter, size)
            size += 1
        follows[before] = END, 30.0
    _save_tokenizer(folder, vocabulary, template)
    _save_model(folder, size, follows, context)
    return first


def _letters() -> list[str]:
    """The letter of each byte in byte-level tokenizers."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    shifted = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(shifted)) for byte in range(256)]


def _save_tokenizer(folder: Path, vocabulary: dict[str, int], template: str) -> None:
    raw = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.Sequence([decoders.Replace("\u2063", ""), decoders.ByteLevel()])
    made = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<end>")
    made.chat_template = template
    made.save_pretrained(folder)


def _save_model(folder: Path, size: int, follows: Mapping[int, tuple[int, float]], context: int) -> None:
    """Save a model whose layers add nothing: an embedding is one direction for each token, and the head maps it."""
    width = -(-size // 8) * 8
    shape = LlamaConfig(
        vocab_size=size,
        hidden_size=width,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=context,
        bos_token_id=None,
        eos_token_id=END,
        pad_token_id=END,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(shape)
    with torch.no_grad():
        for parameter in model.model.layers.parameters():
            parameter.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(size, width))
        model.model.norm.weight.fill_(width**-0.5)
        model.lm_head.weight.zero_()
        for before, (after, weight) in follows.items():
            model.lm_head.weight[after, before] = weight
    model.generation_config.eos_token_id = END
    model.generation_config.do_sample = False
    model.save_pretrained(folder)
