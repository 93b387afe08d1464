"""Queues in a file: order, claims, and messages whose taker was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from skate.serve.tasks.queue_file import QueueFile
from tests.conformance.waiting import wait_for


@pytest.fixture
def file(tmp_path: Path) -> QueueFile:
    return QueueFile(str(tmp_path / "queues.db"))


def test_messages_are_taken_in_order_and_once(file: QueueFile) -> None:
    for text in "abc":
        file.put("q", text)
    file.put("other", "x")
    assert (file.size("q"), file.size("other"), file.size("none")) == (3, 1, 0)
    first, second = file.take("q"), file.take("q")
    assert first is not None and second is not None
    assert (first[1:], second[1:]) == (("a", False), ("b", False))
    file.release(first[0])
    assert file.take("q") == (first[0], "a", True), "a released message comes first, and says so"
    file.done(second[0])
    file.release(second[0])
    assert file.take("q", keep=False) is not None
    assert file.take("q") is None
    file.release(first[0])
    assert file.purge("q") == 1 and file.size("q") == 0
    file.close()


def test_bindings_and_results(file: QueueFile) -> None:
    file.bind("x", "key", "", "q")
    file.bind("x", "key", "", "q")
    assert file.bindings("x") == [("key", "", "q")]
    file.remove("q")
    assert file.bindings("x") == []
    file.store_result("a", "1", keep_s=None)
    file.store_result("b", "2", keep_s=3600)
    assert (file.result("a"), file.result("b"), file.result("c")) == ("1", "2", None)
    file.store_result("d", "3", keep_s=-1)
    assert file.result("a") is None, "results older than that are removed"
    file.remove_result("b")
    assert file.result("b") is None
    file.close()


TAKER = """
import os, sys
from skate.serve.tasks.queue_file import QueueFile

file = QueueFile(sys.argv[1])
file.add_private("own")
file.put("own", "reply")
found = file.take("q")
if os.fork() == 0:
    sys.stdin.read()  # a child lives on; the claim is its parent's
    os._exit(0)
print(found, flush=True)
sys.stdin.read()
"""


def test_a_message_of_a_killed_process_is_free(file: QueueFile) -> None:
    file.put("q", "a")
    taker = subprocess.Popen(
        [sys.executable, "-c", TAKER, file.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert taker.stdin is not None and taker.stdout is not None
    with taker, taker.stdin, taker.stdout:
        assert "'a'" in taker.stdout.readline()
        file._looked = 0.0
        assert file.take("q") is None, "its taker lives"
        taker.send_signal(signal.SIGSTOP)
        file._looked = 0.0
        assert file.take("q") is None, "its taker has stopped, and may continue"
        taker.kill()
        found = wait_for(lambda: file.take("q"), what="the message of a killed process")
        assert found[1:] == ("a", True)
        assert file.size("own") == 0, "a private queue ends with its process"
    assert len(os.listdir(f"{file.path}.claims")) == 1, "the file of the dead claim is removed"
    file.close()


DRAIN = """
import sys
from skate.serve.tasks.queue_file import QueueFile

file = QueueFile(sys.argv[1])
while (found := file.take("q")) is not None:
    print(found[1])
    file.done(found[0])
"""


def test_processes_share_a_queue(file: QueueFile) -> None:
    for number in range(60):
        file.put("q", str(number))
    takers = [
        subprocess.Popen([sys.executable, "-c", DRAIN, file.path], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    taken = Counter(line for each in takers for line in each.communicate()[0].split())
    assert taken == Counter(map(str, range(60)))
    file.close()
