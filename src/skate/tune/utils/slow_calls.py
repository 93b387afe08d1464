"""Blocks of code that take longer than they should, and functions that are tried again."""

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
    """Say so, in the log, if what stands in the block takes long.

    Args:
        name: what it is.
        threshold: how many seconds are long; 0.5 by default, or TUNE_WARN_THRESHOLD_S in the environment.
        message: what to say, with {name} and {duration}.
        disable: whether to say nothing.
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
    """Call a function until it does not raise, with pauses.

    Args:
        fn: the function.
        exception_type: exceptions after which it is called again.
        num_retries: how often it is called at most.
        sleep_time: seconds between two calls.
        timeout: seconds that one call may take; one that takes longer is left behind.

    Returns:
        Whether it has come to its end.
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
