"""Images, audio and video in messages: the types of parts, where their data may come from, and prompts with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from skate.llm.errors import BadRequest, NotSupported

#: The kind of media of each type of part, under the names of OpenAI and vLLM.
KINDS = {
    "image_url": "image",
    "image_embeds": "image",
    "input_audio": "audio",
    "audio_url": "audio",
    "audio_embeds": "audio",
    "video_url": "video",
    "video_embeds": "video",
}


class MediaPrompt(list[int]):
    """The tokens of a prompt with media, each of which has its places among them.

    Args:
        tokens: the tokens.
        rendered: the prompt in the form of the engine that rendered it; only that engine can read it.
    """

    def __init__(self, tokens: Sequence[int], rendered: Any) -> None:
        super().__init__(tokens)
        self.rendered = rendered


def check_part(part: Mapping[str, Any], where: str, model: str, takes: Collection[str]) -> None:
    """Raise BadRequest unless a part of a message is media that a model takes, with the fields of its type.

    Args:
        part: the part; its type is not "text".
        where: its place in the request, for errors.
        model: the name of the model, for errors.
        takes: the kinds of media that the model takes.
    """
    name = str(part.get("type"))
    kind = KINDS.get(name)
    if kind is None:
        raise BadRequest(f"{where}.type is {name!r}, but must be text, {', '.join(KINDS)}", "messages")
    if kind not in takes:
        only = ", ".join(["text", *sorted(takes)])
        raise NotSupported(
            f"{where} has the type {name}, but the model {model!r} takes only {only}; serve a model that takes "
            f"{kind} with the engine vLLM",
            "messages",
        )
    if "uuid" in part:
        # The engine would find cached data by it, so that one client could replace the data of another.
        raise NotSupported(f"{where}.uuid is not supported by this server; leave it out", "messages")
    field = part.get(name)
    if name.endswith("_url") and not _has_texts(field, "url"):
        raise BadRequest(
            f"{where} needs {name}.url, a URL with the data, such as data:image/png;base64,...", "messages"
        )
    if name == "input_audio" and not _has_texts(field, "data", "format"):
        raise BadRequest(f"{where} needs input_audio.data, in base64, and input_audio.format", "messages")
    if name.endswith("_embeds") and not (isinstance(field, str) or _has_texts(field)):
        raise BadRequest(f"{where} needs {name}, a tensor of torch in base64, or several by name", "messages")


def _has_texts(field: object, *names: str) -> bool:
    """Return True if a field is an object of non-empty texts with these names; any names if none are given."""
    if not isinstance(field, Mapping):
        return False
    return all(isinstance(field.get(each), str) and field[each] for each in names or field)


def check_sources(
    messages: Sequence[Mapping[str, Any]], domains: Sequence[str] | None, folder: str | None
) -> None:
    """Raise BadRequest if a message has a URL from which this server must not read.

    Otherwise any client could make the server read its own files, or send requests inside its network.

    Args:
        messages: the messages, with checked parts.
        domains: the hosts of URLs that the server may fetch; the engine compares them. None or empty for none.
        folder: the folder of files that the server may read; None or empty for none.
    """
    for number, message in enumerate(messages):
        content = message.get("content")
        for at, part in enumerate(content if isinstance(content, list) else ()):
            if not str(part.get("type")).endswith("_url"):
                continue
            scheme = part[part["type"]]["url"].partition(":")[0].lower()
            where = f"messages[{number}].content[{at}]"
            if scheme in ("http", "https"):
                if not domains:
                    raise NotSupported(
                        f"{where} has a URL to fetch, but this server fetches none; send the data as a data: URL, or "
                        "serve the model with engine_kwargs={'allowed_media_domains': [...]}",
                        "messages",
                    )
            elif scheme == "file":
                if not folder:
                    raise NotSupported(
                        f"{where} has the URL of a file, but this server reads none; send the data as a data: URL, or "
                        "serve the model with engine_kwargs={'allowed_local_media_path': ...}",
                        "messages",
                    )
            elif scheme != "data":
                raise BadRequest(f"{where} must have a data:, https:, http: or file: URL", "messages")
