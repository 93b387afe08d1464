"""Limits of descriptors and of the size of files: the error names the limit, and the session continues."""

from __future__ import annotations

from pathlib import Path

from tests.attack.limits import run_under


def test_a_file_limit_below_the_store(tmp_path: Path) -> None:
    run_under(
        tmp_path,
        """
        import errno
        try:
            ray.init(num_cpus=2, num_gpus=0, object_store_memory=400 << 20)
            raise AssertionError("it had room")
        except OSError as error:
            assert error.errno == errno.EFBIG, error
            assert "(ulimit -f)" in str(error) and "smaller object_store_memory" in str(error), error
        ray.init(num_cpus=2, num_gpus=0, object_store_memory=100 << 20)
        @ray.remote
        def one(): return 1
        assert ray.get(one.remote(), timeout=60) == 1
        """,
        shell="ulimit -f 300000",  # KiB
    )


def test_more_actors_than_descriptors(tmp_path: Path) -> None:
    run_under(
        tmp_path,
        """
        from waiting import wait_for
        ray.init(num_cpus=2, num_gpus=0, object_store_memory=100 << 20, log_to_driver=False)
        @ray.remote(num_cpus=0)
        class Small:
            def one(self): return 1
        first = Small.remote()
        assert ray.get(first.one.remote(), timeout=60) == 1
        actors = [Small.remote() for _ in range(40)]
        refused = 0
        for actor in actors:
            try:
                assert ray.get(actor.one.remote(), timeout=60) == 1
            except ray.exceptions.RaySystemError as error:
                assert "(ulimit -n)" in str(error) and "whose limit is 64" in str(error), error
                refused += 1
        assert 0 < refused < 40, refused
        assert ray.get(first.one.remote(), timeout=60) == 1
        refs = [ray.put(bytes(1 << 20)) for _ in range(150)]
        assert all(len(ray.get(ref)) == 1 << 20 for ref in refs)
        del actors, actor
        def again():
            try: return ray.get(Small.remote().one.remote(), timeout=60) == 1
            except ray.exceptions.RaySystemError: return False
        wait_for(again, 20, "descriptors of the actors that are gone")
        """,
        shell="ulimit -n 64",
    )
