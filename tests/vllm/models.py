"""Small models for vLLM, made on the spot, and what transformers answers with them."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import processors
from transformers import (
    AutoModelForCausalLM,
    AutoProcessor,
    BertConfig,
    BertForSequenceClassification,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
)
from transformers.cache_utils import DynamicCache
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from tests.llm import tiny

#: vLLM's attention on CPUs needs heads of 32 or more.
SHAPE: dict[str, Any] = {"hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2}
#: Arguments of vLLM that make a start short.
QUICK: dict[str, Any] = {
    "dtype": "float32",
    "enforce_eager": True,
    "max_model_len": 256,
    "max_num_seqs": 16,
}
_RANK, _ALPHA = 4, 8


def text_of(tokens: list[int]) -> str:
    """The text of tokens."""
    return str(tiny.tokenizer().decode(tokens))


def text_model(folder: Path, **more: Any) -> Path:
    """A Llama of bytes with random weights."""
    return tiny.save(folder, **{**SHAPE, **more})


def reasoning_model(folder: Path) -> Path:
    """The same with the tokens <think> and </think>."""
    made = text_model(folder)
    tokenizer = tiny.tokenizer()
    tokenizer.add_tokens(["<think>", "</think>"])
    tokenizer.save_pretrained(made)
    return made


def adapter(folder: Path, model: Path, seed: int = 1) -> Path:
    """A LoRA adapter with random weights for some layers of a model."""
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, layer in _adapted(AutoModelForCausalLM.from_pretrained(model)):
        for kind, shape in (("A", (_RANK, layer.in_features)), ("B", (layer.out_features, _RANK))):
            values = torch.randn(shape, generator=generator) * 0.3
            weights[f"base_model.model.{name}.lora_{kind}.weight"] = values
    folder.mkdir(parents=True)
    save_file(weights, folder / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": _RANK,
        "lora_alpha": _ALPHA,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": ["q_proj", "v_proj", "down_proj"],
        "base_model_name_or_path": str(model),
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


def _adapted(model: Any) -> list[tuple[str, Any]]:
    ends = ("q_proj", "v_proj", "down_proj")
    return [(name, each) for name, each in model.named_modules() if name.endswith(ends)]


def answer(model: Path, prompt: str, tokens: int, adapter: Path | None = None) -> list[int]:
    """The greedy answer of transformers, of which vLLM's must not differ."""
    found = AutoModelForCausalLM.from_pretrained(model).eval()
    if adapter is not None:
        from safetensors.torch import load_file

        weights = load_file(adapter / "adapter_model.safetensors")
        with torch.no_grad():
            for name, layer in _adapted(found):
                one, other = (weights[f"base_model.model.{name}.lora_{kind}.weight"] for kind in "BA")
                layer.weight += one @ other * (_ALPHA / _RANK)
    given = torch.tensor([tiny.tokenizer().encode(prompt)])
    made = found.generate(
        given, attention_mask=torch.ones_like(given), max_new_tokens=tokens, do_sample=False
    )
    return [int(each) for each in made[0, given.shape[1] :] if each != tiny.END]


def logprobs(model: Path, tokens: list[int]) -> list[list[float]]:
    """The log probabilities of transformers for each token of a text but the first, over the vocabulary."""
    found = AutoModelForCausalLM.from_pretrained(model).eval()
    with torch.inference_mode():
        rows = found(torch.tensor([tokens])).logits[0, :-1].log_softmax(-1)
    return [[float(each) for each in row] for row in rows]


def beams(model: Path, prompt: list[int], width: int, length: int) -> list[tuple[list[int], float]]:
    """The answers of a beam search with their log probabilities; no token ends one."""
    found = AutoModelForCausalLM.from_pretrained(model).eval()
    kept: list[tuple[list[int], float]] = [([], 0.0)]
    for _ in range(length):
        longer = []
        for tokens, total in kept:
            with torch.inference_mode():
                row = found(torch.tensor([prompt + tokens])).logits[0, -1].log_softmax(-1)
            longer += [([*tokens, token], total + float(value)) for token, value in enumerate(row)]
        kept = sorted(longer, key=lambda each: -each[1])[:width]
    return kept


