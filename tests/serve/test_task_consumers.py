"""Task consumers on brokers that outlive a consumer: a file, and a real Redis where it is installed."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("celery", reason="pip install 'skate[serve-async-inference]'")
from kombu import pools

import skate
from skate import serve
from skate.serve.schema import CeleryAdapterConfig, TaskProcessorConfig
from skate.serve.task_consumer import instantiate_adapter_from_config, task_consumer, task_handler
from skate.serve.tasks.autoscaling import AsyncInferenceAutoscalingPolicy
from tests.conformance.waiting import Tally, wait_for
from tests.serve.standing import free_port

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    skate.init(num_cpus=4, log_to_driver=False, preload=["skate.serve.replica.preload"])
    serve.start(http_options={"port": free_port()})
    yield
    serve.shutdown()
    skate.shutdown()


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no redis-server is installed")
    port = free_port()
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        wait_for(lambda: _listens(port), what="Redis")
        yield f"redis://127.0.0.1:{port}/0"
        gc.collect()  # kombu's connections are in circles
        server.terminate()


def _listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.long)])
def config(request: pytest.FixtureRequest, session: None, tmp_path: Path) -> TaskProcessorConfig:
    options = None
    if request.param == "redis":
        url = request.getfixturevalue("redis_url")
        # Redis does not notice the end of a consumer, so its tasks, and its lock, wait until they time out.
        options = {
            "visibility_timeout": 2,
            "unacked_restore_interval": 1,
            "unacked_restore_throttle": 1,
            "unacked_mutex_expire": 2,
        }
    else:
        url = f"sqlite:///{tmp_path}/tasks.db"
    return TaskProcessorConfig(
        queue_name=request.node.name,
        max_retries=1,
        adapter_config=CeleryAdapterConfig(broker_url=url, backend_url=url, broker_transport_options=options),
    )


@pytest.fixture
def adapter(config: TaskProcessorConfig) -> Iterator[Any]:
    made: Any = instantiate_adapter_from_config(config)
    yield made
    client = getattr(made._app.backend, "client", None)
    if client is not None:  # Redis
        made._app.backend.result_consumer.stop()
        client.connection_pool.disconnect()
    made._app.close()
    pools.reset()


@pytest.fixture
def run() -> Iterator[Callable[..., None]]:
    names: list[str] = []

    def start(consumer: Any, name: str) -> None:
        names.append(name)
        serve.run(consumer.bind(), name=name, route_prefix=None)

    yield start
    for name in names:
        serve.delete(name)


def state(adapter: Any, *ids: str) -> set[str]:
    return {adapter.get_task_status_sync(each).status for each in ids}


def test_a_killed_consumer_loses_no_task(
    config: TaskProcessorConfig, adapter: Any, run: Callable[..., None], tmp_path: Path
) -> None:
    # Celery takes a message out of Redis before it notes down that it has it, and a kill in between loses the message.
    settled = 12 if config.adapter_config.broker_url.startswith("redis") else 0
    begun, done = Tally(tmp_path / "begun"), Tally(tmp_path / "done")

    @serve.deployment(max_ongoing_requests=2, **LIGHT)
    @task_consumer(task_processor_config=config)
    class Fragile:
        @task_handler
        def dies_once(self) -> str:
            if begun.add() == 1:
                wait_for(lambda: done.count() >= settled, 60, "the other tasks")
                os.kill(os.getpid(), signal.SIGKILL)
            return "survived"

        @task_handler(name="count")
        def other(self, number: int) -> int:
            done.add()
            return number

    fatal = adapter.enqueue_task_sync("dies_once").id
    others = [adapter.enqueue_task_sync("count", [number]).id for number in range(12)]
    run(Fragile, "fragile")
    wait_for(lambda: state(adapter, fatal, *others) == {"SUCCESS"}, 60, "every task to succeed")
    assert begun.count() == 2
    assert adapter.get_task_status_sync(fatal).result == "survived"
    assert [adapter.get_task_status_sync(each).result for each in others] == list(range(12))
    assert done.count() >= 12


def test_cancel_and_graceful_shutdown(
    config: TaskProcessorConfig, adapter: Any, run: Callable[..., None], tmp_path: Path
) -> None:
    started, others = Tally(tmp_path / "started"), Tally(tmp_path / "others")

    @serve.deployment(max_ongoing_requests=1, **LIGHT)
    @task_consumer(task_processor_config=config)
    class Slow:
        @task_handler
        def waits(self) -> str:
            started.add()
            worker = self._adapter._worker  # type: ignore[attr-defined]
            wait_for(lambda: worker._stopping, 60, "the end of the replica")
            return "finished"

        @task_handler
        def other(self) -> None:
            others.add()

    run(Slow, "slow")
    waiting = adapter.enqueue_task_sync("waits").id
    cancelled, left = adapter.enqueue_task_sync("other").id, adapter.enqueue_task_sync("other").id
    wait_for(lambda: started.count() == 1, what="the first task")
    adapter.cancel_task_sync(cancelled)
    # Commands to workers are in order: one that answers has taken the cancellation.
    wait_for(adapter.health_check_sync, what="an answer of the worker")
    assert list(adapter.get_metrics_sync())[0].startswith(f"celery@{config.queue_name}_")
    serve.delete("slow")
    assert state(adapter, waiting) == {"SUCCESS"}, "a task that runs may end"
    assert state(adapter, left) == {"PENDING"} and others.count() == 0
    run(Slow, "again")
    wait_for(lambda: state(adapter, left) == {"SUCCESS"}, what="the task that was returned to the queue")


def test_a_consumer_that_has_ended_is_unhealthy() -> None:
    from skate.serve.tasks.celery_worker import CeleryWorker

    class App:
        def finalize(self) -> None:
            raise OSError("the broker is gone")

    worker = CeleryWorker(App(), "celery@here", "q", 1)
    worker.start()
    wait_for(lambda: not worker.alive, what="the end of the worker")
    with pytest.raises(RuntimeError, match="the broker is gone"):
        worker.check()
    assert worker.stop(1)
    worker.check()


def test_the_autoscaling_policy_counts_waiting_tasks(tmp_path: Path) -> None:
    from skate.serve.config.autoscaling import AutoscalingConfig, AutoscalingContext
    from skate.serve.tasks.queue_file import QueueFile

    file = QueueFile(str(tmp_path / "tasks.db"))
    for _ in range(6):
        file.put("work", "{}")
    policy = AsyncInferenceAutoscalingPolicy(f"sqlite:///{file.path}", "work", poll_interval_s=0)

    def context(running: int) -> AutoscalingContext:
        settings = AutoscalingConfig(max_replicas=9, target_ongoing_requests=2)
        nothing: Any = dict.fromkeys(AutoscalingContext.__dataclass_fields__)
        given = {"current_num_replicas": running, "total_num_requests": 2.0, "config": settings}
        return AutoscalingContext(**{**nothing, **given})

    async def scale() -> tuple[Any, Any]:
        assert policy(context(1)) == (1.0, {"queue_length": 0})
        while policy._polling is not None and not policy._polling.done():
            await asyncio.sleep(0)  # lets the thread's result arrive
        return policy(context(1)), policy(context(0))

    assert asyncio.run(scale()) == ((4.0, {"queue_length": 6}), (1, {"queue_length": 6}))
    file.close()


def test_the_error_for_missing_celery_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "celery", None)
    url = f"sqlite:///{tmp_path}/tasks.db"
    settings = CeleryAdapterConfig(broker_url=url, backend_url=url)
    with pytest.raises(RuntimeError, match=r"pip install 'skate\[serve-async-inference\]'"):
        instantiate_adapter_from_config(TaskProcessorConfig(queue_name="q", adapter_config=settings))
