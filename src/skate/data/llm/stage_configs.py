"""Configurations of single stages."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

from skate.data.llm.settings import Settings

Config = TypeVar("Config", bound="StageConfig")


class StageConfig(Settings):
    """One stage: whether it runs, its batch size, its pool of actors and the requirements of each.

    None takes the processor's value. `memory` is in bytes.
    """

    enabled: bool = True
    batch_size: int | None = None
    concurrency: int | tuple[int, int] | None = None
    runtime_env: dict[str, Any] | None = None
    num_cpus: float | None = None
    memory: float | None = None

    def pool(self) -> dict[str, Any]:
        """Return the bounds of the pool of actors for ActorPoolStrategy."""
        if self.concurrency is None:
            return {"size": 1}
        if isinstance(self.concurrency, int):
            return {"min_size": 1, "max_size": self.concurrency}
        return {"min_size": self.concurrency[0], "max_size": self.concurrency[1]}

    def actor_options(self) -> dict[str, Any]:
        """Return the requirements of each actor, as options of map_batches."""
        options = {"runtime_env": self.runtime_env, "num_cpus": self.num_cpus, "memory": self.memory}
        return {name: value for name, value in options.items() if value is not None}


class ChatTemplateStageConfig(StageConfig):
    """The stage that builds a prompt from messages; `chat_template` is a Jinja template, the model's own if None."""

    model_source: str | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class TokenizerStageConfig(StageConfig):
    """The stage that tokenizes the prompt."""

    model_source: str | None = None


class DetokenizeStageConfig(StageConfig):
    """The stage that converts generated tokens to text."""

    model_source: str | None = None


class PrepareMultimodalStageConfig(StageConfig):
    """The stage that loads the images, audio and video that messages refer to."""

    model_config_kwargs: dict[str, Any] | None = None
    chat_template_content_format: Literal["string", "openai"] | None = "string"
    apply_sys_msg_formatting: bool | None = False


class HttpRequestStageConfig(StageConfig):
    """The stage that sends requests."""


def resolved(given: Any, kind: type[Config], defaults: dict[str, Any]) -> Config:
    """Return a stage's configuration, given as True, False, a dict or itself; missing fields come from `defaults`.

    Raises TypeError for other types.
    """
    if isinstance(given, kind):
        found = given.model_copy()
    elif isinstance(given, bool):
        found = kind(enabled=given)
    elif isinstance(given, dict):
        found = kind(**given)
    else:
        raise TypeError(
            f"a stage must be True, False, a dict or a {kind.__name__}, got {type(given).__name__}: {given!r:.80}"
        )
    for name in ("batch_size", "concurrency", "runtime_env", "model_source"):
        if name in kind._fields and getattr(found, name) is None and name in defaults:
            setattr(found, name, defaults[name])
    return found