def answer_after(prefill: Path, decode: Path, prompt: str, tokens: int) -> list[int]:
    """The greedy answer of one model with the keys and values of another for all of the prompt but its last token."""
    one, other = (AutoModelForCausalLM.from_pretrained(each).eval() for each in (prefill, decode))
    given = torch.tensor([tiny.tokenizer().encode(prompt)])
    kept = DynamicCache(config=one.config)
    # Renamed in transformers 5.24.
    name = "cache" if "cache" in inspect.signature(one.forward).parameters else "past_key_values"
    found: list[int] = []
    with torch.inference_mode():
        one(given[:, :-1], **{name: kept})
        last = given[:, -1:]
        while len(found) < tokens:
            last = other(last, **{name: kept}).logits[:, -1:].argmax(-1)
            found.append(int(last))
    return found


def cross_encoder(folder: Path) -> Path:
    """A BERT with random weights that scores pairs of texts."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=tiny.VOCABULARY,
        hidden_size=128,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=256,
        num_labels=1,
        pad_token_id=tiny.END,
        initializer_range=0.5,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    made = tiny.tokenizer()
    made.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <end>", pair="$A:0 <end>:0 $B:1 <end>:1", special_tokens=[("<end>", tiny.END)]
    )
    made.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    made.pad_token = made.sep_token = "<end>"
    made.save_pretrained(folder)
    return folder


def pair_score(folder: Path, one: str, other: str) -> float:
    """The score of transformers for a pair of texts."""
    from transformers import AutoTokenizer

    model = BertForSequenceClassification.from_pretrained(folder).eval()
    given = AutoTokenizer.from_pretrained(folder)(one, other, return_tensors="pt")
    with torch.inference_mode():
        return float(torch.sigmoid(model(**given).logits).squeeze())


#: What `image_model` sees of an image is square, with this many pixels on a side; each patch has a place in the prompt.
IMAGE_SIZE, IMAGE_PATCH = 32, 16
#: The template of `image_model`, to which contents are lists of parts.
IMAGE_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def image_model(folder: Path) -> Path:
    """A LLaVA with random weights: a CLIP that sees images, and the Llama of `text_model` that reads what it sees."""
    torch.manual_seed(0)
    text = LlamaConfig(
        **SHAPE,
        vocab_size=tiny.VOCABULARY + 1,
        intermediate_size=64,
        num_hidden_layers=2,
        max_position_embeddings=256,
        bos_token_id=None,
        eos_token_id=tiny.END,
        pad_token_id=tiny.END,
        initializer_range=0.2,
    )
    vision = CLIPVisionConfig(
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=IMAGE_SIZE,
        patch_size=IMAGE_PATCH,
        initializer_factor=20.0,
    )
    model = LlavaForConditionalGeneration(
        LlavaConfig(vision_config=vision, text_config=text, image_token_index=tiny.VOCABULARY)
    )
    model.generation_config.eos_token_id = tiny.END
    model.save_pretrained(folder)
    tokenizer = tiny.tokenizer(None)
    tokenizer.add_tokens([f"<unused{number}>" for number in range(len(tokenizer), tiny.VOCABULARY)])
    tokenizer.add_tokens(["<image>"], special_tokens=True)
    sizes = {"height": IMAGE_SIZE, "width": IMAGE_SIZE}
    images = CLIPImageProcessorPil(size=sizes, crop_size=sizes)
    LlavaProcessor(
        images,
        tokenizer,
        patch_size=IMAGE_PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=IMAGE_TEMPLATE,
    ).save_pretrained(folder)
    return folder


def answer_to_images(model: Path, prompt: str, images: list[Any], tokens: int) -> list[int]:
    """The greedy answer of transformers to a prompt with a mark for each image."""
    found = LlavaForConditionalGeneration.from_pretrained(model).eval()
    given = AutoProcessor.from_pretrained(model)(
        images=images or None, text=prompt, return_tensors="pt", add_special_tokens=False
    )
    made = found.generate(**given, max_new_tokens=tokens, do_sample=False)
    return [int(each) for each in made[0, given["input_ids"].shape[1] :] if each != tiny.END]
