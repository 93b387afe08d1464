"""Kafka, through confluent-kafka: messages between two offsets of topics, and rows as messages."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa

from skate.data.block import from_rows, rows_of
from skate.data.source.datasink import Datasink, TaskContext
from skate.data.source.datasource import BlockMetadata, Datasource, ReadTask
from skate.installed import require

_PACKAGE = "confluent-kafka"
_MESSAGES_AT_ONCE = 4096
_TIMEOUT_SECONDS = 30.0


@dataclass
class KafkaAuthConfig:
    """Authentication for Kafka; the fields are named like the settings of its clients, with underscores."""

    security_protocol: str | None = None
    sasl_mechanism: str | None = None
    sasl_plain_username: str | None = None
    sasl_plain_password: str | None = None
    sasl_kerberos_name: str | None = None
    sasl_kerberos_service_name: str | None = None
    sasl_kerberos_domain_name: str | None = None
    sasl_oauth_token_provider: Any = None
    ssl_context: Any = None
    ssl_check_hostname: bool | None = None
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_password: str | None = None
    ssl_ciphers: str | None = None
    ssl_crlfile: str | None = None


#: The settings of librdkafka by their names in other clients.
_SETTINGS = {
    "security_protocol": "security.protocol", "sasl_mechanism": "sasl.mechanism", "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password", "sasl_kerberos_service_name": "sasl.kerberos.service.name",
    "ssl_cafile": "ssl.ca.location", "ssl_certfile": "ssl.certificate.location", "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password", "ssl_ciphers": "ssl.cipher.suites", "ssl_crlfile": "ssl.crl.location",
    "ssl_check_hostname": "enable.ssl.certificate.verification",
}  # fmt: skip


def settings(
    servers: str | list[str], auth: KafkaAuthConfig | None, more: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the settings of a client. Raises NotImplementedError for settings in `auth` that librdkafka lacks."""
    found: dict[str, Any] = {"bootstrap.servers": servers if isinstance(servers, str) else ",".join(servers)}
    for field in fields(auth) if auth is not None else ():
        value = getattr(auth, field.name)
        if value is None:
            continue
        if field.name not in _SETTINGS:
            raise NotImplementedError(
                f"{field.name} of KafkaAuthConfig has no setting in confluent-kafka; use consumer_config"
            )
        found[_SETTINGS[field.name]] = value
    return found | (more or {})


class KafkaDatasource(Datasource):
    """Reads the messages of topics, one task per partition."""

    def __init__(
        self, topics: list[str], config: dict[str, Any], start: Any, end: Any, timeout_ms: int | None
    ) -> None:
        self._kafka = require("confluent_kafka", "read_kafka", _PACKAGE)
        self._config = {"group.id": "skate", "enable.auto.commit": False, **config}
        self._timeout = _TIMEOUT_SECONDS if timeout_ms is None else timeout_ms / 1000
        consumer = self._kafka.Consumer(self._config)
        try:
            known = consumer.list_topics(timeout=self._timeout).topics
            self._ranges = []
            for topic in topics:
                if topic not in known or known[topic].error is not None:
                    raise ValueError(
                        f"there is no topic {topic!r}; the topics are {', '.join(sorted(known))}"
                    )
                for partition in known[topic].partitions:
                    low = self._offset(consumer, topic, partition, start)
                    self._ranges.append(
                        (topic, partition, low, self._offset(consumer, topic, partition, end))
                    )
        finally:
            consumer.close()
        self._kafka = None

    def _offset(self, consumer: Any, topic: str, partition: int, requested: Any) -> int:
        place = self._kafka.TopicPartition(topic, partition)
        low, high = consumer.get_watermark_offsets(place, timeout=self._timeout)
        if requested == "earliest":
            return int(low)
        if requested == "latest":
            return int(high)
        if isinstance(requested, datetime.datetime):
            place.offset = int(requested.timestamp() * 1000)
            (found,) = consumer.offsets_for_times([place], timeout=self._timeout)
            return int(found.offset if found.offset >= 0 else high)
        return max(int(low), min(int(high), int(requested)))

    def get_name(self) -> str:
        return "Kafka"

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        return [
            ReadTask(_Messages(self._config, self._timeout, each), BlockMetadata(), None, per_task_row_limit)
            for each in self._ranges
        ]


class _Messages:
    def __init__(self, config: dict[str, Any], timeout: float, where: tuple[str, int, int, int]) -> None:
        self.given = (config, timeout, where)

    def __call__(self) -> Iterator[pa.Table]:
        config, timeout, (topic, partition, at, end) = self.given
        kafka = require("confluent_kafka", "read_kafka", _PACKAGE)
        consumer = kafka.Consumer(config)
        try:
            consumer.assign([kafka.TopicPartition(topic, partition, at)])
            while at < end:
                found = consumer.consume(min(_MESSAGES_AT_ONCE, end - at), timeout)
                if not found:
                    raise TimeoutError(
                        f"Kafka returned no message of {topic}/{partition} at {at} of {end} in {timeout:g} s"
                    )
                rows = []
                for message in found:
                    if message.error() is not None:
                        raise OSError(f"Kafka, {topic}/{partition}: {message.error()}")
                    if message.offset() < end:
                        rows.append(_row(message))
                    at = message.offset() + 1
                yield from_rows(rows)
        finally:
            consumer.close()


def _row(message: Any) -> dict[str, Any]:
    kind, moment = message.timestamp()
    return {
        "offset": message.offset(),
        "key": message.key(),
        "value": message.value(),
        "topic": message.topic(),
        "partition": message.partition(),
        "timestamp": moment,
        "timestamp_type": kind,
        "headers": dict(message.headers() or []) or None,
    }


class KafkaDatasink(Datasink[None]):
    """Writes rows as messages of a topic."""

    def __init__(
        self, topic: str, config: dict[str, Any], key_field: str | None, keys: str, values: str
    ) -> None:
        require("confluent_kafka", "write_kafka", _PACKAGE)
        for name, kind in (("key_serializer", keys), ("value_serializer", values)):
            if kind not in ("string", "json", "bytes"):
                raise ValueError(f"{name} must be 'string', 'json' or 'bytes', got {kind!r}")
        self._given = (topic, config, key_field, keys, values)

    def get_name(self) -> str:
        return "Kafka"

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> None:
        topic, config, key_field, keys, values = self._given
        producer = require("confluent_kafka", "write_kafka", _PACKAGE).Producer(config)
        failed: list[Any] = []
        for table in blocks:
            for row in rows_of(table):
                key = None if key_field is None else _as_bytes(row[key_field], keys)
                producer.produce(
                    topic, _as_bytes(row, values), key, on_delivery=lambda error, _: failed.append(error)
                )
                producer.poll(0)
        producer.flush()
        errors = [error for error in failed if error is not None]
        if errors:
            raise OSError(f"Kafka rejected {len(errors)} messages to {topic}: {errors[0]}")


def _as_bytes(value: Any, kind: str) -> bytes:
    if kind == "bytes" and isinstance(value, (bytes, bytearray)):
        return bytes(value)
    return json.dumps(value, default=str).encode() if kind == "json" else str(value).encode()
