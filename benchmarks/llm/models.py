"""The two models that are measured: Llamas with random weights, made on the spot."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

SIZES: dict[str, dict[str, Any]] = {
    "2M": {
        "vocab_size": 4096,
        "hidden_size": 160,
        "intermediate_size": 432,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
    },
    "30M": {
        "vocab_size": 16000,
        "hidden_size": 512,
        "intermediate_size": 1408,
        "num_hidden_layers": 8,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
    },
}


def saved(size: str) -> str:
    """The folder of a model, made if it is not there."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from examples.main_job import language_model
    from examples.retrieval import documentation

    folder = Path(tempfile.gettempdir()) / f"skate-benchmark-model-{size}"
    if not (folder / "tokenizer.json").exists():
        torch.manual_seed(0)
        more = {
            "max_position_embeddings": 1024,
            "bos_token_id": None,
            "eos_token_id": None,
            "pad_token_id": 0,
        }
        model = LlamaForCausalLM(LlamaConfig(tie_word_embeddings=True, **more, **SIZES[size]))
        texts = [Path(path).read_text(errors="replace") for path in documentation.library_files()]
        # Each of the model's tokens is a text, so that a stream has an event for each.
        tokenizer = language_model.train_tokenizer(texts, SIZES[size]["vocab_size"])
        language_model.save(folder, model, tokenizer)
    return str(folder)
