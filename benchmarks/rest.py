"""`make bench-rest`: messages over HTTP, saved in bulk and searched by many clients, side by side with ChromaDB's own server."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import httpx2
from benchmarks import texts
from benchmarks.contestants import Contestant, Entry
from benchmarks.environment import (
    CACHE,
    CHROMA,
    HERE,
    RESULTS,
    PeerMissing,
    machine,
    processor_time,
    resident,
    version_of,
)
from benchmarks.load import Line
from benchmarks.peers.door import command_line, door_options, open_embedder, place_models
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
from benchmarks.served import MODEL, Filled, data_folder, serving
from benchmarks.vectors import stored_vectors

MESSAGES, QUICK_MESSAGES = 100_000, 10_000
SAVED, PEER_SAVED = 5_000, 1_000
CLIENTS = 32
PAUSES = (1.0, 0.0)  # seconds between two searches of a client, on average
SECONDS, QUICK_SECONDS = 30, 10
PROJECT = "bench"
IMPORT = f"/api/projects/{PROJECT}/memory/messages/import"
SEARCH = f"/api/projects/{PROJECT}/memory/search"
IN_A_CONVERSATION = 100
UNHURRIED = {
    "MINDHOLD_SERVE_REQUESTS_PER_MINUTE": "0",
    "MINDHOLD_LOG_LEVEL": "warning",
    "MINDHOLD_HISTORY_ENABLED": "false",
    "MINDHOLD_LIFE_CONSOLIDATE_HOURS": "0",  # upkeep has a benchmark of its own
}
PEER = Entry("chroma-http", "ChromaDB's HTTP server", "chroma_http", "chroma-http", peer=CHROMA)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_MESSAGES:,} messages")
    parser.add_argument("--alone", action="store_true", help="without the peer")
    arguments = parser.parse_args()
    count = QUICK_MESSAGES if arguments.quick else MESSAGES
    seconds = QUICK_SECONDS if arguments.quick else SECONDS
    place_models(door_options(MODEL))
    rows = texts.memories(count, data=data_folder())
    facts: dict[str, Any] = {"machine": machine(), "messages": count, "clients": CLIENTS}
    facts["ours"] = asyncio.run(ours(rows, seconds=seconds))
    facts["peer"] = {"missing": "not asked"} if arguments.alone else peers(rows, seconds=seconds)
    tables = _tables(facts)
    print("\n" + "\n\n".join(map(text, tables)))
    path = write(RESULTS, "rest", facts, tables)
    print(f"\n{path.relative_to(HERE.parent)} and .md")


async def ours(rows: Sequence[str], *, seconds: float) -> dict[str, Any]:
    """Saving in bulk on a store that is made anew, searching on one that is kept."""
    fresh = list(islice(texts.fresh(), SAVED))
    found: dict[str, Any] = {"saved": {}}
    for name, query in (("with vectors", ""), ("without", "?embed=false")):
        with serving(_empty("rest-saving"), **UNHURRIED) as (server, port):
            _begin(port)
            # The model is loaded before the clock runs.
            _imported(port, _lines(fresh[:10]), query)
            found["saved"][name] = _imported(port, _lines(fresh), query)["per_second"]
            found["after_saving"] = resident(server.pid)
    store, found["filling"] = _filled(rows)
    with serving(store, **UNHURRIED) as (server, port):
        found["phases"] = [
            await _searched(port, server.pid, seconds=seconds, pause=pause) for pause in PAUSES
        ]
        found["resident"] = resident(server.pid)
    return found


def _filled(rows: Sequence[str]) -> tuple[Filled, dict[str, Any]]:
    """A store with all the messages, imported over HTTP in one request; made once and kept, with how that went."""
    store = _store(f"rest-{len(rows)}-{texts.VERSION}")
    done = store.folder / "done"
    if done.is_file():
        return store, json.loads(done.read_text(encoding="utf-8"))
    print(f"importing {len(rows):,} messages", flush=True)
    shutil.rmtree(store.folder, ignore_errors=True)
    store.folder.mkdir(parents=True)
    with serving(store, **UNHURRIED) as (server, port):
        _begin(port)
        _imported(port, _lines(rows[:10]), "")
        before, seen = resident(server.pid), []

        def watched() -> Iterator[bytes]:
            for number, line in enumerate(_lines(rows[10:])):
                if number % 1_000 == 0:
                    seen.append(resident(server.pid))
                yield line

        told = _imported(port, watched(), "")
        # What half of them needed, the other half needs no more of, but for the index, which has a row for each.
        told |= {"before": before, "half": seen[len(seen) // 2], "most": max(seen)}
    done.write_text(json.dumps(told), encoding="utf-8")
    return store, told


def _begin(port: int) -> None:
    answer = httpx2.post(f"http://127.0.0.1:{port}/api/projects", json={"name": PROJECT}, timeout=60)
    assert answer.status_code == 201, answer.text


def _imported(port: int, lines: Iterator[bytes], query: str) -> dict[str, Any]:
    began = time.perf_counter()
    answer = httpx2.post(
        f"http://127.0.0.1:{port}{IMPORT}{query}",
        content=lines,
        headers={"content-type": "application/x-ndjson"},
        timeout=3_600,
    )
    took = time.perf_counter() - began
    told = answer.json()
    if answer.status_code != 200 or told["failed"]:
        raise SystemExit(f"import: {answer.status_code} {answer.text[:500]}")
    return {"imported": told["imported"], "seconds": took, "per_second": told["imported"] / took}


def _lines(rows: Sequence[str]) -> Iterator[bytes]:
    for number, row in enumerate(rows):
        message = {
            "message_type": "assistant" if number % 2 else "user",
            "content": row,
            "metadata": {"session_id": f"session-{number // IN_A_CONVERSATION}"},
        }
        yield json.dumps(message).encode() + b"\n"


async def _searched(port: int, server: int, *, seconds: float, pause: float) -> dict[str, Any]:
    questions = texts.questions(400)
    lines = [Line(port) for _ in range(CLIENTS)]
    for line in lines:
        await line.open()
    for question in questions[:3]:
        await lines[0].post({"query": question}, {}, path=SEARCH)
    took: list[float] = []
    began, used = time.perf_counter(), processor_time(server)

    async def one(number: int, line: Line) -> None:
        draw = random.Random(number)
        while True:
            wait = draw.uniform(0, 2 * pause)
            if time.perf_counter() + wait >= began + seconds:
                return
            await asyncio.sleep(wait)
            asked = time.perf_counter()
            status, _, body = await line.post({"query": draw.choice(questions)}, {}, path=SEARCH)
            if status != 200:
                raise SystemExit(f"search: {status} {body[:500]!r}")
            took.append((time.perf_counter() - asked) * 1e3)

    await asyncio.gather(*(one(number, line) for number, line in enumerate(lines)))
    for line in lines:
        await line.close()
    return _phase(took, time.perf_counter() - began, pause, processor_time(server) - used)


def peers(rows: Sequence[str], *, seconds: float) -> dict[str, Any]:
    """The same of ChromaDB; or why not."""
    folder = CACHE / f"chroma-http-{len(rows)}-{texts.VERSION}"
    fresh = list(islice(texts.fresh(), PEER_SAVED))
    options = door_options(MODEL)
    try:
        peer = Contestant(PEER, folder, {})
        try:
            if not (folder / "done").is_file():
                vectors = stored_vectors(
                    CACHE, list(rows), model=str(options["name"]), embed=open_embedder(options).texts
                )
                named = folder.with_suffix(".json")
                named.write_text(json.dumps(list(rows)), encoding="utf-8")
                print(f"filling ChromaDB with {len(rows):,}", flush=True)
                peer.ask("load", texts=str(named), vectors=str(vectors), start=0)
                (folder / "done").touch()
            server = int(peer.ask("process").value)
            peer.ask("store_many", texts=fresh[:10])
            saved = peer.ask("store_many", texts=fresh)
            phases = [_crowd(peer, server, seconds=seconds, pause=pause) for pause in PAUSES]
            return {
                "version": version_of(CHROMA, "chromadb"),
                "saved": {"with vectors": len(fresh) / saved.milliseconds * 1e3},
                "phases": phases,
                "resident": resident(server),
            }
        finally:
            peer.close()
    except PeerMissing as missing:
        return {"missing": str(missing)}


def _crowd(peer: Contestant, server: int, *, seconds: float, pause: float) -> dict[str, Any]:
    questions = texts.questions(400)
    peer.ask("crowd", questions=questions[:3], clients=1, seconds=1, pause=0.1)
    used = processor_time(server)
    answer = peer.ask("crowd", questions=questions, clients=CLIENTS, seconds=seconds, pause=pause)
    return _phase(answer.value, answer.milliseconds / 1e3, pause, processor_time(server) - used)


def _phase(took: Sequence[float], seconds: float, pause: float, used: float) -> dict[str, Any]:
    return {
        "pause": pause,
        "answered": len(took),
        "per_second": len(took) / seconds,
        "server_ms": used / max(1, len(took)),
        **{f"p{share}": percentile(took, share / 100) for share in (50, 95, 99)},
    }


def _empty(name: str) -> Filled:
    store = _store(name)
    shutil.rmtree(store.folder, ignore_errors=True)
    store.folder.mkdir(parents=True)
    return store


def _store(name: str) -> Filled:
    options = door_options(MODEL)
    folder: Path = CACHE / name
    _, variables = command_line(folder, options)
    return Filled(folder, 0, str(options["name"]), variables)


def _tables(facts: dict[str, Any]) -> list[Table]:
    own, peer = facts["ours"], facts["peer"]
    searching: list[tuple[str, ...]] = []
    for place, phase in enumerate(own["phases"]):
        rest = f"a search every {phase['pause']:.0f} s each" if phase["pause"] else "without rest"
        searching.append(_row(f"Mindhold, {rest}", phase))
        if "missing" not in peer:
            other = peer["phases"][place]
            searching.append(_row(f"ChromaDB {peer['version']}, {rest}", other))
            searching.append((f"p50 of ChromaDB: {times(other['p50'] / phase['p50'])} ours",))
    if "missing" in peer:
        searching.append((f"ChromaDB: {peer['missing']}",))
    return [
        Table(
            f"Searching {facts['messages']:,} messages over HTTP, {facts['clients']} clients",
            ("who", "answered", "p50", "p95", "p99", "server's processor"),
            searching,
        ),
        _saving(facts),
        _aims(facts),
    ]


def _row(who: str, phase: dict[str, Any]) -> tuple[str, ...]:
    shares: Callable[[str], str] = lambda name: milliseconds(phase[name])  # noqa: E731
    return (
        who,
        rate(phase["per_second"]),
        *map(shares, ("p50", "p95", "p99")),
        milliseconds(phase["server_ms"]),
    )


def _saving(facts: dict[str, Any]) -> Table:
    own, peer, filling = facts["ours"], facts["peer"], facts["ours"]["filling"]
    rows: list[tuple[str, ...]] = [
        ("bulk, with vectors", rate(own["saved"]["with vectors"])),
        ("bulk, vectors later", rate(own["saved"]["without"])),
        (
            f"{filling['imported']:,} in one request",
            f"{filling['seconds']:.0f} s, {rate(filling['per_second'])}",
        ),
        (
            "server's memory before, half-way, at most",
            ", ".join(megabytes(filling[name]) for name in ("before", "half", "most")),
        ),
        ("server's memory while searching", megabytes(own["resident"])),
    ]
    if "missing" not in peer:
        rows.append(("ChromaDB, bulk, with vectors", rate(peer["saved"]["with vectors"])))
        rows.append(("ChromaDB's memory while searching", megabytes(peer["resident"])))
    about = facts["machine"]
    rows.append(("machine", f"{about['system']}, {about['cores']} cores, load {about['load_average']}"))
    return Table("Saving", ("what", "measured"), rows)


def _aims(facts: dict[str, Any]) -> Table:
    own = facts["ours"]
    paced = own["phases"][0]
    return aims_table(
        [
            Aim("search p50 under 25 ms", milliseconds(paced["p50"]), paced["p50"] < 25),
            Aim("search p99 under 100 ms", milliseconds(paced["p99"]), paced["p99"] < 100),
            Aim(
                "300 saves a second in bulk with vectors",
                rate(own["saved"]["with vectors"]),
                own["saved"]["with vectors"] >= 300,
            ),
            Aim(
                "more without",
                rate(own["saved"]["without"]),
                own["saved"]["without"] > own["saved"]["with vectors"],
            ),
        ]
    )


if __name__ == "__main__":
    main()
