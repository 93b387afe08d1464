"""A no-op over HTTP: Skate Serve, bare uvicorn, LitServe and BentoML in turn: `python -m benchmarks.serve.peers`.

`wrk` (one thread, its own process) sends the same request to all: POST with the body `{}`. One process of each handles
requests; LitServe has two, because its server and its worker are apart. `make bench-serve` makes the peers' environment.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.serve.__main__ import free_port, wrk

HERE = Path(__file__).parent
CONNECTIONS = (1, 32, 512)
PATHS = {"bare": "/", "skate": "/", "litserve": "/predict", "bentoml": "/noop"}
REQUEST = 'wrk.method = "POST"\nwrk.body = "{}"\nwrk.headers["Content-Type"] = "application/json"\n'
PACKAGES = {
    "bare": ("uvicorn", "uvloop", "httptools"),
    "skate": ("uvicorn", "uvloop", "httptools"),
    "litserve": ("litserve", "uvicorn", "uvloop", "httptools"),
    "bentoml": ("bentoml", "uvicorn", "uvloop", "httptools"),
}


def versions(python: str, packages: tuple[str, ...]) -> str:
    """The installed versions of packages in an environment."""
    code = (
        "import sys\nfrom importlib.metadata import PackageNotFoundError, version\n"
        "for each in sys.argv[1:]:\n"
        "    try: print(each, version(each), end='; ')\n"
        "    except PackageNotFoundError: print('no', each, end='; ')"
    )
    done = subprocess.run([python, "-c", code, *packages], capture_output=True, text=True, check=True)
    return done.stdout.rstrip("; ")


def measure(target: str, python: str) -> list[tuple[float, float]]:
    """Requests a second and the 99th percentile in milliseconds, for each number of connections."""
    port = free_port()
    environment = os.environ | {"BENTOML_DO_NOT_TRACK": "1"}
    if target == "skate":
        environment["PYTHONPATH"] = str(HERE.parents[1] / "src")
    process = subprocess.Popen(
        [python, "noop.py", target, str(port)],
        cwd=HERE,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    url = f"http://127.0.0.1:{port}{PATHS[target]}"
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                time.sleep(0.05)
                continue
            if wrk(url, 1, REQUEST, seconds=1)[0] > 0:  # it listens before its workers are ready
                break
        return [wrk(url, each, REQUEST) for each in CONNECTIONS]
    finally:
        assert process.stdin is not None
        process.stdin.close()
        if target in ("bare", "litserve"):  # they do not read their input
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve.peers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default="", help="an interpreter that has LitServe and BentoML")
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk is needed: apt-get install wrk")
    targets = {"bare": sys.executable, "skate": sys.executable}
    if options.peers:
        targets |= {"litserve": options.peers, "bentoml": options.peers}
    for name, python in targets.items():
        print(f"{name}: {versions(python, PACKAGES[name])}")
    print("load before:", " ".join(f"{each:.1f}" for each in os.getloadavg()))
    found: dict[str, list[list[tuple[float, float]]]] = {name: [] for name in targets}
    for _ in range(options.rounds):
        for name, python in targets.items():
            found[name].append(measure(name, python))
    print("load after:", " ".join(f"{each:.1f}" for each in os.getloadavg()))
    print("\n| no-op, /s (p99 ms) | " + " | ".join(targets) + " | Skate to bare, by round |")
    print("|---|" + "---|" * (len(targets) + 1))
    for at, connections in enumerate(CONNECTIONS):
        cells = []
        for rounds in found.values():
            rate = statistics.median(each[at][0] for each in rounds)
            slow = statistics.median(each[at][1] for each in rounds)
            cells.append(f"{rate:,.0f} ({slow:.3g})")
        shares = [s[at][0] / b[at][0] for s, b in zip(found["skate"], found["bare"], strict=True)]
        cells.append(", ".join(f"{each:.2f}" for each in shares))
        print(f"| {connections} connections | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
