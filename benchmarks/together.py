"""Many MCP clients on two `mindhold serve` with one PostgreSQL, against the same clients on one of the two."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks import texts
from benchmarks.environment import processor_time
from benchmarks.load import Client, Material, Tally
from benchmarks.peers.door import command_line
from benchmarks.peers.store_door import StoreDoor
from benchmarks.report import percentile
from benchmarks.served import Filled, serving
from benchmarks.sites import POSTGRES, Sites, variables
from benchmarks.store_measures import Sizes

CLIENTS = 64
DATABASE = "mindhold_served"
_QUIET = {"MINDHOLD_SERVE_REQUESTS_PER_MINUTE": "0", "MINDHOLD_LOG_LEVEL": "warning"}


def together(
    sites: Sites, rows: list[str], vectors: Path, sizes: Sizes, *, folder: Path, options: dict[str, Any]
) -> dict[str, Any]:
    """Rounds of one server, then two, the same clients on the same memories, so that a noisy moment hits both."""
    store = _filled(sites, rows[: sizes.served], vectors, folder=folder, options=options)
    return asyncio.run(_measured(store, sizes))


def _filled(sites: Sites, rows: list[str], vectors: Path, *, folder: Path, options: dict[str, Any]) -> Filled:
    settings = sites.settings(POSTGRES, DATABASE)
    door = StoreDoor(folder / "served", {**options, "settings": settings, "plain": True})
    try:
        door.load(rows, str(vectors), 0)
    finally:
        door.close()
    _, own = command_line(folder / "served", options)
    return Filled(folder, len(rows), str(options["name"]), own | variables(settings))


async def _measured(store: Filled, sizes: Sizes) -> dict[str, Any]:
    material = Material(texts.questions(200), texts.fresh())
    with ExitStack() as running:
        started = [running.enter_context(serving(store, **_QUIET)) for _ in range(2)]
        ports = [port for _, port in started]
        crowds = {
            1: [Client(number, ports[0]) for number in range(CLIENTS)],
            2: [Client(number, ports[number % 2]) for number in range(CLIENTS)],
        }
        everybody = [client for crowd in crowds.values() for client in crowd]
        await asyncio.gather(*(client.open() for client in everybody))
        for client in crowds[2][:2]:  # both models are loaded before the clock runs
            await client.call("recall", {"text": material.questions[0]})
        processes = [process.pid for process, _ in started]
        tallies = {servers: Tally() for servers in crowds}
        seconds, cores = dict.fromkeys(crowds, 0.0), dict.fromkeys(crowds, 0.0)
        for number in range(sizes.rounds * 2):
            servers = 1 + number % 2
            print(f"  {CLIENTS} clients, {servers} server{'s' * (servers > 1)}", flush=True)
            took, used = await _round(crowds[servers], material, tallies[servers], sizes.seconds, processes)
            seconds[servers] += took
            cores[servers] += used
        await asyncio.gather(*(client.close() for client in everybody))
    return {
        "clients": CLIENTS,
        "memories": store.memories,
        "servers": {
            str(servers): _figures(tallies[servers], seconds[servers], cores[servers]) for servers in crowds
        },
    }


async def _round(
    crowd: list[Client], material: Material, tally: Tally, seconds: int, servers: list[int]
) -> tuple[float, float]:
    """Seconds that it took, and seconds of processor time that the servers used."""
    used = sum(map(processor_time, servers))
    began = time.perf_counter()
    await asyncio.gather(*(client.work(began + seconds, material, tally, pause=0.0) for client in crowd))
    return time.perf_counter() - began, (sum(map(processor_time, servers)) - used) / 1e3


def _figures(tally: Tally, seconds: float, used: float) -> dict[str, Any]:
    every = [value for values in tally.milliseconds.values() for value in values]
    return {
        "requests": len(every),
        "seconds": seconds,
        "per_second": len(every) / seconds,
        "p50": percentile(every, 0.5) if every else None,
        "p99": percentile(every, 0.99) if every else None,
        "server_cores": used / seconds,
        "errors": dict(tally.errors),
    }
