"""Warnings for slow blocks of code, and retries of functions."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

START_OF_TIME = time.time()
_log = logging.getLogger("skate.tune")


class warn_if_slow:  # noqa: N801  # its name in Ray, where it stands behind `with`
    """Log a warning if the block takes long.

    Args:
        name: the name of the block.
        threshold: the limit in seconds; by default TUNE_WARN_THRESHOLD_S in the environment, or 0.5.
        message: the message, with {name} and {duration}.
        disable: True for no warning.
    """

    DEFAULT_THRESHOLD = float(os.environ.get("TUNE_WARN_THRESHOLD_S", "0.5"))
    DEFAULT_MESSAGE = "{name} took {duration:.3f} s, which may slow the search down"

    def __init__(
        self, name: str, threshold: float | None = None, message: str | None = None, disable: bool = False
    ) -> None:
        self.name = name
        self.threshold = self.DEFAULT_THRESHOLD if threshold is None else threshold
        self.message = message or self.DEFAULT_MESSAGE
        self.too_slow = False
        self.disable = disable

    def __enter__(self) -> warn_if_slow:
        self.start = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        took = time.monotonic() - self.start
        if took > self.threshold and not self.disable:
            self.too_slow = True
            _log.warning(self.message.format(name=self.name, duration=took))


def retry_fn(
    fn: Callable[[], Any],
    exception_type: type[Exception] | Sequence[type[Exception]] = Exception,
    num_retries: int = 3,
    sleep_time: float = 1,
    timeout: float | None = None,
) -> bool:
    """Call a function until it succeeds, with pauses.

    Args:
        fn: the function.
        exception_type: exceptions after which it is retried.
        num_retries: the most calls.
        sleep_time: seconds between two calls.
        timeout: the time limit of one call in seconds; a call that takes longer is abandoned.

    Returns:
        True if a call has succeeded.
    """
    kinds = exception_type if isinstance(exception_type, type) else tuple(exception_type)
    for _ in range(num_retries):
        ended = threading.Event()

        def call(ended: threading.Event = ended) -> None:
            try:
                fn()
            except kinds as error:
                _log.warning(error)
            else:
                ended.set()

        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        thread.join(timeout)
        if ended.is_set():
            return True
        time.sleep(sleep_time)
    return False
