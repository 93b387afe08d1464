"""Converts requests to engine parameters, and rejects unsupported parts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from skate.llm.errors import BadRequest, NotSupported
from skate.llm.media import check_part
from skate.llm.openai.requests import (
    PROMPTS_MAX,
    ChatCompletionRequest,
    ChatMessage,
    CompletionRequest,
    ConversationRequest,
    GenerateRequest,
)
from skate.llm.sampling import SamplingParams

_UNCHANGED = (
    "n", "temperature", "top_p", "seed", "stop", "presence_penalty", "frequency_penalty", "logit_bias", "top_k", "min_p",
    "repetition_penalty", "min_tokens", "stop_token_ids", "ignore_eos", "include_stop_str_in_output", "skip_special_tokens",
)  # fmt: skip

#: Arguments of tokenizers that would change the type of the result, or that are already set.
_TOKENIZERS = frozenset(
    {
        "self", "messages", "conversation", "template", "tokenize", "padding", "truncation", "max_length", "return_tensors",
        "return_dict", "return_assistant_tokens_mask", "tokenizer_kwargs",
    }
)  # fmt: skip


def chat_params(request: ChatCompletionRequest) -> SamplingParams:
    """Return the params of a chat request; by default an answer may fill the context."""
    for name in ("audio", "prediction", "web_search_options", "functions", "function_call"):
        if getattr(request, name):
            raise NotSupported(f"{name} is not supported by this server", name)
    if request.modalities and request.modalities != ["text"]:
        raise NotSupported("modalities other than text are not supported by this server", "modalities")
    if request.top_logprobs is not None and not request.logprobs:
        raise BadRequest("top_logprobs requires logprobs=true", "top_logprobs")
    logprobs = (request.top_logprobs or 0) if request.logprobs else None
    most = request.max_completion_tokens if request.max_completion_tokens is not None else request.max_tokens
    return _params(request, most, logprobs, _structure(request.response_format))


def conversation_options(
    request: ConversationRequest, trusted: bool, generation_prompt: bool
) -> dict[str, Any]:
    """Return the chat template's arguments for a conversation that is not answered; see `template_options`.

    Args:
        request: the request.
        trusted: True to accept a template in the request.
        generation_prompt: True if the prompt for an answer is added by default.
    """
    options = template_options(request, trusted)
    adds = request.add_generation_prompt
    if request.continue_final_message:
        if adds:
            raise BadRequest(
                "add_generation_prompt and continue_final_message cannot both be true; set one of them",
                "continue_final_message",
            )
        options["continue_final_message"] = True
        generation_prompt = False
    options["add_generation_prompt"] = generation_prompt if adds is None else adds
    return options


def template_options(request: ChatCompletionRequest | ConversationRequest, trusted: bool) -> dict[str, Any]:
    """Return the chat template's arguments, including `chat_template` if the request has one and is trusted.

    Raises BadRequest for an untrusted template, and for arguments of the tokenizer rather than the template.
    """
    options = dict(request.chat_template_kwargs or {})
    inside = options.pop("chat_template", None)
    template = inside if request.chat_template is None else request.chat_template
    if template is not None:
        where = "chat_template" if request.chat_template is not None else "chat_template_kwargs"
        if not trusted:
            raise BadRequest(
                f"{where} contains a chat template, which is a program, but this server does not run programs "
                f"from requests; leave it out, or serve the model with "
                "engine_kwargs={'trust_request_chat_template': True}",
                where,
            )
        options["chat_template"] = template
    wrong = sorted(_TOKENIZERS.intersection(options))
    if wrong:
        raise BadRequest(
            f"chat_template_kwargs does not accept {', '.join(wrong)}, an argument of the tokenizer, not of the template",
            "chat_template_kwargs",
        )
    return options


def completion_params(request: CompletionRequest) -> SamplingParams:
    """Return the params of a completion request."""
    if request.suffix:
        raise NotSupported("suffix is not supported by this server", "suffix")
    if request.best_of is not None and request.best_of != request.n:
        raise NotSupported("best_of other than n is not supported by this server", "best_of")
    if request.max_tokens == 0:
        _check_prompt_alone(request)
    echoed = request.echo and request.logprobs is not None and request.prompt_logprobs is None
    # Engines generate at least one token; with max_tokens=0, `answers.prompt_alone` drops it.
    most = 1 if request.max_tokens == 0 else request.max_tokens
    return _params(request, most, request.logprobs, {"prompt_logprobs": request.logprobs} if echoed else {})


def _check_prompt_alone(request: CompletionRequest) -> None:
    if not request.echo:
        raise BadRequest(
            "max_tokens=0 asks for the prompt alone, which requires echo=true; set echo, or max_tokens to 1 or more",
            "max_tokens",
        )
    for name in ("use_beam_search", "min_tokens"):
        if getattr(request, name):
            raise BadRequest(f"{name} does not work together with max_tokens=0; leave it out", name)


def _params(
    request: GenerateRequest, most: int | None, logprobs: int | None, extra: dict[str, Any]
) -> SamplingParams:
    given = {name: value for name in _UNCHANGED if (value := getattr(request, name)) is not None}
    if request.structured_outputs:
        if "structured_outputs" in extra:
            raise BadRequest(
                "response_format and structured_outputs are both set; set only one of them",
                "structured_outputs",
            )
        extra = {**extra, "structured_outputs": request.structured_outputs}
    if request.use_beam_search and request.stream:
        raise BadRequest(
            "use_beam_search is not available in a stream; set stream to false", "use_beam_search"
        )
    if request.length_penalty != 1 and not request.use_beam_search:
        raise BadRequest("length_penalty requires use_beam_search=true", "length_penalty")
    if request.prompt_logprobs is not None:
        if request.stream:
            raise BadRequest(
                "prompt_logprobs is not available in a stream; set stream to false, or leave prompt_logprobs out",
                "prompt_logprobs",
            )
        # An engine that cannot compute them rejects the argument.
        extra = {**extra, "prompt_logprobs": request.prompt_logprobs}
    if request.kv_transfer_params:
        extra = {**extra, "extra_args": {"kv_transfer_params": request.kv_transfer_params}}
    return SamplingParams(**given, max_tokens=most, logprobs=logprobs, extra=extra)


def _structure(given: dict[str, Any] | None) -> dict[str, Any]:
    """Convert a response format to the constraint of an answer, which engines without support reject."""
    kind = (given or {}).get("type", "text")
    if given is None or kind == "text":
        return {}
    if kind == "json_object":
        return {"structured_outputs": {"json_object": True}}
    if kind == "json_schema":
        schema = given.get("json_schema")
        if not isinstance(schema, dict) or "schema" not in schema:
            raise BadRequest(
                "response_format of type json_schema requires json_schema.schema", "response_format"
            )
        return {"structured_outputs": {"json": schema["schema"]}}
    raise BadRequest(
        f"response_format.type must be text, json_object or json_schema, got {kind!r}", "response_format"
    )


def plain_messages(
    messages: Sequence[ChatMessage], model: str, takes: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Convert messages for chat templates: the role developer becomes system, and contents without media text.

    Raises BadRequest for media unless `takes` has its kind; `model` is the model's name for errors.
    """
    found = []
    for number, message in enumerate(messages):
        plain = message.model_dump(exclude_none=True)
        if isinstance(message.content, list):
            for at, part in enumerate(plain["content"]):
                if part["type"] != "text":
                    check_part(part, f"messages[{number}].content[{at}]", model, takes)
            if all(part.type == "text" for part in message.content):
                plain["content"] = "\n".join(part.text or "" for part in message.content)
        plain.setdefault("content", "")
        if message.role == "developer":
            plain["role"] = "system"
        found.append(plain)
    return found


