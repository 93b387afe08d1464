"""Functions sent by value keep the names of their files, which tracebacks need."""

from __future__ import annotations

import pickle
import subprocess
import sys
import traceback
from typing import Any

import pytest

from skate import cloudpickle
from skate.wire import function_pickler, values


def _local() -> Any:
    def outer() -> None:
        def inner() -> None:
            raise KeyError("the reason")

        inner()

    return outer


def _unpacked(packed: values.Packed) -> Any:
    return pickle.loads(packed.joined())


@pytest.mark.parametrize(
    "copied",
    [
        lambda function: pickle.loads(function_pickler.dumps(function)),
        lambda function: pickle.loads(cloudpickle.dumps(function)),
        lambda function: _unpacked(values.pack(function)),
    ],
    ids=["function_pickler", "skate.cloudpickle", "values"],
)
def test_copied_functions_name_the_file_of_each_line(copied: Any) -> None:
    function = copied(_local())
    with pytest.raises(KeyError) as caught:
        function()
    frames = traceback.extract_tb(caught.tb)[1:]
    assert [(frame.filename, frame.name) for frame in frames] == [(__file__, "outer"), (__file__, "inner")]
    assert frames[-1].line == 'raise KeyError("the reason")'


def test_equal_functions_have_equal_bytes_in_two_processes() -> None:
    program = (
        "import hashlib\n"
        "from skate.wire import function_pickler\n"
        "def f(x, y=2):\n    return [x + y for _ in range(3)]\n"
        "print(hashlib.sha256(function_pickler.dumps(f)).hexdigest())\n"
    )
    runs = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout for _ in "ab"
    }
    assert len(runs) == 1
