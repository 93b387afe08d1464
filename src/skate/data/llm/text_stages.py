"""The stages around an engine: messages to a prompt, a prompt to tokens, tokens to text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from skate.data.llm.engine import TextModelFactory
from skate.data.llm.stage import Stage, StageCall


class TextCall(StageCall):
    """A stage that uses the model's tokenizer, loaded once in each actor."""

    def __init__(
        self,
        data_column: str,
        expected_input_keys: Sequence[str],
        model: str,
        text_model: TextModelFactory,
        trust_remote_code: bool = False,
    ) -> None:
        super().__init__(data_column, expected_input_keys)
        self.text = text_model(model, trust_remote_code)


class ChatTemplateCall(TextCall):
    """Adds `prompt`, built from `messages`."""

    def __init__(
        self, *args: Any, chat_template: str | None = None, chat_template_kwargs: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.chat_template = chat_template
        self.chat_template_kwargs = chat_template_kwargs or {}

    def outputs(self, rows: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
        """Yield the prompt of each row."""
        for row in rows:
            prompt = self.text.chat(row["messages"], self.chat_template, self.chat_template_kwargs)
            yield {"prompt": prompt}


class TokenizeCall(TextCall):
    """Adds `tokenized_prompt`."""

    def outputs(self, rows: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
        """Yield the tokens of each row's prompt."""
        return [{"tokenized_prompt": each} for each in self.text.encode([row["prompt"] for row in rows])]


class DetokenizeCall(TextCall):
    """Adds `generated_text`."""

    def outputs(self, rows: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
        """Yield the text of each row's tokens."""
        texts = self.text.decode([row["generated_tokens"] for row in rows])
        return [{"generated_text": each} for each in texts]


class ChatTemplateStage(Stage):
    """A stage that converts messages to a prompt."""

    fn = ChatTemplateCall

    def get_required_input_keys(self) -> dict[str, str]:
        """The messages column and its meaning."""
        return {"messages": "a list of messages in the format of OpenAI's chat, each with role and content"}


class TokenizeStage(Stage):
    """A stage that converts a prompt to tokens."""

    fn = TokenizeCall

    def get_required_input_keys(self) -> dict[str, str]:
        """The prompt column and its meaning."""
        return {"prompt": "the text passed to the model"}


class DetokenizeStage(Stage):
    """A stage that converts tokens to text."""

    fn = DetokenizeCall

    def get_required_input_keys(self) -> dict[str, str]:
        """The tokens column and its meaning."""
        return {"generated_tokens": "the ids of the generated tokens"}
