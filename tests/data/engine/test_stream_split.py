"""Readers of `streaming_split`. Which of two readers of one part Ray refuses depends on who comes first."""

from __future__ import annotations

import threading

import pytest

import skate as ray
from skate import data


@pytest.fixture(autouse=True)
def session():
    ray.init(num_cpus=2, log_to_driver=False)
    yield
    ray.shutdown()


def test_two_readers_of_one_part_are_refused() -> None:
    iterators = data.range(20, override_num_blocks=20).streaming_split(2)
    errors: list[str] = []

    def read(number: int) -> None:
        try:
            for _ in range(2):
                for _ in iterators[number].iter_batches(batch_size=1):
                    pass
        except ValueError as error:
            errors.append(str(error))
        except Exception:  # the session ends while the other one still reads
            return

    threads = [threading.Thread(target=read, args=(number,), daemon=True) for number in (0, 1, 1)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(20)
        if errors:
            break
    assert errors
    assert "Invalid iterator" in errors[0]
    # A reader between two calls starts a session of its own, as on Ray; the fixture ends it once all readers have.
    ray.shutdown()
    for each in threads:
        each.join(20)
        assert not each.is_alive()