def pairs_of(one: str | list[str], other: str | list[str]) -> tuple[list[str], list[str]]:
    """Return the texts to compare, pair by pair; a single first text is compared with each second one."""
    for field, texts in (("text_1", one), ("text_2", other)):
        if isinstance(texts, list) and len(texts) > PROMPTS_MAX:
            raise BadRequest(f"{field} may have at most {PROMPTS_MAX} texts, got {len(texts)}", field)
    left = [one] if isinstance(one, str) else list(one)
    right = [other] if isinstance(other, str) else list(other)
    if not all([*left, *right]) or not left or not right:
        raise BadRequest(
            "text_1 and text_2 must contain non-empty texts", "text_1" if not all(left) else "text_2"
        )
    if len(left) == 1:
        left = left * len(right)
    if len(left) != len(right):
        raise BadRequest(
            f"text_1 must have one text or as many as text_2, got {len(left)} and {len(right)}", "text_1"
        )
    return left, right


def prompts_of(given: str | list[Any], field: str) -> list[str | list[int]]:
    """Return the prompts of a field that contains one or several, as text or tokens."""
    if isinstance(given, str):
        return [given]
    if not given:
        raise BadRequest(f"{field} is empty", field)
    if isinstance(given[0], int):
        return [list(given)]
    if len(given) > PROMPTS_MAX:
        raise BadRequest(f"{field} may have at most {PROMPTS_MAX} prompts, got {len(given)}", field)
    return list(given)
