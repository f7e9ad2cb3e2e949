"""`make bench-load`: many MCP clients at once on one `mindhold serve`: first without rest, then as agents call, with pauses."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from benchmarks import texts
from benchmarks.environment import HERE, RESULTS, machine, processor_time, resident
from benchmarks.report import (
    Aim,
    Table,
    aims_table,
    megabytes,
    milliseconds,
    percentile,
    rate,
    text,
    times,
    write,
)
from benchmarks.served import Filled, data_folder, filled, serving

MEMORIES = 10_000
CLIENTS = 200
STATELESS_OF_FIVE = 1  # every fifth client speaks the stateless protocol
RECALLS = 0.8
SECONDS, QUICK_SECONDS = 60, 10
PAUSE = 10.0  # seconds between an agent's calls, on average
SESSION, STATELESS = "2025-11-25", "2026-07-28"
MOST_OF_MEDIAN = (
    3.0  # without rest everybody waits for everybody; nobody may wait much longer than the others
)
MOST_WITH_PAUSES = 1_000.0  # milliseconds
_META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Line:
    """A kept-alive connection, as lean as can be: what the client spends, the server hasn't got."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._host = f"127.0.0.1:{port}".encode()

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    async def post(
        self, body: dict[str, Any], headers: dict[str, str], *, path: str = "/mcp"
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and the whole body."""
        sent = json.dumps(body).encode()
        own = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
        self._writer.write(
            b"POST %b HTTP/1.1\r\nhost: %b\r\ncontent-type: application/json\r\n"
            b"accept: application/json, text/event-stream\r\ncontent-length: %d\r\n%b\r\n%b"
            % (path.encode(), self._host, len(sent), own, sent)
        )
        await self._writer.drain()
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(head[0].split(" ", 2)[1])
        told = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        return status, told, await self._body(told)

    async def _body(self, told: dict[str, str]) -> bytes:
        if "content-length" in told:
            return await self._reader.readexactly(int(told["content-length"]))
        parts: list[bytes] = []
        while size := int(await self._reader.readline(), 16):
            parts.append(await self._reader.readexactly(size))
            await self._reader.readexactly(2)
        await self._reader.readexactly(2)
        return b"".join(parts)

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@dataclass(frozen=True, slots=True)
class Material:
    """What is asked and what is stored."""

    questions: list[str]
    fresh: Iterator[str]


@dataclass(frozen=True, slots=True)
class Tally:
    """What came of it."""

    milliseconds: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: Counter[str] = field(default_factory=Counter)


class Client:
    """One of many: opens its session, then calls until it is time."""

    def __init__(self, number: int, port: int) -> None:
        self.version = STATELESS if number % 5 < STATELESS_OF_FIVE else SESSION
        self._line = Line(port)
        self._headers = {"mcp-protocol-version": self.version}
        self._draw = random.Random(number)
        self._numbers = count(1)

    async def open(self) -> None:
        await self._line.open()
        if self.version == STATELESS:
            return
        params = {
            "protocolVersion": SESSION,
            "capabilities": {},
            "clientInfo": {"name": "load", "version": "1"},
        }
        status, told, body = await self._line.post(self._request("initialize", params), self._headers)
        if status != 200:
            raise SystemExit(f"initialize: {status} {body[:200]!r}")
        self._headers["mcp-session-id"] = told["mcp-session-id"]
        initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self._line.post(initialized, self._headers)

    async def work(self, until: float, material: Material, tally: Tally, *, pause: float) -> None:
        """Calls until then, with pauses of that length on average."""
        while True:
            wait = self._draw.uniform(0, 2 * pause)
            if time.perf_counter() + wait >= until:
                return
            await asyncio.sleep(wait)
            began = time.perf_counter()
            recalls = self._draw.random() < RECALLS
            tool = "recall" if recalls else "remember"
            arguments = (
                {"text": self._draw.choice(material.questions)}
                if recalls
                else {"content": next(material.fresh), "topic": "load", "type": "fact"}
            )
            wrong = await self.call(tool, arguments)
            if wrong:
                tally.errors[wrong] += 1
            else:
                tally.milliseconds[tool, self.version].append((time.perf_counter() - began) * 1e3)

    async def call(self, tool: str, arguments: dict[str, Any]) -> str:
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        headers = self._headers
        if self.version == STATELESS:
            params["_meta"] = _META
            headers = headers | {"mcp-method": "tools/call", "mcp-name": tool}
        try:
            status, _, body = await self._line.post(self._request("tools/call", params), headers)
        except (OSError, EOFError, ValueError) as error:
            await self._line.open()
            return type(error).__name__
        if status != 200:
            return f"HTTP {status}"
        if b'"isError":true' in body or b'"error":{' in body or b'"structuredContent"' not in body:
            return f"{tool}: {body[:300]!r}"
        return ""

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": params}

    async def close(self) -> None:
        await self._line.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_SECONDS} seconds a phase")
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--seconds", type=int, default=0, help="of each phase")
    arguments = parser.parse_args()
    seconds = arguments.seconds or (QUICK_SECONDS if arguments.quick else SECONDS)
    store = filled(MEMORIES, data=data_folder()).copied("load")
    facts = asyncio.run(measured(store, clients=arguments.clients, seconds=seconds))
    tables = _tables(facts)
    print("\n" + "\n\n".join(map(text, tables)))
    path = write(RESULTS, "load", facts, tables)
    print(f"\n{path.relative_to(HERE.parent)} and .md")
    if any(phase["errors"] for phase in facts["phases"]):
        raise SystemExit("There were errors; see above.")


async def measured(store: Filled, *, clients: int, seconds: int) -> dict[str, Any]:
    """Both phases on one server."""
    facts: dict[str, Any] = {"machine": machine(), "memories": store.memories, "model": store.model}
    material = Material(texts.questions(200), texts.fresh())
    quiet = {"MINDHOLD_SERVE_REQUESTS_PER_MINUTE": "0", "MINDHOLD_LOG_LEVEL": "warning"}
    with serving(store, **quiet) as (server, port):
        crowd = [Client(number, port) for number in range(clients)]
        await asyncio.gather(*(client.open() for client in crowd))
        await crowd[0].call(
            "recall", {"text": material.questions[0]}
        )  # the model is loaded before the clock runs
        facts |= {
            "clients": clients,
            "stateless_clients": sum(client.version == STATELESS for client in crowd),
            "resident_before": resident(server.pid),
        }
        phases = []
        for pause in (0.0, PAUSE):
            print(f"{clients} clients, {f'pauses of {pause:.0f} s' if pause else 'without rest'}", flush=True)
            phases.append(await _phase(crowd, material, server=server.pid, seconds=seconds, pause=pause))
        facts |= {"phases": phases, "resident_after": resident(server.pid)}
        await asyncio.gather(*(client.close() for client in crowd))
    return facts


async def _phase(
    crowd: list[Client], material: Material, *, server: int, seconds: int, pause: float
) -> dict[str, Any]:
    tally = Tally()
    used, own = processor_time(server), time.process_time()
    began = time.perf_counter()
    await asyncio.gather(*(client.work(began + seconds, material, tally, pause=pause) for client in crowd))
    took = time.perf_counter() - began
    every = [value for values in tally.milliseconds.values() for value in values]
    return {
        "pause": pause,
        "seconds": took,
        "requests": len(every),
        "per_second": len(every) / took,
        "p50": percentile(every, 0.5),
        "p99": percentile(every, 0.99),
        "errors": dict(tally.errors),
        "server_cores": (processor_time(server) - used) / 1e3 / took,
        "client_cores": (time.process_time() - own) / took,
        "rows": [_row(tool, version, tally) for tool, version in sorted(tally.milliseconds)],
    }


def _row(tool: str, version: str, tally: Tally) -> dict[str, Any]:
    values = tally.milliseconds[tool, version]
    figures = {f"p{share}": percentile(values, share / 100) for share in (50, 95, 99)}
    return {"tool": tool, "version": version, "requests": len(values), "worst": max(values), **figures}


def _tables(facts: dict[str, Any]) -> list[Table]:
    restless, agents = facts["phases"]
    about = facts["machine"]
    sessions = facts["clients"] - facts["stateless_clients"]
    conditions = Table(
        "Conditions",
        ("what", "measured"),
        [
            ("clients with a session; stateless", f"{sessions}; {facts['stateless_clients']}"),
            (
                "server's memory before, after",
                f"{megabytes(facts['resident_before'])}, {megabytes(facts['resident_after'])}",
            ),
            ("memories; model", f"{facts['memories']:,}; {facts['model']}"),
            (
                "machine",
                f"{about['system']}, {about['cores']} cores, Python {about['python']}, load {about['load_average']}",
            ),
        ],
    )
    errors = [what for phase in facts["phases"] for what in phase["errors"]]
    aims = [
        Aim("no error", f"{sum(sum(phase['errors'].values()) for phase in facts['phases'])}", not errors),
        Aim(
            f"without rest: p99 within {MOST_OF_MEDIAN:.0f} times the p50",
            times(restless["p99"] / restless["p50"]),
            restless["p99"] <= MOST_OF_MEDIAN * restless["p50"],
        ),
        Aim(
            f"with pauses: p99 below {milliseconds(MOST_WITH_PAUSES)}",
            milliseconds(agents["p99"]),
            agents["p99"] < MOST_WITH_PAUSES,
        ),
    ]
    return [
        *(_phase_table(facts["clients"], phase) for phase in facts["phases"]),
        conditions,
        aims_table(aims),
    ]


def _phase_table(clients: int, phase: dict[str, Any]) -> Table:
    rows: list[tuple[str, ...]] = [
        (
            f"{row['tool']}, {row['version']}",
            f"{row['requests']:,}",
            *(milliseconds(row[name]) for name in ("p50", "p95", "p99", "worst")),
        )
        for row in phase["rows"]
    ]
    errors = ", ".join(f"{many} x {what}" for what, many in phase["errors"].items()) or "no errors"
    cores = f"{phase['server_cores']:.2f} cores for the server, {phase['client_cores']:.2f} for the clients"
    rows.append((f"{rate(phase['per_second'])} answered, {errors}; {cores}",))
    rest = f"pauses of {phase['pause']:.0f} s" if phase["pause"] else "without rest"
    return Table(
        f"{clients} clients at once, {rest}, {phase['seconds']:.0f} s",
        ("call", "answered", "p50", "p95", "p99", "worst"),
        rows,
    )


if __name__ == "__main__":
    main()
