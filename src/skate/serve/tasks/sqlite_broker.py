"""A broker and a result backend of Celery that need no server: `sqlite:///FILE`."""

from __future__ import annotations

import json
from queue import Empty
from typing import Any

from celery.backends.base import KeyValueStoreBackend
from kombu import transport as kombu_transports
from kombu.transport import virtual
from kombu.utils.encoding import bytes_to_str

from skate.serve.tasks.queue_file import Binding, QueueFile

SCHEME = "sqlite"
#: Seconds between looks into the queues while they are empty.
_POLL_SECONDS = 0.05


def register(app: Any) -> None:
    """Let a Celery app have brokers and backends at `sqlite:///FILE`."""
    kombu_transports.TRANSPORT_ALIASES[SCHEME] = f"{__name__}:Transport"
    loader = app.loader
    loader.override_backends = {**loader.override_backends, SCHEME: f"{__name__}:Backend"}


def path_of(url: str) -> str:
    """Return the file of a URL: `sqlite:///FILE`, with four slashes for an absolute path. Raises ValueError for others."""
    start = f"{SCHEME}:///"
    path = url.removeprefix(start)
    if not url.startswith(start) or not path:
        raise ValueError(
            f"{url!r} names no file; write sqlite:///FILE, with four slashes for an absolute path"
        )
    return path


class QoS(virtual.QoS):  # type: ignore[misc]
    """Acknowledges in the file what the channel has delivered."""

    channel: Channel

    def ack(self, delivery_tag: str) -> None:
        """Remove a message."""
        self.channel.file.done(int(delivery_tag))
        super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Remove a message, or let others take it."""
        if requeue:
            self.channel.file.release(int(delivery_tag))
        else:
            self.channel.file.done(int(delivery_tag))
        self._quick_ack(delivery_tag)


class Channel(virtual.Channel):  # type: ignore[misc]
    """The queues of one file."""

    QoS = QoS
    supports_fanout = True

    def __init__(self, connection: Any, **options: Any) -> None:
        super().__init__(connection, **options)
        self.file: QueueFile = connection.file
        self._unacknowledged: set[str] = set()

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **options: Any) -> Any:
        """Consume from a queue; with `no_ack`, what is delivered is gone."""
        (self._unacknowledged.add if no_ack else self._unacknowledged.discard)(queue)
        return super().basic_consume(queue, no_ack, *args, **options)

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:
        found = self.file.take(queue, keep=queue not in self._unacknowledged)
        if found is None:
            raise Empty
        number, payload, again = found
        message: dict[str, Any] = json.loads(payload)
        message["properties"]["delivery_tag"] = str(number)
        if again:
            message["properties"]["delivery_info"]["redelivered"] = True
        return message

    def basic_get(self, queue: str, no_ack: bool = False, **options: Any) -> Any:
        """Return the next message of a queue, or None."""
        message = super().basic_get(queue, no_ack, **options)
        if message is not None and no_ack:
            self.file.done(int(message.delivery_tag))
        return message

    def _put(self, queue: str, message: dict[str, Any], **options: Any) -> None:
        self.file.put(queue, json.dumps(message))

    def _restore(self, message: Any) -> None:
        self.file.release(int(message.delivery_tag))

    def _size(self, queue: str) -> int:
        return self.file.size(queue)

    def _purge(self, queue: str) -> int:
        return self.file.purge(queue)

    def _new_queue(self, queue: str, auto_delete: bool = False, **options: Any) -> None:
        if auto_delete:
            self.file.add_private(queue)

    def _delete(self, queue: str, *args: Any, **options: Any) -> None:
        self.file.remove(queue)

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        self.file.bind(exchange, routing_key or "", pattern or "", queue)

    def get_table(self, exchange: str) -> list[Binding]:
        """Return the bindings of an exchange, of all processes."""
        return self.file.bindings(exchange)

    def _put_fanout(
        self, exchange: str, message: dict[str, Any], routing_key: str | None, **options: Any
    ) -> None:
        for _, _, queue in self.get_table(exchange):
            self._put(queue, message)


class Transport(virtual.Transport):  # type: ignore[misc]
    """Connects channels with a file."""

    Channel = Channel
    can_parse_url = True
    default_port = 0
    driver_type = SCHEME
    driver_name = "sqlite3"
    polling_interval = _POLL_SECONDS
    implements = virtual.Transport.implements.extend(
        asynchronous=False, exchange_type=frozenset(("direct", "topic", "fanout"))
    )

    def __init__(self, client: Any, **options: Any) -> None:
        super().__init__(client, **options)
        self.file = QueueFile(path_of(client.hostname))

    def close_connection(self, connection: Any) -> None:
        """Close the file; messages that were delivered and not acknowledged are released."""
        super().close_connection(connection)
        self.file.close()


class Backend(KeyValueStoreBackend):  # type: ignore[misc]
    """Keeps results in a file until they expire."""

    def __init__(self, url: str, *args: Any, **options: Any) -> None:
        super().__init__(*args, url=url, **options)
        self._file = QueueFile(path_of(url))

    def get(self, key: Any) -> str | None:
        """Return a value, or None."""
        return self._file.result(bytes_to_str(key))

    def mget(self, keys: Any) -> list[str | None]:
        """Return the values of several keys."""
        return [self.get(key) for key in keys]

    def set(self, key: Any, value: Any) -> None:
        """Store a value."""
        self._file.store_result(bytes_to_str(key), bytes_to_str(value), self.expires)

    def delete(self, key: Any) -> None:
        """Remove a value."""
        self._file.remove_result(bytes_to_str(key))
