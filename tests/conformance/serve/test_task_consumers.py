"""Task consumers: their settings, the adapter's part of the contract, and a consumer on Celery with a broker of files."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from ray import serve
from ray.serve.schema import CeleryAdapterConfig, TaskProcessorAdapter, TaskProcessorConfig, TaskResult
from ray.serve.task_consumer import instantiate_adapter_from_config, task_consumer, task_handler
from waiting import Gate, wait_for

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}
URLS: dict[str, Any] = {"broker_url": "memory://", "backend_url": "cache+memory://"}


def test_settings() -> None:
    config = TaskProcessorConfig(queue_name="q", adapter_config={"any": 1})
    assert config.model_dump() == {
        "queue_name": "q",
        "adapter": "ray.serve.task_processor.CeleryTaskProcessorAdapter",
        "adapter_config": {"any": 1},
        "max_retries": 3,
        "failed_task_queue_name": None,
        "unprocessable_task_queue_name": None,
    }
    assert TaskProcessorConfig(queue_name="q", adapter_config=1, max_retries=None).max_retries is None
    celery = CeleryAdapterConfig(**URLS)
    assert (celery.app_custom_config, celery.task_custom_config) == (None, None)
    assert celery.broker_transport_options is None
    result = TaskResult(id="1", status="PENDING", result=None)
    assert result.created_at is None


@pytest.mark.parametrize(
    ("record", "options", "message"),
    [
        (TaskProcessorConfig, {"adapter_config": 1}, "Field required"),
        (TaskProcessorConfig, {"queue_name": "q"}, "Field required"),
        (TaskProcessorConfig, {"queue_name": 5, "adapter_config": 1}, "Input should be a valid string"),
        (TaskProcessorConfig, {"queue_name": "q", "adapter_config": 1, "adapter": 5}, "callable"),
        (TaskProcessorConfig, {"queue_name": "q", "adapter_config": 1, "max_retries": "x"}, "valid integer"),
        (CeleryAdapterConfig, {"broker_url": "memory://"}, "Field required"),
        (TaskResult, {"id": "1", "status": "PENDING"}, "Field required"),
        (TaskResult, {"id": 1, "status": "PENDING", "result": 1}, "Input should be a valid string"),
    ],
    ids=str,
)
def test_invalid_settings(record: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        record(**options)


def test_handlers_are_marked_methods() -> None:
    class Plain:
        """The doc."""

        @task_handler
        def one(self) -> int:
            """A handler."""
            return 1

        @task_handler(name="zwei")
        async def two(self) -> int:
            return 2

    assert Plain().one() == 1 and Plain.one.__doc__ == "A handler."
    assert inspect.iscoroutinefunction(Plain.two) and not inspect.iscoroutinefunction(Plain.one)
    config = TaskProcessorConfig(queue_name="q", adapter_config=1)
    consumer = task_consumer(task_processor_config=config)(Plain)
    assert issubclass(consumer, Plain) and consumer.__name__ == "Plain" and consumer.__doc__ == "The doc."


@pytest.mark.parametrize("name", ["", "  ", 5])
def test_invalid_names_of_handlers(name: Any) -> None:
    with pytest.raises(ValueError, match="Task name must be a non-empty string"):
        task_handler(name=name)


class Recorder(TaskProcessorAdapter):
    """Writes down what Serve asks of an adapter, and runs a task at once."""

    def __init__(self, config: TaskProcessorConfig) -> None:
        super().__init__(config)
        self.log = Path(config.adapter_config)
        self.handlers: dict[str | None, Callable[..., Any]] = {}

    def write(self, *what: Any) -> None:
        with self.log.open("a") as file:
            file.write(json.dumps(what) + "\n")

    def initialize(self, consumer_concurrency: int = 5) -> None:
        self.write("initialize", consumer_concurrency)

    def register_task_handle(self, func: Callable[..., Any], name: str | None = None) -> None:
        self.write("register", name)
        self.handlers[name] = func

    def start_consumer(self, **kwargs: Any) -> None:
        self.write("start", self.handlers["add"](1, b=2))

    def stop_consumer(self, timeout: float = 10.0) -> None:
        self.write("stop")

    def enqueue_task_sync(self, task_name: str, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        return TaskResult(id=task_name, status="PENDING", result=None)

    def get_task_status_sync(self, task_id: str) -> Any: ...

    def cancel_task_sync(self, task_id: str) -> None: ...

    def get_metrics_sync(self) -> Any: ...

    def health_check_sync(self) -> Any: ...


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_consumer_with_an_adapter_of_ones_own(deploy: Callable[..., Any], tmp_path: Path) -> None:
    log = tmp_path / "log"
    config = TaskProcessorConfig(queue_name="q", adapter=Recorder, adapter_config=str(log))

    @serve.deployment(max_ongoing_requests=7, **LIGHT)
    @task_consumer(task_processor_config=config)
    class Consumer:
        def __init__(self, start: int) -> None:
            self.start = start

        @task_handler
        def add(self, a: int, b: int) -> int:
            return self.start + a + b

        @task_handler(name="other")
        def named(self) -> None: ...

        def plain(self) -> str:
            return "answered"

    handle = deploy(Consumer.bind(100), name="recorded", route_prefix=None)
    assert handle.plain.remote().result() == "answered"
    assert lines(log) == [["initialize", 7], ["register", "add"], ["register", "other"], ["start", 103]]
    serve.delete("recorded")
    wait_for(lambda: ["stop"] in lines(log), what="the end of the consumer")


class NoAdapter:
    def __init__(self, config: Any) -> None:
        pass


class Fails(Recorder):
    def initialize(self, consumer_concurrency: int = 5) -> None:
        raise OSError("no broker")


@pytest.mark.parametrize(
    ("adapter", "error", "message"),
    [
        (NoAdapter, TypeError, "must inherit from TaskProcessorAdapter"),
        (Fails, RuntimeError, "Failed to initialize Fails: no broker"),
        (len, RuntimeError, "Failed to instantiate len"),
        ("no_such_module.Adapter", ModuleNotFoundError, "no_such_module"),
    ],
    ids=str,
)
def test_adapters_that_cannot_be_used(adapter: Any, error: Any, message: str, tmp_path: Path) -> None:
    config = TaskProcessorConfig(queue_name="q", adapter=adapter, adapter_config=str(tmp_path / "log"))
    with pytest.raises(error, match=message):
        instantiate_adapter_from_config(config)


def test_an_adapter_is_ready_to_send(tmp_path: Path) -> None:
    log = tmp_path / "log"
    config = TaskProcessorConfig(queue_name="q", adapter=Recorder, adapter_config=str(log))
    adapter = instantiate_adapter_from_config(config)
    assert lines(log) == [["initialize", 5]]
    assert adapter.enqueue_task_sync("t").id == "t"


@pytest.mark.parametrize("name", ["enqueue_task", "get_task_status", "cancel_task"])
def test_async_methods_are_optional(name: str, tmp_path: Path) -> None:
    config = TaskProcessorConfig(queue_name="q", adapter=Recorder, adapter_config=str(tmp_path / "log"))
    call = getattr(instantiate_adapter_from_config(config), f"{name}_async")("x")
    with pytest.raises(NotImplementedError, match=f"{name}_async"):
        call.send(None)


# -- Celery

CELERY = pytest.mark.skipif(
    not __import__("importlib.util").util.find_spec("celery"), reason="Celery is not installed"
)


@CELERY
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("x", "must be an instance of CeleryAdapterConfig"),
        (CeleryAdapterConfig(**URLS, app_custom_config={"task_acks_late": 0}), "cannot be changed"),
    ],
    ids=["config", "reserved"],
)
def test_settings_that_celery_refuses(given: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        instantiate_adapter_from_config(TaskProcessorConfig(queue_name="q", adapter_config=given))


@CELERY
def test_async_handlers_are_refused_by_celery() -> None:
    config = TaskProcessorConfig(queue_name="q", adapter_config=CeleryAdapterConfig(**URLS))

    async def handler() -> None: ...

    with pytest.raises(NotImplementedError, match="Async task handlers are not supported"):
        instantiate_adapter_from_config(config).register_task_handle(handler, "t")


def of_files(folder: Path) -> TaskProcessorConfig:
    """A queue whose messages are files in `folder / "in"`."""
    for name in ("in", "results"):
        (folder / name).mkdir()
    options = {
        "data_folder_in": str(folder / "in"),
        "data_folder_out": str(folder / "in"),
        "control_folder": str(folder / "control"),
        "polling_interval": 0.05,
    }
    return TaskProcessorConfig(
        queue_name="work",
        max_retries=1,
        failed_task_queue_name="failed",
        unprocessable_task_queue_name="unknown",
        adapter_config=CeleryAdapterConfig(
            broker_url="filesystem://",
            backend_url=f"file://{folder / 'results'}",
            broker_transport_options=options,
        ),
    )


@CELERY
def test_tasks_on_celery(deploy: Callable[..., Any], tmp_path: Path) -> None:
    config = of_files(tmp_path)
    first, second, attempts = Gate(tmp_path / "first"), Gate(tmp_path / "second"), tmp_path / "attempts"

    @serve.deployment(max_ongoing_requests=2, **LIGHT)
    @task_consumer(task_processor_config=config)
    class Consumer:
        @task_handler(name="add")
        def sums(self, a: int, b: int) -> int:
            return a + b

        @task_handler
        def meets(self, own: str, other: str) -> str:
            Gate(own).open()
            Gate(other).wait()
            return serve.get_replica_context().deployment

        @task_handler
        def fails(self) -> None:
            with attempts.open("a") as file:
                file.write(f"{time.time()}\n")
            raise ValueError("no")

    deploy(Consumer.bind(), name="celery", route_prefix=None)
    adapter = instantiate_adapter_from_config(config)
    sent = adapter.enqueue_task_sync("add", args=[1], kwargs={"b": 2})
    assert sent.status == "PENDING" and abs(sent.created_at - time.time()) < 60
    pair = [str(first.path), str(second.path)]
    meeting = [
        adapter.enqueue_task_sync("meets", pair),
        adapter.enqueue_task_sync("meets", pair[::-1]),
    ]
    failing, unknown = adapter.enqueue_task_sync("fails"), adapter.enqueue_task_sync("nothing")

    def state(task: Any) -> Any:
        return _read(lambda: adapter.get_task_status_sync(task.id))

    wait_for(lambda: all(state(each).status == "SUCCESS" for each in [sent, *meeting]), 40, "the results")
    assert state(sent).result == 3 and state(sent).id == sent.id
    assert [state(each).result for each in meeting] == ["Consumer"] * 2
    wait_for(lambda: state(failing).status == "FAILURE", 40, "the failure")
    assert isinstance(state(failing).result, ValueError)
    before, after = map(float, attempts.read_text().split())
    assert after - before > 0.9, "a retry waits for a second"
    assert state(unknown).status == "FAILURE"

    def kept(queue: str) -> int:
        return len(list((tmp_path / "in").glob(f"*.{queue}.msg")))

    wait_for(lambda: (kept("failed"), kept("unknown")) == (1, 1), 40, "the dead letters")


def _read(call: Callable[[], Any]) -> Any:
    """Read a state again if its file was just being written."""
    while True:
        try:
            return call()
        except (ValueError, EOFError):  # half of a file
            continue
