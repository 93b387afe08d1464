"""The log of a real session, replayed without its processes: the same decisions, the same state."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

import skate as ray
from skate.client.session import session
from skate.core.replay import replay
from skate.node.event_log_file import entries, main
from tests.core.test_replay import state_of

MIB = 1 << 20


def test_the_log_of_a_session_replays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SKATE_EVENT_LOG", str(tmp_path / "logs"))

    @ray.remote
    def add(x: int) -> int:
        return x + 1

    @ray.remote(max_retries=1)
    def crash_once(mark: str) -> str:
        if not os.path.exists(mark):
            Path(mark).touch()
            os._exit(3)
        return "again"

    @ray.remote
    class Counter:
        def __init__(self) -> None:
            self.count = 0

        def increment(self) -> int:
            self.count += 1
            return self.count

        def pid(self) -> int:
            return os.getpid()

    ray.init(num_cpus=2, num_gpus=0, object_store_memory=128 * MIB)
    try:
        assert ray.get([add.remote(n) for n in range(20)]) == list(range(1, 21))
        counter = Counter.remote()
        assert ray.get([counter.increment.remote() for _ in range(3)]) == [1, 2, 3]
        values = [ray.put(np.full(30 * MIB, n, np.uint8)) for n in range(6)]
        assert [int(ray.get(each)[-1]) for each in values] == [0, 1, 2, 3, 4, 5], "two of them were on disk"
        assert ray.get(crash_once.remote(str(tmp_path / "mark"))) == "again"
        os.kill(ray.get(counter.pid.remote()), signal.SIGKILL)
        with pytest.raises(ray.exceptions.ActorDiedError):
            ray.get(counter.increment.remote())
        core = session.host().core
    finally:
        ray.shutdown()
    (path,) = (tmp_path / "logs").iterdir()
    log = list(entries(str(path)))
    again = replay(log)
    assert state_of(again) == state_of(core)
    again.check()
    assert [row["alive"] for row in again.inventory.rows("workers")].count(False) >= 2
    assert len(again.history.finished) >= 20 and len(log) > 100
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(path.read_bytes()[:-3])  # like the log of a node that died while writing
    main(str(path))
    assert "<NodeCore" in capsys.readouterr().out
