"""The end of a session whose libraries fail to end their work."""

from __future__ import annotations

import pytest

import skate as ray
from skate.client.session import session


def test_a_library_that_fails_to_end_its_work_leaves_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError("the graph's file is gone")

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="the graph's file is gone"):
        patch.setattr(session, "endings", [fail])
        ray.shutdown()
    assert not ray.is_initialized()
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    assert ray.get(ray.put(1)) == 1
    ray.shutdown()
