"""The spare worker: forked where workers come and go, used once, replaced if it dies, and ended when nobody needs it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.process.programs import Program

SETUP = """
    import os, signal
    from waiting import wait_for

    ray.init(START)

    @ray.remote(runtime_env={"env_vars": {"ITS_OWN": "7"}})
    class Actor:
        def look(self):
            ray.put("something")
            return os.getpid(), os.environ.get("ITS_OWN"), ray.get_runtime_context().get_worker_id()

    def children(pid):
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                try: fields = open(f"/proc/{name}/stat").read().rpartition(")")[2].split()
                except OSError: continue
                if int(fields[1]) == pid and fields[0] not in "ZX": found.append(int(name))
        return found

    def workers():
        return {child for zygote in children(os.getpid()) for child in children(zygote)}

    seen = []
    def one_after_another(times):
        for _ in range(times):
            actor = Actor.remote()
            pid, variable, worker = ray.get(actor.look.remote())
            assert variable == "7"
            seen.append((pid, worker))
            ray.kill(actor)
            wait_for(lambda: pid not in workers(), what="the end of the actor's process")
"""


def test_each_actor_of_many_has_a_process_and_ids_of_its_own(run: Callable[..., Program]) -> None:
    run(
        SETUP
        + """
    one_after_another(6)
    assert len({pid for pid, _ in seen}) == len({worker for _, worker in seen}) == 6, seen
    spare, = wait_for(workers, what="a spare worker")
    one_after_another(1)
    assert seen[-1][0] == spare, (seen[-1], spare)  # it was taken, not left beside a new one
    wait_for(lambda: not workers(), what="the end of a spare that nobody needs")
    """
    )


@pytest.mark.parametrize("how", ["SIGKILL", "SIGSTOP"])
def test_a_spare_that_dies_or_stops_is_not_missed(how: str, run: Callable[..., Program]) -> None:
    run(
        SETUP
        + f"""
    one_after_another(3)
    spare, = wait_for(workers, what="a spare worker")
    os.kill(spare, signal.{how})
    if "{how}" == "SIGSTOP":
        one = Actor.remote().look.remote()
        os.kill(spare, signal.SIGCONT)
        assert ray.get(one)[0] == spare
    else:
        wait_for(lambda: spare not in workers(), what="the end of the spare")
        one_after_another(2)
        assert spare not in [pid for pid, _ in seen]
    """
    )


def test_workers_that_stay_have_no_spare(run: Callable[..., Program]) -> None:
    run(
        SETUP
        + """
    actors = [Actor.remote() for _ in range(3)]
    pids = {pid for pid, _, _ in ray.get([actor.look.remote() for actor in actors])}
    assert workers() == pids
    """
    )
