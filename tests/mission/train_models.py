"""Tiny models under the names that the documents download, in a cache as Hugging Face's libraries keep it."""

from __future__ import annotations

import pydoc_data.topics
from pathlib import Path
from typing import Any

_REVISION = "0" * 40


def keep_models(hub: Path, names: list[str]) -> None:
    """Put models and tokenizers of those names into a cache."""
    for name in names:
        home = hub / f"models--{name.replace('/', '--')}"
        (home / "refs").mkdir(parents=True)
        (home / "refs" / "main").write_text(_REVISION)
        folder = home / "snapshots" / _REVISION
        model = _bert() if name.startswith("bert") else _llama(name.endswith("70B"))
        model.save_pretrained(folder)
        _tokenizer().save_pretrained(folder)


def _llama(in_half: bool) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=300, max_position_embeddings=64, **sizes, **heads))
    return model.to(torch.bfloat16) if in_half else model


def _bert() -> Any:
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    sizes: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    return BertForSequenceClassification(BertConfig(vocab_size=300, num_attention_heads=2, **sizes))


def _tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    made.train_from_iterator(pydoc_data.topics.topics["assert"].splitlines(), trainer)
    ends = [("[CLS]", made.token_to_id("[CLS]")), ("[SEP]", made.token_to_id("[SEP]"))]
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=64,
    )
