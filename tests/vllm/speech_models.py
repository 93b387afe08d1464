"""A small Whisper with random weights, and what transformers hears with it."""

from __future__ import annotations

import io
import wave
from pathlib import Path

import numpy
import torch
from tokenizers import pre_tokenizers
from transformers import (
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
    WhisperProcessor,
    WhisperTokenizer,
)

#: The samples in a second, and the seconds that the model hears at once.
RATE, SECONDS = 16_000, 2
_MARKS = ["<|startoftranscript|>", "<|en|>", "<|de|>", "<|translate|>", "<|transcribe|>", "<|notimestamps|>"]
#: The first of the tokens for times, each 0.02 s after the one before it.
_TIMES = [f"<|{0.02 * step:.2f}|>" for step in range(50 * SECONDS + 1)]


def speech_model(folder: Path) -> Path:
    """A Whisper of bytes."""
    torch.manual_seed(0)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(letters)}
    vocabulary["<|endoftext|>"] = len(vocabulary)
    tokenizer = WhisperTokenizer(vocab=vocabulary, merges=[])
    tokenizer.add_special_tokens({"additional_special_tokens": _MARKS})
    tokenizer.add_tokens(_TIMES, special_tokens=True)
    end = vocabulary["<|endoftext|>"]
    config = WhisperConfig(
        vocab_size=len(tokenizer),
        num_mel_bins=80,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_source_positions=50 * SECONDS,
        max_target_positions=128,
        decoder_start_token_id=tokenizer.convert_tokens_to_ids(_MARKS[0]),
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
        init_std=0.3,
    )
    model = WhisperForConditionalGeneration(config)
    model.generation_config.eos_token_id = end
    model.save_pretrained(folder)
    WhisperProcessor(WhisperFeatureExtractor(chunk_length=SECONDS), tokenizer).save_pretrained(folder)
    return folder


def tone(hertz: float, seconds: float = 1.0) -> bytes:
    """A WAV file with one tone."""
    times = numpy.arange(int(RATE * seconds)) / RATE
    samples = (numpy.sin(2 * numpy.pi * hertz * times) * 20_000).astype("<i2")
    with io.BytesIO() as file:
        with wave.open(file, "wb") as made:
            made.setnchannels(1)
            made.setsampwidth(2)
            made.setframerate(RATE)
            made.writeframes(samples.tobytes())
        return file.getvalue()


def heard(folder: Path, audio: bytes, task: str, tokens: int, language: str = "en") -> str:
    """The greedy text of transformers for a file of `tone`."""
    processor = WhisperProcessor.from_pretrained(folder)
    model = WhisperForConditionalGeneration.from_pretrained(folder).eval()
    samples = numpy.frombuffer(audio[44:], "<i2").astype("float32") / 32_768
    features = processor.feature_extractor(samples, sampling_rate=RATE, return_tensors="pt").input_features
    marks = [_MARKS[0], f"<|{language}|>", f"<|{task}|>", "<|notimestamps|>"]
    given = torch.tensor([processor.tokenizer.convert_tokens_to_ids(marks)])
    found: list[int] = []
    with torch.inference_mode():
        while len(found) < tokens:
            logits = model(input_features=features, decoder_input_ids=given).logits[0, -1]
            token = int(logits.argmax())
            if token == model.config.eos_token_id:
                break
            found.append(token)
            given = torch.cat([given, torch.tensor([[token]])], -1)
    return str(processor.tokenizer.decode(found, skip_special_tokens=True)).rstrip("\ufffd")
