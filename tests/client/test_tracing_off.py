"""A session without a hook for tracing is as if there were none: same functions, same bytes."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import pytest

from skate.client import tracing
from skate.client.task import submission

Pack: Any = submission.pack_arguments


def test_recording_replaces_functions_and_stopping_brings_them_back() -> None:
    pack, create = submission.pack_arguments, submission.request_actor
    tracing.record()
    try:
        assert submission.pack_arguments is not pack and submission.request_actor is not create
    finally:
        tracing.stop()
    assert submission.pack_arguments is pack and submission.request_actor is create
    assert submission.pack_arguments(Pack, (1, "a"), {}, Pack) == (
        pickle.dumps(((1, "a"), {}), 5), [], [],
    )  # fmt: skip


def test_without_a_hook_nothing_of_it_is_loaded() -> None:
    program = """
import sys
import skate

@skate.remote
def loaded():
    return [name for name in sys.modules if "opentelemetry" in name or name.endswith(".tracing")]

skate.init(num_cpus=1, log_to_driver=False)
print(skate.get(loaded.remote()), [name for name in sys.modules if name.endswith("skate.client.tracing")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[] []\n", done.stdout + done.stderr


@pytest.mark.parametrize("text", ["", "module", "module:", ":function"])
def test_a_hook_without_a_module_or_a_function_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match='must be "module:function"'):
        tracing.start(text)
    assert tracing._plain_pack is submission.pack_arguments
