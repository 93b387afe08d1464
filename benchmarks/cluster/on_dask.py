"""The same scenarios on Dask alone, and the round trip of its own connections.

    python -m benchmarks.cluster.on_dask SCENARIO
    python -m benchmarks.cluster.on_dask echo

Workers have the names of their machines. `echo` answers frames on a port until its stdin ends.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from typing import Any

from distributed import Client, get_client, wait
from distributed.comm import connect, listen

from benchmarks.cluster.bare import BATCHES, FRAME_BYTES, ROUND_TRIPS
from benchmarks.cluster.scenarios import IN_FLIGHT, JOIN_S, SYNC, TRANSFER_BYTES, TRANSFERS, Figures
from benchmarks.measure import batch_seconds, calls_per_second

SCHEDULER = "tcp://machine1:8786"
ECHO_PORT = 5200


class Callee:
    """An actor of Dask."""

    def nothing(self) -> None:
        return None


def nothing(number: int = 0) -> None:
    return None


def value(size: int, number: int) -> Any:
    import numpy  # on the machine that makes it

    return numpy.ones(size, dtype=numpy.uint8)


def size(made: Any) -> int:
    return int(made.nbytes)


def sync_calls(callee: Any, count: int, number: int) -> float:
    """Call the actor one time after another; return the seconds."""
    get_client()
    begin = time.perf_counter()
    for _ in range(count):
        callee.nothing().result()
    return time.perf_counter() - begin


def calls_in_flight(callee: Any, count: int, number: int) -> float:
    """Begin all calls of the actor, then wait for them; return the seconds."""
    get_client()
    begin = time.perf_counter()
    for answer in [callee.nothing() for _ in range(count)]:
        answer.result()
    return time.perf_counter() - begin


def tasks(client: Client) -> Figures:
    def one() -> None:
        client.submit(nothing, pure=False, workers=["machine2"]).result()

    def many() -> None:
        client.gather([client.submit(nothing, pure=False, workers=["machine2"]) for _ in range(IN_FLIGHT)])

    return {"task_sync": 1e6 / calls_per_second(one), "tasks_in_flight": IN_FLIGHT / batch_seconds(many)}


def actors(client: Client) -> Figures:
    callee = client.submit(Callee, actor=True, workers=["machine3"]).result()

    def median(call: Any, count: int) -> float:
        def once(number: int) -> float:
            return float(client.submit(call, callee, count, number, workers=["machine2"]).result())

        once(0)
        return statistics.median(once(number) for number in range(1, 6))

    sync, flight = median(sync_calls, SYNC), median(calls_in_flight, IN_FLIGHT)
    return {"actor_sync": sync / SYNC * 1e6, "actor_in_flight": IN_FLIGHT / flight}


def transfer(client: Client) -> Figures:
    rates = []
    for number in range(1 + TRANSFERS):
        made = client.submit(value, TRANSFER_BYTES, number, workers=["machine2"])
        wait(made)
        begin = time.perf_counter()
        assert client.submit(size, made, workers=["machine3"]).result() == TRANSFER_BYTES
        rates.append(TRANSFER_BYTES / (time.perf_counter() - begin) / 1e9)
        del made
    return {"transfer": max(rates[1:])}


def join(client: Client) -> Figures:
    print("waiting", flush=True)
    client.wait_for_workers(3, timeout=JOIN_S)
    client.submit(nothing, pure=False, workers=["machine4"]).result()
    return {"joined_at": time.time()}


async def echo() -> None:
    """Answer frames until stdin ends."""

    async def answer(comm: Any) -> None:
        try:
            while True:
                await comm.write(await comm.read())
        # The other side is done.
        except OSError:
            return

    async with listen(f"tcp://0.0.0.0:{ECHO_PORT}", answer, deserialize=True):
        print("listening", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def frames(address: str) -> Figures:
    """Return the median microseconds of a frame there and back over a connection of Dask."""
    comm = await connect(f"tcp://{address}:{ECHO_PORT}")
    frame = bytes(FRAME_BYTES)
    times = []
    for _ in range(BATCHES):
        begin = time.perf_counter()
        for _ in range(ROUND_TRIPS):
            await comm.write(frame)
            await comm.read()
        times.append((time.perf_counter() - begin) / ROUND_TRIPS)
    await comm.close()
    return {"round_trip": statistics.median(times) * 1e6}


def main() -> None:
    scenario, *rest = sys.argv[1:]
    if scenario == "echo":
        asyncio.run(echo())
        return
    if scenario == "frames":
        figures = asyncio.run(frames(rest[0]))
    else:
        with Client(SCHEDULER) as client:
            figures = {"tasks": tasks, "actors": actors, "transfer": transfer, "join": join}[scenario](client)
    print(json.dumps({"figures": figures, "notes": {}}), flush=True)


if __name__ == "__main__":
    main()
