"""Images of one color, and parts of messages that have them."""

from __future__ import annotations

import base64
import io
from typing import Any

from PIL import Image


def image(color: str, size: tuple[int, int] = (48, 40)) -> Image.Image:
    return Image.new("RGB", size, color)


def part(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def data(color: str) -> dict[str, Any]:
    """An image as a part of a message."""
    with io.BytesIO() as file:
        image(color).save(file, "PNG")
        return part(f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}")
