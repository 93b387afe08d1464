"""One server that answers with a constant: `python noop.py bare|skate|litserve|bentoml PORT`.

It serves until its input ends, or until it is terminated (bare, litserve). Each library is imported only where it is
measured, because the peers have an environment of their own.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

TARGET, PORT = sys.argv[1], int(sys.argv[2])


def bare() -> None:
    import uvicorn

    headers = [(b"content-type", b"text/plain"), (b"content-length", b"5")]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"hello"})

    uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="warning", access_log=False, lifespan="off")


def skate() -> None:
    import skate as ray
    from skate import serve

    @serve.deployment(ray_actor_options={"num_cpus": 0}, max_ongoing_requests=1000)
    class Noop:
        async def __call__(self, request: Any) -> str:
            return "hello"

    ray.init(num_cpus=2, log_to_driver=False)
    serve.run(Noop.bind(), port=PORT)
    sys.stdin.read()
    serve.shutdown()
    ray.shutdown()


def litserve() -> None:
    import litserve
    from noop_lit import Noop

    server = litserve.LitServer(Noop(), accelerator="cpu", workers_per_device=1, timeout=False)
    server.run(
        host="127.0.0.1", port=PORT, log_level="warning", generate_client_file=False, num_api_servers=1
    )


def bentoml() -> None:
    words = ["-m", "bentoml", "serve", "noop_bento:Noop", "--host", "127.0.0.1", "--port", str(PORT)]
    with subprocess.Popen([sys.executable, *words]) as process:
        sys.stdin.read()
        process.terminate()


if __name__ == "__main__":
    {"bare": bare, "skate": skate, "litserve": litserve, "bentoml": bentoml}[TARGET]()
