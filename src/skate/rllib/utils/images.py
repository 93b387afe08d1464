"""Images: their size and colours, with OpenCV."""

from __future__ import annotations

from typing import Any

import numpy as np


def _opencv() -> Any:
    try:
        import cv2  # optional
    except ImportError:
        raise ModuleNotFoundError(
            "images are resized with OpenCV, which is not installed; pip install opencv-python-headless"
        ) from None
    return cv2


def resize(img: Any, height: int, width: int) -> Any:
    """Return an image of another size, each pixel the mean of those that it covers.

    Args:
        img: Array of shape (height, width, channels).
        height: New height in pixels.
        width: New width in pixels.

    Raises:
        ModuleNotFoundError: OpenCV is not installed.
    """
    cv2 = _opencv()
    return cv2.resize(img, (width, height), interpolation=cv2.INTER_AREA)


def rgb2gray(img: Any) -> Any:
    """Return a colour image in gray, of shape (height, width).

    Args:
        img: Array of shape (height, width, 3).

    Raises:
        ModuleNotFoundError: OpenCV is not installed.
    """
    cv2 = _opencv()
    return cv2.cvtColor(img, cv2.COLOR_RGB2GRAY)


def imread(img_file: str) -> Any:
    """Return the image of a file as an array of float32.

    Args:
        img_file: Path of the file.

    Raises:
        ModuleNotFoundError: OpenCV is not installed.
    """
    return _opencv().imread(img_file).astype(np.float32)
