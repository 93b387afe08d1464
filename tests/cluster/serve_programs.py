"""Programs for machines of a cluster that serve: `python -m tests.cluster.serve_programs VERB ARGUMENTS`."""

from __future__ import annotations

import http.client
import json
import socket
import sys
import threading
from typing import Any

import skate as ray
from skate import serve

PORT = 8000


class Host:
    """Answers with the version and its machine."""

    def __init__(self, version: str) -> None:
        self.version = version

    def __call__(self, request: Any = None) -> str:
        return f"{self.version} {socket.gethostname()}"


def deploy(version: str, replicas: str, machine: str = "") -> None:
    """Deploy a version with this number of replicas, spread over all nodes or on one machine; print the proxies."""
    ray.init("auto", log_to_driver=False)
    options: dict[str, Any] = {"num_cpus": 0, "resources": {machine: 1}} if machine else {"num_cpus": 1}
    deployment = serve.deployment(Host, name="Host")
    serve.run(deployment.options(num_replicas=int(replicas), ray_actor_options=options).bind(version))
    print("deployed", version, len(serve.status().proxies), flush=True)


def load() -> None:
    """Send requests to this machine's port until stdin ends; print how often each answer came, and every failure."""
    ended = threading.Event()
    answers: dict[str, int] = {}
    lock = threading.Lock()

    def client() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
        while not ended.is_set():
            try:
                connection.request("GET", "/")
                answer = connection.getresponse()
                text = answer.read().decode()
                found = text if answer.status == 200 else f"status {answer.status}: {text}"
            except (OSError, http.client.HTTPException) as error:
                # An idle connection may be closed at any time, as by every HTTP server; the request is sent again.
                connection.close()
                found = "" if isinstance(error, http.client.RemoteDisconnected) else repr(error)
            if found:
                with lock:
                    first = found not in answers
                    answers[found] = answers.get(found, 0) + 1
                if first:
                    print("answer", found, flush=True)

    threads = [threading.Thread(target=client) for _ in range(4)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    ended.set()
    for thread in threads:
        thread.join()
    print("answers", json.dumps(answers), flush=True)


if __name__ == "__main__":
    {"deploy": deploy, "load": load}[sys.argv[1]](*sys.argv[2:])
