"""Values from a Prometheus server for autoscaling policies. A thread fetches them, so policies never wait."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

DEFAULT_PROMETHEUS_FETCH_INTERVAL_S = 5.0
DEFAULT_PROMETHEUS_CACHE_TTL_S = 15.0
DEFAULT_PROMETHEUS_QUERY_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class PrometheusSample:
    """One value of a vector; `timestamp` is seconds since the epoch."""

    labels: Mapping[str, str]
    value: float
    timestamp: float


@dataclass(frozen=True)
class PrometheusScalar:
    """One value; `timestamp` is seconds since the epoch."""

    value: float
    timestamp: float


@dataclass(frozen=True)
class PrometheusVector:
    """The values of a query by labels; may be empty."""

    samples: tuple[PrometheusSample, ...]


class PrometheusQueryMixin:
    """Base of policies that read `self.prometheus_results`; the first read starts the thread.

    Args:
        prometheus_address: the server's address; default RAY_PROMETHEUS_HOST. RAY_PROMETHEUS_HEADERS may hold
            headers as JSON.
        prometheus_queries: PromQL.
        fetch_interval_s: seconds between two fetches.
        cache_ttl_s: older results, in seconds, are not returned.
    """

    def __init__(
        self,
        *,
        prometheus_address: str | None = None,
        prometheus_queries: list[str] | None = None,
        fetch_interval_s: float = DEFAULT_PROMETHEUS_FETCH_INTERVAL_S,
        cache_ttl_s: float = DEFAULT_PROMETHEUS_CACHE_TTL_S,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if fetch_interval_s <= 0 or cache_ttl_s <= 0:
            raise ValueError(
                f"fetch_interval_s and cache_ttl_s must be seconds above 0, got {fetch_interval_s} and {cache_ttl_s}"
            )
        self._address = (prometheus_address or os.environ.get("RAY_PROMETHEUS_HOST") or "").rstrip("/")
        self._queries = list(prometheus_queries or [])
        self._interval = fetch_interval_s
        self._ttl = cache_ttl_s
        self._fetching: threading.Thread | None = None
        self._results: tuple[float, dict[str, Any]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fetching": None, "_results": None}

    @property
    def prometheus_results(self) -> dict[str, PrometheusScalar | PrometheusVector] | None:
        """The latest result of each query; None until it is known."""
        if self._fetching is None and self._address and self._queries:
            self._fetching = threading.Thread(target=self._fetch, name="serve-prometheus", daemon=True)
            self._fetching.start()
        known = self._results
        return None if known is None or time.monotonic() - known[0] > self._ttl else dict(known[1])

    @property
    def prometheus_metrics(self) -> dict[str, float] | None:
        """The results of queries that returned a single value; None until they are known."""
        results = self.prometheus_results
        if results is None:
            return None
        found = {}
        for query, result in results.items():
            if isinstance(result, PrometheusScalar):
                found[query] = result.value
            elif len(result.samples) == 1:
                found[query] = result.samples[0].value
        return found

    def _fetch(self) -> None:
        pause = threading.Event()
        last_error = ""
        while True:
            try:
                self._results = time.monotonic(), {query: self._ask(query) for query in self._queries}
                last_error = ""
            except Exception as error:  # the last result stays until it expires, whatever went wrong
                if str(error) != last_error:
                    last_error = str(error)
                    logging.getLogger("ray.serve").warning("%s returned no metrics: %s", self._address, error)
            pause.wait(self._interval)

    def _ask(self, query: str) -> PrometheusScalar | PrometheusVector:
        url = f"{self._address}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        headers = json.loads(os.environ.get("RAY_PROMETHEUS_HEADERS") or "{}")
        pairs = headers.items() if isinstance(headers, dict) else headers
        request = urllib.request.Request(url, headers={str(name): str(value) for name, value in pairs})
        with urllib.request.urlopen(request, timeout=DEFAULT_PROMETHEUS_QUERY_TIMEOUT_S) as answer:
            return result_of(json.load(answer), query)


def result_of(response: Any, query: str) -> PrometheusScalar | PrometheusVector:
    """Parse a response of the server. Raises ValueError for an error, or a result that is not an instant value."""
    if response.get("status") != "success":
        raise ValueError(f"the query {query!r} failed: {response.get('error', response)}")
    kind, result = response["data"]["resultType"], response["data"]["result"]
    if kind == "scalar":
        return PrometheusScalar(float(result[1]), float(result[0]))
    if kind == "vector":
        return PrometheusVector(
            tuple(
                PrometheusSample(
                    MappingProxyType(dict(each["metric"])), float(each["value"][1]), float(each["value"][0])
                )
                for each in result
            )
        )
    raise ValueError(f"the query {query!r} returned a {kind}; policies require a scalar or an instant vector")
