"""`make bench-load`: many MCP clients at once on one `recollect serve`, each asking again as soon as it is answered."""

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
from benchmarks.report import Aim, Table, aims_table, megabytes, milliseconds, percentile, rate, text, write
from benchmarks.served import Filled, data_folder, filled, serving

MEMORIES = 10_000
CLIENTS = 200
STATELESS_OF_FIVE = 1  # every fifth client speaks the stateless protocol
RECALLS = 0.8
SECONDS, QUICK_SECONDS = 60, 10
SESSION, STATELESS = "2025-11-25", "2026-07-28"
BOUND_SECONDS = 5.0
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

    async def post(self, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and the whole body."""
        sent = json.dumps(body).encode()
        own = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
        self._writer.write(
            b"POST /mcp HTTP/1.1\r\nhost: %b\r\ncontent-type: application/json\r\n"
            b"accept: application/json, text/event-stream\r\ncontent-length: %d\r\n%b\r\n%b"
            % (self._host, len(sent), own, sent)
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


@dataclass(slots=True)
class Tally:
    """What came of it."""

    milliseconds: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: Counter[str] = field(default_factory=Counter)
    sessions: int = 0


class Client:
    """One of many: opens its session, then calls until it is time."""

    def __init__(self, number: int, port: int, tally: Tally) -> None:
        self.version = STATELESS if number % 5 < STATELESS_OF_FIVE else SESSION
        self._line = Line(port)
        self._tally = tally
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
        self._tally.sessions += 1

    async def work(self, until: float, questions: list[str], fresh: Iterator[str]) -> None:
        while (began := time.perf_counter()) < until:
            recalls = self._draw.random() < RECALLS
            tool = "recall" if recalls else "remember"
            arguments = (
                {"text": self._draw.choice(questions)}
                if recalls
                else {"content": next(fresh), "topic": "load", "type": "fact"}
            )
            wrong = await self._call(tool, arguments)
            if wrong:
                self._tally.errors[wrong] += 1
            else:
                taken = (time.perf_counter() - began) * 1e3
                self._tally.milliseconds[tool, self.version].append(taken)

    async def _call(self, tool: str, arguments: dict[str, Any]) -> str:
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
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_SECONDS} seconds")
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--seconds", type=int, default=0)
    arguments = parser.parse_args()
    seconds = arguments.seconds or (QUICK_SECONDS if arguments.quick else SECONDS)
    store = filled(MEMORIES, data=data_folder()).copied("load")
    facts = asyncio.run(_measured(store, clients=arguments.clients, seconds=seconds))
    tables = _tables(facts)
    print("\n" + "\n\n".join(map(text, tables)))
    path = write(RESULTS, "load", facts, tables)
    print(f"\n{path.relative_to(HERE.parent)} and .md")
    if facts["errors"]:
        raise SystemExit("There were errors; see above.")


async def _measured(store: Filled, *, clients: int, seconds: int) -> dict[str, Any]:
    facts: dict[str, Any] = {"machine": machine(), "memories": store.memories, "model": store.model}
    tally, questions, fresh = Tally(), texts.questions(200), texts.fresh()
    with serving(store, RECOLLECT_SERVE_REQUESTS_PER_MINUTE="0", RECOLLECT_LOG_LEVEL="warning") as (
        server,
        port,
    ):
        crowd = [Client(number, port, tally) for number in range(clients)]
        print(f"{clients} clients", flush=True)
        await asyncio.gather(*(client.open() for client in crowd))
        await crowd[0]._call("recall", {"text": questions[0]})  # the model is loaded before the clock runs
        before, used, own = resident(server.pid), processor_time(server.pid), time.process_time()
        began = time.perf_counter()
        await asyncio.gather(*(client.work(began + seconds, questions, fresh) for client in crowd))
        took = time.perf_counter() - began
        facts |= {
            "clients": clients,
            "stateless_clients": sum(client.version == STATELESS for client in crowd),
            "sessions": tally.sessions,
            "seconds": took,
            "resident_before": before,
            "resident_after": resident(server.pid),
            "server_processor_share": (processor_time(server.pid) - used) / 1e3 / took,
            "client_processor_share": (time.process_time() - own) / took,
        }
        await asyncio.gather(*(client.close() for client in crowd))
    facts["errors"] = dict(tally.errors)
    facts["rows"] = [_row(tool, version, tally) for tool, version in sorted(tally.milliseconds)]
    every = [value for values in tally.milliseconds.values() for value in values]
    facts["requests"] = len(every)
    facts["per_second"] = len(every) / took
    facts["p99"] = percentile(every, 0.99)
    return facts


def _row(tool: str, version: str, tally: Tally) -> dict[str, Any]:
    values = tally.milliseconds[tool, version]
    figures = {f"p{share}": percentile(values, share / 100) for share in (50, 95, 99)}
    return {"tool": tool, "version": version, "requests": len(values), "worst": max(values), **figures}


def _tables(facts: dict[str, Any]) -> list[Table]:
    rows = [
        (
            f"{row['tool']}, {row['version']}",
            f"{row['requests']:,}",
            *(milliseconds(row[name]) for name in ("p50", "p95", "p99", "worst")),
        )
        for row in facts["rows"]
    ]
    load = Table(
        f"{facts['clients']} clients at once, {facts['memories']:,} memories, {facts['seconds']:.0f} s",
        ("call", "answered", "p50", "p95", "p99", "worst"),
        rows,
    )
    about = facts["machine"]
    conditions = Table(
        "Conditions",
        ("what", "measured"),
        [
            ("answered", rate(facts["per_second"])),
            ("errors", ", ".join(f"{many} x {what}" for what, many in facts["errors"].items()) or "none"),
            ("sessions; stateless clients", f"{facts['sessions']}; {facts['stateless_clients']}"),
            (
                "server's memory before, after",
                f"{megabytes(facts['resident_before'])}, {megabytes(facts['resident_after'])}",
            ),
            (
                "cores used by the server, by the clients",
                f"{facts['server_processor_share']:.2f}, {facts['client_processor_share']:.2f}",
            ),
            ("model", facts["model"]),
            (
                "machine",
                f"{about['system']}, {about['cores']} cores, Python {about['python']}, load {about['load_average']}",
            ),
        ],
    )
    aims = [
        Aim("no error", f"{sum(facts['errors'].values())}", not facts["errors"]),
        Aim(
            f"p99 below {BOUND_SECONDS:.0f} s", milliseconds(facts["p99"]), facts["p99"] < BOUND_SECONDS * 1e3
        ),
    ]
    return [load, conditions, aims_table(aims)]


if __name__ == "__main__":
    main()
