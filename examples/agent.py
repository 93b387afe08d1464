"""An agent that calls a tool: OpenAI's client asks a model of Skate, and the functions run in this program.

The model is a tiny one with random weights, made here, so that nothing is downloaded: it has no preferences, but the
schemas of the tools make every call a valid one. Let a real model decide with: python agent.py FOLDER
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import openai

import skate as ray
from skate import serve
from skate.serve.llm import LLMConfig, build_openai_app

PEOPLE = {"Oslo": 724_000, "Rome": 2_746_000}


def population(city: str) -> int:
    """Return the number of people of a city."""
    return PEOPLE[city]


FUNCTIONS = {"population": population}
CITY = {"type": "object", "properties": {"city": {"enum": list(PEOPLE)}}, "required": ["city"]}
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {"name": "population", "description": "The people of a city.", "parameters": CITY},
    }
]


def agent(client: openai.OpenAI, question: str, first: str) -> list[Any]:
    """Let the model call tools until it answers; `first` is the tool_choice of the first turn."""
    messages: list[Any] = [{"role": "user", "content": question}]
    choice: Any = first
    while True:
        answer = client.chat.completions.create(
            model="small", messages=messages, tools=TOOLS, tool_choice=choice, max_tokens=64
        )
        message = answer.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return messages
        for call in message.tool_calls:
            result = FUNCTIONS[call.function.name](**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": str(result)})
        choice = "none" if first == "required" else "auto"


def tiny_model(folder: Path) -> str:
    """Save a model with random weights and a token for each byte."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    letters = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    raw = Tokenizer(models.BPE(vocab=letters, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<end>")
    tokenizer.chat_template = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|assistant|>"
    )
    tokenizer.save_pretrained(folder)
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    LlamaForCausalLM(LlamaConfig(vocab_size=264, eos_token_id=256, **shape)).save_pretrained(folder)
    return str(folder)


def main(folder: str | None) -> None:
    """Serve the model, let the agent work, and show the conversation."""
    with tempfile.TemporaryDirectory() as made:
        config = LLMConfig(
            model_loading_config={"model_id": "small", "model_source": folder or tiny_model(Path(made))},
            llm_engine="embedded",
            engine_kwargs={"enable_auto_tool_choice": True, "tool_call_parser": "hermes", "num_threads": 1},
        )
        port = int(os.environ.get("PORT", 8124))
        serve.run(build_openai_app({"llm_configs": [config]}), port=port)
        address = f"http://127.0.0.1:{port}/v1"
        with openai.OpenAI(base_url=address, api_key="none") as client:
            conversation = agent(client, "How many people live in Oslo?", "auto" if folder else "required")
        for message in conversation[:-1]:
            for call in message.get("tool_calls", ()):
                print("call:", call["function"]["name"], call["function"]["arguments"])
            if message["role"] == "tool":
                print("result:", message["content"])
        print("answered:", conversation[-1]["role"])
        serve.shutdown()
        ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
